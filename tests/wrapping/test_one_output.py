"""Models with one output, whose probability is a sigmoid: two classes, in every command."""

import json
import shutil

import numpy as np
import pytest
import torch
import transformers
from small_models import SMALL, make_tagger, names, save, sentences

from calibrant import Predictions, load, load_calibrator
from calibrant.cli import main
from calibrant.tasks.encoders.merged_classes import MergedClasses, OneOutput
from calibrant.tasks.label_matching import match_classes
from calibrant.wrapping import wrap, wrap_run

TEXTS = [" ".join(words) for words, _ in sentences(7, 5)]


def probabilities(predictor, given):
    return next(predictor.raw_predictions(given)).probabilities()


def positive(model, given, kind="text-classification"):
    """The score of the one label of a pipeline, which takes a sigmoid."""
    classify = transformers.pipeline(kind, model=str(model), device="cpu")
    return [one[0]["score"] if isinstance(one, list) else one["score"] for one in classify(given)]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one") / "model"
    return make_tagger(folder, ("pos",), kind="BertForSequenceClassification")


@pytest.fixture(scope="module")
def run(model, texts):
    folder = model.parent / "run"
    wrap_run(str(model), "text", str(texts), folder, bootstrap=0, device="cpu")
    return folder


def test_scores_are_those_of_the_pipeline(model, run):
    predictor = load(run, "cpu")
    assert predictor.labels == ("neg", "pos")
    found = probabilities(predictor, TEXTS)
    np.testing.assert_allclose(found[:, 1], positive(model, TEXTS), atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=1), 1)


def test_labels_of_the_run_are_those_of_the_corpus(run, texts):
    rows = [json.loads(line) for line in (texts / "test.jsonl").read_text().splitlines()]
    found = Predictions.read(run / "test.parquet")
    assert [found.names[k] for k in found.labels] == [row["label"] for row in rows]


def test_every_command_takes_the_run(run, tmp_path, capsys):
    assert main(["predict", str(run), TEXTS[0], "--json", "--device", "cpu"]) == 0
    assert json.loads(capsys.readouterr().out)["label"] in ("neg", "pos")
    assert main(["evaluate", str(run), "--device", "cpu", "--json"]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    recorded = json.loads((run / "metrics.json").read_text())["results"]["identity"]["test"]
    mine = next(one for one in results if one["calibrator"] == "identity")
    assert mine["test"]["ece"] == pytest.approx(recorded["ece"])
    policy = str(tmp_path / "policy.json")
    assert main(["guarantee", str(run), "--target-risk", "0.6", "-o", policy]) == 0


def test_exports(run, tmp_path, capsys):
    pytest.importorskip("onnxscript")
    assert main(["export", str(run), "-o", str(tmp_path / "export")]) == 0
    found = [probabilities(load(folder), TEXTS) for folder in (run, tmp_path / "export")]
    np.testing.assert_allclose(*found, atol=1e-5)
    folded = tmp_path / "folded"
    assert main(["export", str(run), "-o", str(folded), "--fold-temperature"]) == 0
    raw = next(load(run).raw_predictions(TEXTS))
    honest = load_calibrator(run / "temperature.json").transform(raw).probabilities()[:, 1]
    np.testing.assert_allclose(positive(folded, TEXTS), honest, atol=1e-5)


def test_the_model_of_a_run_can_be_wrapped_again(run, texts, tmp_path):
    wrap_run(str(run / "model"), "text", str(texts), tmp_path / "run", bootstrap=0, device="cpu")
    found = [probabilities(load(folder, "cpu"), TEXTS) for folder in (run, tmp_path / "run")]
    np.testing.assert_allclose(*found, atol=1e-6)


def test_an_image_classifier(pets, tmp_path):
    torch.manual_seed(0)
    for split in ("valid", "test"):
        shutil.copytree(pets / split, tmp_path / "pets" / split)
        shutil.rmtree(tmp_path / "pets" / split / "owl")
    config = transformers.ViTConfig(**SMALL, image_size=32, patch_size=8, **names(["LABEL_0"]))
    processor = transformers.ViTImageProcessor(size={"height": 32, "width": 32})
    model = save(transformers.ViTForImageClassification(config), processor, tmp_path / "model")
    data = str(tmp_path / "pets")
    options = {"labels": {"LABEL_0": "cat"}, "bootstrap": 0, "device": "cpu"}
    wrap_run(str(model), "image", data, tmp_path / "run", **options)
    predictor = load(tmp_path / "run", "cpu")
    assert predictor.labels == ("dog", "cat")
    files = [str(path) for path in sorted((tmp_path / "pets").rglob("[0-2].png"))]
    wanted = positive(model, files, "image-classification")
    np.testing.assert_allclose(probabilities(predictor, files)[:, 1], wanted, atol=1e-3)


def test_in_python(model, texts):
    network = transformers.AutoModelForSequenceClassification.from_pretrained(model)
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    rows = [json.loads(line) for line in (texts / "dev.jsonl").read_text().splitlines()]
    pairs = [(row["text"], row["label"]) for row in rows]
    honest = wrap(network, tokenizer, pairs, pairs, bootstrap=0)
    assert {found.label for found in honest.predict(TEXTS)} <= {"neg", "pos"}
    found = probabilities(honest.predictor, TEXTS)
    np.testing.assert_allclose(found[:, 1], positive(model, TEXTS), atol=1e-6)
    assert network.config.id2label == {0: "pos"}


def refused(capsys, folder, model, data, *more):
    command = ["wrap", str(model), "--task", "text", "--data", str(data), "-o", str(folder / "no")]
    assert main([*command, "--device", "cpu", "--bootstrap", "0", *more]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert not (folder / "no").exists()
    return error


def test_the_class_of_the_output_is_never_guessed(texts, tmp_path, capsys):
    model = make_tagger(tmp_path / "model", ("LABEL_0",), kind="BertForSequenceClassification")
    error = refused(capsys, tmp_path, model, texts)
    assert "The model has one output, 'LABEL_0'" in error
    assert "which has neg, pos: --labels LABEL_0=pos" in error
    assert "not a class of the model" in refused(
        capsys, tmp_path, model, texts, "--labels", "score=pos"
    )


def test_a_corpus_of_three_classes(tmp_path, capsys, model):
    from small_models import write_texts

    (tmp_path / "three").mkdir()
    data = write_texts(tmp_path / "three", ("neg", "pos", "none"))
    assert "The corpus has 3 classes" in refused(capsys, tmp_path, model, data)


def test_models_of_numbers(texts, tmp_path, capsys):
    model = make_tagger(
        tmp_path / "model", ("pos",), kind="BertForSequenceClassification",
        problem_type="regression",
    )  # fmt: skip
    error = refused(capsys, tmp_path, model, texts)
    assert "predicts numbers (its problem_type is regression)" in error


@pytest.mark.parametrize(
    ("own", "corpus", "mapping", "names"),
    [
        ("LABEL_0", ("0", "1"), {}, ("0", "1")),
        ("LABEL_0", ("1", "0"), {}, ("0", "1")),
        ("LABEL_0", ("0", "1"), {"LABEL_0": "0"}, ("1", "0")),
        ("spam", ("spam", "ham"), {}, ("ham", "spam")),
    ],
)
def test_both_classes(own, corpus, mapping, names):
    assert match_classes([own], corpus, mapping) == names


def test_wrappers_take_new_names():
    from calibrant.tasks.encoders.fine_tuned import with_classes

    inner = torch.nn.Identity()
    inner.config = transformers.PretrainedConfig(id2label={0: "x"}, label2id={"x": 0})
    one = with_classes(with_classes(inner, ("a", "b")), ("c", "d"))
    assert isinstance(one, OneOutput)
    assert (one.model, one.names, one.config.id2label) == (inner, ("c", "d"), {0: "c", 1: "d"})
    merged = with_classes(MergedClasses(inner, ("a", "b", "a")), ("c", "d"))
    assert (merged.model, merged.names, merged.labels) == (inner, ("c", "d", "c"), ("c", "d"))
