"""The encoder from scratch: loads with plain transformers, and learns the embedded corpus."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from calibrant.methods import create  # noqa: E402
from calibrant.metrics import accumulate, accuracy, ece, entity_f1, mean_confidence  # noqa: E402
from calibrant.tasks.encoders.heads import with_head  # noqa: E402
from calibrant.tasks.encoders.small_encoder import (  # noqa: E402
    build_small_encoder,
    build_small_tokenizer,
    vocabulary,
)
from calibrant.tasks.language.synthetic import generate_splits  # noqa: E402
from calibrant.tasks.ner.subword_windows import encode  # noqa: E402
from calibrant.tasks.ner.word_predictions import predict_words  # noqa: E402
from calibrant.training.loop import Loop, Schedule, Windows  # noqa: E402

LABELS = ("O", *(f"{prefix}-{kind}" for kind in ("LOC", "ORG", "PER", "PROD") for prefix in "BI"))
SPLITS = generate_splits()


@pytest.fixture(scope="module")
def tokenizer():
    return build_small_tokenizer(word for s in SPLITS["train"] for word in s.words)


def test_vocabulary_does_not_depend_on_the_order_of_words() -> None:
    words = [word for s in SPLITS["train"] for word in s.words]
    assert vocabulary(words) == vocabulary(reversed(words))
    assert len(set(vocabulary(words))) == len(vocabulary(words))


def test_unknown_words_fall_into_known_parts(tokenizer) -> None:
    assert tokenizer.unk_token_id not in tokenizer("Zarburg Holberg wxyz").input_ids
    assert tokenizer("☃", add_special_tokens=False).input_ids == [tokenizer.unk_token_id]
    assert tokenizer.decode(tokenizer("Zarburg").input_ids, skip_special_tokens=True) == "Zarburg"


def test_gives_what_the_encoder_takes_with_any_version(tokenizer) -> None:
    assert tokenizer.model_input_names == ["input_ids", "attention_mask"]


def test_loads_with_plain_transformers(tokenizer, tmp_path: Path) -> None:
    model = build_small_encoder(tokenizer, LABELS, seed=3).eval()
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert (tmp_path / "tokenizer.json").exists()
    again = transformers.AutoTokenizer.from_pretrained(tmp_path)
    text = "Anna Holberg lives in Paris ."
    assert again(text).input_ids == tokenizer(text).input_ids
    loaded = transformers.AutoModelForTokenClassification.from_pretrained(tmp_path).eval()
    assert loaded.config.id2label == dict(enumerate(LABELS))
    batch = again(text, return_tensors="pt")
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        torch.testing.assert_close(loaded(**inputs).logits, model(**inputs).logits)


def test_seed_decides_the_weights_alone(tokenizer) -> None:
    torch.manual_seed(11)
    before = torch.get_rng_state()
    one, two, other = (build_small_encoder(tokenizer, LABELS, seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    a, b, c = (
        model.state_dict()["model.embeddings.tok_embeddings.weight"] for model in (one, two, other)
    )
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


def test_learns_the_news_and_is_overconfident_on_posts(tokenizer) -> None:
    parts = {name: encode(SPLITS[name], LABELS, tokenizer) for name in ("train", "test", "ood")}
    model = with_head(build_small_encoder(tokenizer, LABELS), len(LABELS))
    windows = Windows(parts["train"], "cpu", tokenizer.pad_token_id)
    schedule = Schedule(epochs=8, learning_rate=3e-3, warm_up=0.1)
    Loop(model, create("cross_entropy"), windows, schedule).run()
    test, posts = (predict_words(model, parts[name], LABELS) for name in ("test", "ood"))
    assert entity_f1(test) > 0.75
    assert ece(accumulate(test)) < 0.05
    assert ece(accumulate(posts)) > 0.10
    assert mean_confidence(accumulate(posts)) > accuracy(accumulate(posts)) + 0.08
