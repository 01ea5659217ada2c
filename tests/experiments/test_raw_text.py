"""Texts with spans: evaluation agrees with prediction, and training cuts no words."""

import json

import numpy as np
import pytest

import calibrant
from calibrant.experiments.evaluation import evaluate
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.run import train

pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore::calibrant.calibrators.CalibrationWarning")

NAMES = ["Anna", "Boris", "Clara", "Dario", "Elena", "Felix"]
PLACES = ["Paris", "Rome", "Oslo", "Lima", "Accra", "Tallinn"]


def text_with_spans(random):
    """Sentences with persons and places; some are parts of words, and two may share one."""
    name, place, other = (str(random.choice(words)) for words in (NAMES, PLACES, PLACES))
    parts = [
        [(name, "PER"), " lives in ", (place, "LOC")],
        [(name, "PER"), " is a ", (place, "LOC"), "-based cook"],
        [(name, "PER"), " takes the ", (place, "LOC"), "-", (other, "LOC"), " train"],
        [(name, "PER"), " sleeps"],
    ][int(random.integers(4))]
    text, spans = "", []
    for part in parts:
        word, kind = (part, None) if isinstance(part, str) else part
        if kind is not None:
            spans.append([len(text), len(text) + len(word), kind])
        text += word
    more = " Nobody knows why." if random.random() < 0.3 else ""
    return {"text": f"{text}.{more}", "entities": spans}


@pytest.fixture(scope="module")
def spans(tmp_path_factory):
    random, folder = np.random.default_rng(0), tmp_path_factory.mktemp("spans")
    for split, size in {"train": 150, "dev": 60, "test": 80}.items():
        rows = (json.dumps(text_with_spans(random)) for _ in range(size))
        (folder / f"{split}.jsonl").write_text("\n".join(rows))
    return folder


def trained(data, folder):
    settings = {"model": "tiny", "epochs": 3, "batch": 8, "learning_rate": 5e-3, "head_width": 16}
    recipe = Recipe.from_dict({"data": str(data), "dtype": "float32", **settings})
    return train(recipe, folder, device="cpu", bootstrap=0, say=str)


@pytest.fixture(scope="module")
def run(spans, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "spans"
    return folder, trained(spans, folder)


def found_and_right(folder, path):
    """Predicted, gold and right entities, places and types exact, by a plain loop."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    made = calibrant.load_run(folder, device="cpu").predict([row["text"] for row in rows])
    gold = {(i, *map(str, s)) for i, row in enumerate(rows) for s in row["entities"]}
    predicted = {
        (i, str(e.start), str(e.end), e.type) for i, p in enumerate(made) for e in p.entities
    }
    return len(predicted), len(gold), len(predicted & gold)


def test_evaluating_a_file_gives_what_predicting_it_gives(run, spans):
    predicted, gold, right = found_and_right(run[0], spans / "test.jsonl")
    expected = 2 * right / (predicted + gold)
    assert expected > 0.3
    for data in (None, str(spans / "test.jsonl")):
        results = evaluate(run[0], data, device="cpu")
        assert results["identity"]["test"]["entity_f1"] == pytest.approx(expected, abs=1e-12)


def test_the_splitter_is_the_one_that_spans_fit(run):
    """Hyphens part places here; evaluating cut words at gold edges, predicting did not."""
    known = run[1].training["raw_text"]
    assert known["entities"] == 1.0
    assert known["splitter"] == "hyphens"
    assert "raw" not in known["test"]


def test_entities_inside_of_words_are_missed(run, tmp_path):
    """And whatever is predicted there is wrong."""
    rows = [{"text": f"{name}ish sleeps.", "entities": [[0, len(name), "PER"]]} for name in NAMES]
    rows += [{"text": "Anna sleeps.", "entities": [[0, 4, "PER"]]}] * 3
    path = tmp_path / "odd.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    predicted, gold, right = found_and_right(run[0], path)
    assert (gold, right <= 3) == (len(rows), True)
    results = evaluate(run[0], str(path), corrupt=["dropped-words-1"], device="cpu")
    found = results["identity"]["test"]["entity_f1"]
    assert found == pytest.approx(2 * right / (predicted + gold), abs=1e-12)


def test_a_run_of_words_is_asked_about_raw_text(corpus, spans, tmp_path):
    """Entities that its splitter does not fit are counted, also those that share a word."""
    record = trained(corpus, tmp_path / "words")
    assert set(record.training["raw_text"]["test"]) == {"corpus", "raw"}
    predicted, gold, right = found_and_right(tmp_path / "words", spans / "test.jsonl")
    results = evaluate(tmp_path / "words", str(spans / "test.jsonl"), device="cpu")
    found = results["identity"]["test"]["entity_f1"]
    assert found == pytest.approx(2 * right / (predicted + gold), abs=1e-12)
