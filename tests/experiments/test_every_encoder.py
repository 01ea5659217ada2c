"""Encoders of nine kinds train alone and in stacks, and their results can be used."""

import dataclasses
import json
import shutil
import warnings

import numpy as np
import pytest
from people_corpus import write_corpus

from calibrant.calibrators import CalibrationWarning
from calibrant.errors import InputError
from calibrant.experiments.evaluation import evaluate
from calibrant.experiments.grid import take_turns
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.record import read_record
from calibrant.experiments.run import train

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
import calibrant  # noqa: E402
from calibrant.tasks.encoders.small_encoder import build_small_tokenizer  # noqa: E402

# DeBERTa scripts some of its functions, which torch has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")


WORDS = ["Anna", "Berg", "lives", "in", "Paris", "Acme", "hired", "Nobody", "knows", "why", "."]
USUAL = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
    "max_position_embeddings": 128,
}  # fmt: skip
KINDS = {
    "Bert": USUAL,
    "MPNet": USUAL,
    "DistilBert": {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24},
    "Roberta": USUAL,
    "DebertaV2": {**USUAL, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    "Electra": {**USUAL, "embedding_size": 8},
    "ModernBert": {**USUAL, "global_attn_every_n_layers": 2, "local_attention": 8},
    "Albert": {**USUAL, "embedding_size": 8},
    "XLNet": {"d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 24},
    "GPT2": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 128},
}


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("small"), train=24, dev=12, test=12)


@pytest.fixture(scope="session")
def encoder(tmp_path_factory):
    """A folder with a random encoder of a kind, made when it is first used."""
    made = {}
    tokenizer = build_small_tokenizer(WORDS * 3)

    def build(kind):
        if kind not in made:
            made[kind] = tmp_path_factory.mktemp(kind)
            config = getattr(transformers, f"{kind}Config")(
                vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, **KINDS[kind]
            )
            torch.manual_seed(0)
            transformers.AutoModel.from_config(config).save_pretrained(made[kind])
            tokenizer.save_pretrained(made[kind])
        return made[kind]

    return build


def recipe(corpus, folder, method, **changes):
    settings = {
        "data": str(corpus), "model": str(folder), "method": method, "epochs": 1, "batch": 8,
        "learning_rate": 1e-3, "head_width": 8, "dtype": "float32", "max_length": 96, **changes,
    }  # fmt: skip
    return Recipe.from_dict(settings)


@pytest.mark.parametrize("method", ["head_noise_error_regularization", "gamma_net_sece"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_trains_and_predicts(kind, method, encoder, corpus, tmp_path):
    lines = []
    made = recipe(corpus, encoder(kind), method)
    record = train(made, tmp_path / "run", device="cpu", bootstrap=0, say=lines.append)
    assert np.isfinite(record.results["identity"]["test"]["nll"])
    predictor = calibrant.load_run(tmp_path / "run", device="cpu")
    assert predictor.predict("Anna Berg lives in Paris .")[0].text
    assert all("\n" not in line for line in lines)


@pytest.mark.parametrize("kind", KINDS)
def test_runs_train_in_a_stack_or_one_by_one(kind, encoder, corpus):
    methods = {"cross_entropy": 8, "head_noise": 16}
    cells = [[recipe(corpus, encoder(kind), m, head_width=w)] for m, w in methods.items()]
    made = [o for o in take_turns([cells], 1, None, "cpu") if o is not None]
    assert [outcome.recipe.method for outcome in made] == list(methods)
    for outcome in made:
        assert np.isfinite(outcome.test.logits()).all()


LINEAR = ("Roberta", "Electra", "MPNet", "GPT2-0")  # The first three have layers of their own.


@pytest.fixture(scope="session")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    for split, size in {"train": 16, "dev": 9, "test": 9}.items():
        rows = [f"{WORDS[k % 3]} lives in Paris .,{k % 3}" for k in range(size)]
        (folder / f"{split}.csv").write_text("\n".join(["text,label", *rows]))
    return folder


@pytest.mark.parametrize("kind", [*KINDS, "GPT2-0"])
def test_a_classifier_of_texts_trains_and_is_evaluated(kind, encoder, texts, tmp_path):
    settings = {"task": "text", "learning_rate": 1e-3}
    made = recipe(
        texts, encoder(kind.removesuffix("-0")), "head_noise_error_regularization", **settings
    )
    made = dataclasses.replace(made, head_depth=0 if kind in LINEAR else 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)  # Random encoders learn nothing.
        train(made, tmp_path / "run", device="cpu", bootstrap=0, say=lambda _: None)
        found = evaluate(tmp_path / "run", device="cpu")
    assert found["identity"]["test"] == pytest.approx(
        read_record(tmp_path / "run" / "metrics.json").results["identity"]["test"]
    )


def test_an_encoder_with_fewer_positions_says_so(encoder, corpus, tmp_path):
    for kind, places, fits in (("Bert", 128, 128), ("Roberta", 127, 96), ("GPT2", 128, 128)):
        asked = recipe(corpus, encoder(kind), "cross_entropy", max_length=512)
        with pytest.raises(InputError, match=f"at most {places} pieces.*--max-length {fits}"):
            train(asked, tmp_path / kind, device="cpu")


def test_a_tokenizer_without_padding(encoder, corpus, tmp_path):
    """As those of decoders come."""
    folder = tmp_path / "encoder"
    shutil.copytree(encoder("GPT2"), folder)
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        if (folder / name).exists():
            content = json.loads((folder / name).read_text())
            content.pop("pad_token", None)
            (folder / name).write_text(json.dumps(content))
    made = recipe(corpus, folder, "cross_entropy")
    train(made, tmp_path / "run", device="cpu", bootstrap=0, say=lambda _: None)
    assert calibrant.load_run(tmp_path / "run", device="cpu").predict("Anna lives .")
