"""A wrapped model is a run like a trained one; in Python it is an object that can be saved."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
import transformers
from small_models import TAGS, make_tagger, names, sentences, wordpiece

import calibrant
from calibrant import load
from calibrant.cli import main
from calibrant.experiments.record import read_record
from calibrant.wrapping import wrap_run

TEXT = "Anna Lind lives in Paris ."


def test_the_record_and_the_report(wrapped):
    record = read_record(wrapped / "metrics.json")
    assert record.recipe.engine == "wrapped"
    assert record.training["steps"] == 0
    assert record.results["identity"]["test"]["entity_f1"] > 0.8
    assert (wrapped / "report.html").exists()
    assert json.loads((wrapped / "labels.json").read_text()) == list(TAGS)


def test_predict_evaluate_and_guarantee(wrapped, tmp_path, capsys):
    assert main(["predict", str(wrapped), TEXT, "--json", "--device", "cpu"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [entity["text"] for entity in found["entities"]] == ["Anna Lind", "Paris"]
    command = ["evaluate", str(wrapped), "--device", "cpu", "--corrupt", "typos-1", "--json"]
    assert main(command) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    mine = next(one for one in results if one["calibrator"] == "identity")
    record = read_record(wrapped / "metrics.json")
    assert mine["test"]["ece"] == pytest.approx(record.results["identity"]["test"]["ece"])
    policy = tmp_path / "policy.json"
    assert main(["guarantee", str(wrapped), "--target-risk", "0.2", "-o", str(policy)]) == 0
    assert main(["predict", str(wrapped), TEXT, "--policy", str(policy), "--device", "cpu"]) == 0


@pytest.fixture(scope="module")
def merged(corpus, tmp_path_factory):
    """A run of a tagger whose places are of two types."""
    folder = tmp_path_factory.mktemp("merged")
    tags = (*TAGS, "B-GPE", "I-GPE")
    model = make_tagger(folder / "model", tags)
    names = {"GPE": "LOC"}
    wrap_run(
        str(model), "ner", str(corpus), folder / "run", labels=names, bootstrap=0, device="cpu"
    )
    return folder / "run"


def test_export_of_merged_classes(merged, tmp_path, capsys):
    pytest.importorskip("onnxscript")
    assert main(["export", str(merged), "-o", str(tmp_path / "export")]) == 0
    capsys.readouterr()
    texts = [" ".join(words) for words, _ in sentences(8, 3)]
    one, two = (
        [p for raw in load(path).raw_predictions(texts) for p in raw.scores.tolist()]
        for path in (merged, tmp_path / "export")
    )
    assert np.allclose(one, two, atol=1e-4)
    assert load(merged).labels == TAGS
    command = ["export", str(merged), "-o", str(tmp_path / "folded"), "--fold-temperature"]
    assert main(command) == 2
    assert "adds up classes" in capsys.readouterr().err


def test_adapt(wrapped, tmp_path, capsys):
    texts = tmp_path / "new.txt"
    texts.write_text("\n".join(" ".join(words) for words, _ in sentences(9, 40)))
    out = tmp_path / "adapted"
    command = ["adapt", str(wrapped), "--unlabelled", str(texts), "-o", str(out)]
    assert main([*command, "--device", "cpu", "--method", "em"]) == 0
    assert load(out).predict(TEXT)[0].entities


def test_the_command(tagger, corpus, tmp_path, capsys):
    command = ["wrap", str(tagger), "--task", "ner", "--data", str(corpus), "--bootstrap", "0"]
    command += ["-o", str(tmp_path / "run"), "--device", "cpu"]
    assert main(command) == 0
    assert "Predictions are made with" in capsys.readouterr().out
    assert main([*command, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["command"], document["finished_before"]) == ("wrap", True)
    assert main([*command, "--scheme", "io"]) == 2
    assert "another recipe: scheme 'auto' (now 'io')" in capsys.readouterr().err


SCHEMES = {
    "without prefixes": (("O", "PER", "LOC"), lambda tag: tag.split("-")[-1], {}),
    "io": (("I-LOC", "O", "I-PER"), lambda tag: tag.replace("B-", "I-"), {}),
    "iob1": (TAGS, lambda tag: tag.replace("B-", "I-"), {"scheme": "io"}),
    "iob1, found on the data": (TAGS, lambda tag: tag.replace("B-", "I-"), {}),
    "iob1, found by its names": (
        ("O", "B-LOC", "I-LOC", "I-PER"),
        lambda tag: tag.replace("B-", "I-"),
        {},
    ),
    "classes in another order": (TAGS[::-1], lambda tag: tag, {}),
    "without names": (
        tuple(f"LABEL_{n}" for n in range(5)),
        lambda tag: f"LABEL_{TAGS.index(tag)}",
        {"labels": {f"LABEL_{n}": tag for n, tag in enumerate(TAGS)}},
    ),
    "fewer types": (
        ("O", "B-PER", "I-PER"),
        lambda tag: "O" if "LOC" in tag else tag,
        {"unseen_types": "drop"},
    ),
}


@pytest.mark.filterwarnings("ignore::calibrant.calibrators.CalibrationWarning")
@pytest.mark.filterwarnings("ignore::calibrant.experiments.evaluation.LeftOutWarning")
@pytest.mark.parametrize("scheme", SCHEMES)
def test_schemes_and_names(scheme, corpus, tmp_path):
    """Records and evaluation agree: both see the corpus in the tags of the model."""
    from calibrant.experiments.evaluation import evaluate

    tags, own, options = SCHEMES[scheme]
    model = make_tagger(tmp_path / "model", tags, steps=40, own=own)
    record = wrap_run(
        str(model), "ner", str(corpus), tmp_path / "run", bootstrap=0, device="cpu", **options
    )
    numbers = record.results["identity"]["test"]
    assert numbers["entity_f1"] > 0.8
    again = evaluate(tmp_path / "run", device="cpu")["identity"]["test"]
    assert again["entity_f1"] == numbers["entity_f1"]
    if scheme == "fewer types":
        assert "became O: LOC" in " ".join(record.training["notes"])
    found = load(tmp_path / "run").predict(TEXT)[0].entities
    assert ("Anna Lind", "PER") in [(entity.text, entity.type) for entity in found]


def test_in_python(tagger, tmp_path):
    model = transformers.AutoModelForTokenClassification.from_pretrained(tagger)
    before = dict(model.config.id2label)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tagger)
    valid = [
        (words, [tag.replace("PER", "Person") for tag in tags]) for words, tags in sentences(5, 40)
    ]
    wrapped = calibrant.wrap(
        model,
        tokenizer,
        valid,
        valid[:8],
        labels={"PER": "Person"},
        bootstrap=0,
    )
    assert model.config.id2label == before
    found = wrapped.predict([TEXT])[0].entities
    assert [(e.text, e.type) for e in found] == [("Anna Lind", "Person"), ("Paris", "LOC")]
    wrapped.save(tmp_path / "run")
    assert load(tmp_path / "run").predict([TEXT])[0].entities == found
    with pytest.raises(calibrant.InputError, match="exists"):
        wrapped.save(tmp_path / "run")


def test_texts_in_python_without_test_data():
    torch.manual_seed(0)
    tokenizer = wordpiece()
    config = transformers.BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=32, **names(("no", "yes")),
    )  # fmt: skip
    model = transformers.BertForSequenceClassification(config)
    valid = [
        (" ".join(words), ("no", "yes")[n % 2]) for n, (words, _) in enumerate(sentences(5, 40))
    ]
    wrapped = calibrant.wrap(model, tokenizer, valid, bootstrap=0)
    assert wrapped.record.training["notes"][0].startswith("No test data: 4 validation examples")
    assert wrapped.predict("Anna loves Rome .")[0].label in ("no", "yes")
    # Longer than the 32 pieces that the model takes.
    assert wrapped.predict("Anna " * 100)[0].label in ("no", "yes")


def test_images_in_python(pets):
    from test_as_pipelines import vit

    model = transformers.ViTForImageClassification.from_pretrained
    folder = pets.parent / "vit"
    vit(folder)
    processor = transformers.AutoImageProcessor.from_pretrained(folder)
    files = {
        s: [(p, p.parent.name) for p in sorted((pets / s).rglob("*.png"))]
        for s in ("valid", "test")
    }
    wrapped = calibrant.wrap(model(folder), processor, files["valid"], files["test"], bootstrap=0)
    assert wrapped.predict([files["test"][0][0]])[0].label in ("cat", "dog", "owl")


def test_iob1_is_found_and_stated(corpus, tmp_path):
    model = make_tagger(tmp_path / "model", TAGS, steps=40, own=lambda tag: tag.replace("B-", "I-"))
    record = wrap_run(str(model), "ner", str(corpus), tmp_path / "run", bootstrap=0, device="cpu")
    assert any("begins entities with I-" in note for note in record.training["notes"])
    assert load(tmp_path / "run").labels == ("O", "I-LOC", "I-PER")


def test_a_tagger_of_bio_is_not_taken_for_iob1(wrapped):
    record = read_record(wrapped / "metrics.json")
    assert not any("IOB1" in note for note in record.training["notes"])


def test_a_model_in_training_stays_in_training(tagger):
    """Dropout is off while a model is wrapped, and on again for whoever trains it."""
    model = transformers.AutoModelForTokenClassification.from_pretrained(tagger).train()
    model.bert.encoder.layer[0].eval()  # A part that is frozen.
    tokenizer = transformers.AutoTokenizer.from_pretrained(tagger)
    before = {name: part.training for name, part in model.named_modules()}
    made = calibrant.wrap(model, tokenizer, (pair for pair in sentences(5, 40)), bootstrap=0)
    assert {name: part.training for name, part in model.named_modules()} == before
    again = calibrant.wrap(model.eval(), tokenizer, sentences(5, 40), bootstrap=0)
    assert made.predict([TEXT]) == again.predict([TEXT])


def test_a_name_on_the_hub(corpus, tmp_path):
    """A cache as huggingface_hub keeps it, and no network."""
    commit, cache = "0123456789abcdef0123456789abcdef01234567", tmp_path / "hub"
    repository = cache / "models--someone--tagger"
    make_tagger(repository / "snapshots" / commit, TAGS, steps=40)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    command = ["wrap", "someone/tagger", "--task", "ner", "--data", str(corpus), "-o", "run"]
    found = subprocess.run(
        [sys.executable, "-m", "calibrant", *command, "--bootstrap", "0", "--device", "cpu"],
        env={**os.environ, "HF_HUB_CACHE": str(cache), "HF_HUB_OFFLINE": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    shutil.rmtree(cache)  # The run holds all that it needs.
    assert [e.text for e in load(tmp_path / "run").predict(TEXT)[0].entities] == [
        "Anna Lind",
        "Paris",
    ]
