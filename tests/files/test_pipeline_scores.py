"""The output of a Hugging Face pipeline with top_k=None is read as it is, and written back."""

import json

import numpy as np
import pytest

import calibrant
from calibrant.cli import main
from calibrant.errors import InputError

NAMES = ["pos", "neg", "neutral"]


def outputs(seed, count=120):
    """Return the scores of each text, as a pipeline returns them, and the true labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, count)
    logits = 3 * (rng.normal(size=(count, 3)) + np.eye(3)[labels])
    scores = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    rows = [
        sorted(
            ({"label": n, "score": p} for n, p in zip(NAMES, row, strict=True)),
            key=lambda one: -one["score"],
        )
        for row in scores.tolist()
    ]
    return rows, [NAMES[k] for k in labels]


def write_lines(path, values):
    path.write_text("\n".join(json.dumps(value) for value in values) + "\n")
    return str(path)


@pytest.fixture
def lists(tmp_path):
    """Lists of scores, and the labels in a second file."""
    for seed, split in enumerate(("valid", "test")):
        rows, labels = outputs(seed)
        write_lines(tmp_path / f"{split}_scores.jsonl", rows)
        (tmp_path / f"{split}_labels.txt").write_text("\n".join(labels) + "\n")
    return tmp_path


def test_lists_and_objects_are_the_same_predictions(lists):
    rows, labels = outputs(1)
    records = [
        {"text": "a", "output": row, "label": y} for row, y in zip(rows, labels, strict=True)
    ]
    one = calibrant.read(str(lists / "test_scores.jsonl"))
    two = calibrant.read(write_lines(lists / "objects.jsonl", records))
    assert one.label_names == two.label_names == ("neg", "neutral", "pos")
    np.testing.assert_array_equal(one.scores, two.scores)
    assert [one.label_names[k] for k in one.labels] == labels
    first = {each["label"]: each["score"] for each in rows[0]}
    assert one.scores[0].tolist() == [first[name] for name in one.label_names]


def test_from_a_pipeline_to_honest_scores(lists, capsys):
    valid, test = (str(lists / f"{split}_scores.jsonl") for split in ("valid", "test"))
    saved, honest = str(lists / "calibrator.json"), lists / "honest.jsonl"
    assert main(["audit", test, "--bootstrap", "0"]) == 0
    assert "120 examples, 3 classes" in capsys.readouterr().out
    compared = ["compare", valid, test, "--calibrators", "temperature", "--bootstrap", "100"]
    assert main(compared) == 0
    assert main(["fit", valid, "-o", saved]) == 0
    assert main(["apply", saved, test, "-o", str(honest)]) == 0
    predictions = calibrant.load(saved).transform(calibrant.read(test))
    for line, row in zip(honest.read_text().splitlines(), predictions.scores, strict=True):
        found = json.loads(line)
        scores = [one["score"] for one in found]
        assert scores == sorted(scores, reverse=True)
        by_name = {one["label"]: one["score"] for one in found}
        wanted = dict(zip(predictions.label_names, row.tolist(), strict=True))
        assert by_name == pytest.approx(wanted)


def test_apply_needs_no_labels_and_keeps_the_other_keys(lists):
    rows, _ = outputs(1)
    records = [{"id": n, "scores": row} for n, row in enumerate(rows)]
    plain = write_lines(lists / "new.jsonl", records)
    saved, honest = str(lists / "calibrator.json"), lists / "honest.jsonl"
    assert main(["fit", str(lists / "valid_scores.jsonl"), "-o", saved]) == 0
    assert main(["apply", saved, plain, "-o", str(honest)]) == 0
    found = [json.loads(line) for line in honest.read_text().splitlines()]
    assert [record["id"] for record in found] == list(range(120))
    assert {one["label"] for one in found[0]["scores"]} == set(NAMES)


def test_a_pipeline_itself(tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("torch")
    from tests.wrapping.small_models import make_tagger, sentences

    from calibrant.tasks.encoders.foreign_models import quiet

    model = make_tagger(tmp_path / "model", NAMES, kind="BertForSequenceClassification")
    with quiet():
        classify = transformers.pipeline("text-classification", model=str(model), device="cpu")
        texts = [" ".join(words) for words, _ in sentences(0, 12)]
        found = classify(texts, top_k=None)
    path = write_lines(tmp_path / "scores.jsonl", found)
    (tmp_path / "labels.txt").write_text("pos\nneg\n" * 6)
    read = calibrant.read(path)
    assert (len(read), read.kind) == (12, "probabilities")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows, _: rows.append(rows[0]), "more lines than labels, 120"),
        (lambda rows, _: rows.pop(), "119 lines, and 120 labels"),
        (lambda rows, _: rows[5].pop(), "3 names of the first line"),
        (lambda rows, _: rows[5][0].pop("score"), "expected scores of a pipeline at line 6"),
        (lambda rows, _: rows[5][0].update(label="neg"), "at line 6"),
        (lambda rows, _: rows[5].append(dict(rows[5][0])), "a label has two scores at line 6"),
        (lambda rows, _: rows[5][0].update(score="high"), "line 6"),
        (lambda rows, _: rows.__setitem__(5, 7), "line 6: expected a JSON object"),
        (lambda rows, _: rows.__setitem__(5, {"x": 1}), "expected scores of a pipeline at line 6"),
        (lambda _, labels: labels.__setitem__(3, "good"), "good"),
    ],
)
def test_bad_lines(change, words, tmp_path):
    rows, labels = outputs(0)
    change(rows, labels)
    path = write_lines(tmp_path / "scores.jsonl", rows)
    (tmp_path / "labels.txt").write_text("\n".join(labels))
    with pytest.raises(InputError, match=words):
        calibrant.read(path)


def test_without_labels_the_error_says_where_they_may_be(tmp_path):
    path = write_lines(tmp_path / "test_scores.jsonl", outputs(0)[0])
    with pytest.raises(InputError, match=r"test_labels\.txt"):
        calibrant.read(path)


@pytest.mark.parametrize("form", ["objects", "lists of one"])
@pytest.mark.parametrize(
    ("scores", "labels"),
    [("test_scores", "test_labels"), ("answers", "answers_labels"), ("answers", "labels")],
)
def test_the_top_label_alone(tmp_path, capsys, scores, labels, form):
    """What a pipeline returns without top_k, with the true labels in a second file."""
    rows, true = outputs(0)
    top = [row[0] for row in rows]
    lines = top if form == "objects" else [[one] for one in top]
    path = write_lines(tmp_path / f"{scores}.jsonl", lines)
    (tmp_path / f"{labels}.txt").write_text("\n".join(true) + "\n")
    claims = calibrant.read(path)
    assert claims.kind == "top-label"
    assert claims.confidence.tolist() == [one["score"] for one in top]
    expected = [one["label"] == y for one, y in zip(top, true, strict=True)]
    assert claims.correct.tolist() == expected
    saved, out = str(tmp_path / "map.json"), tmp_path / "honest.jsonl"
    assert main(["fit", path, "-o", saved]) == 0
    assert main(["apply", saved, path, "-o", str(out)]) == 0
    written = [json.loads(line) for line in out.read_text().splitlines()]
    ones = written if form == "objects" else [one for (one,) in written]
    assert [one["label"] for one in ones] == [one["label"] for one in top]
    assert all(one.keys() == {"label", "score"} for one in ones)
    (tmp_path / f"{labels}.txt").write_text("\n".join(true[:-1]) + "\n")
    with pytest.raises(InputError, match="more lines than labels"):
        calibrant.read(path)


def test_a_json_file_says_what_to_write(tmp_path, capsys):
    path = tmp_path / "all.json"
    path.write_text(json.dumps(outputs(0)[0]))
    assert main(["audit", str(path)]) == 2
    assert "each element of the list on its own line" in capsys.readouterr().err
