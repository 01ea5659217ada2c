"""``calibrant predict`` and ``calibrant.load``."""

import io
import json
import sys

import numpy as np
import pytest

import calibrant
from calibrant.cli import main
from calibrant.comparison import EntityMap
from calibrant.errors import InputError
from calibrant.predictions import Predictions
from calibrant.tasks.pieces import encode
from calibrant.tasks.sentences import Sentence
from calibrant.tasks.words import split_words
from calibrant.training.prediction import predict_words

pytest.importorskip("transformers")

TEXTS = [
    "Shares of Norsoft Group fell five percent.",
    "",
    "Anna Holberg was born in Lindton and studied at Terralabs .",
    "On Monday the weather was strong .",
]


@pytest.fixture(scope="module")
def predictor(trained):
    return calibrant.load(trained[0], device="cpu")


def found(predictor, **options):
    return [
        entity
        for prediction in predictor.predict(TEXTS, **options)
        for entity in (*prediction.entities, *prediction.abstained)
    ]


def test_entities_stand_where_they_say(predictor):
    predictions = predictor.predict(TEXTS)
    assert [p.text for p in predictions] == TEXTS
    assert not predictions[1].entities
    assert sum(len(p.entities) for p in predictions) >= 2
    for prediction in predictions:
        for entity in prediction.entities:
            assert prediction.text[entity.start : entity.end] == entity.text
            assert entity.type in ("PER", "ORG", "LOC", "PROD")
            assert 0 <= entity.confidence <= 1
            for token in entity.tokens:
                assert prediction.text[token.start : token.end] == token.text


def test_confidences_are_those_of_the_calibrated_model(predictor):
    text = "Police in Lindton arrested two men ."
    words = tuple(text.split())
    pieces = encode([Sentence(words, ("O",) * 7)], predictor.labels, predictor.tokenizer)
    raw = predict_words(predictor.model, pieces, predictor.labels, padding=0)
    expected = predictor.calibrator.transform(raw).probabilities().max(axis=1)
    for entity in predictor.predict(text)[0].entities:
        for token in entity.tokens:
            word = words.index(token.text)
            assert token.confidence == pytest.approx(expected[word], rel=1e-5)


@pytest.mark.parametrize("reduction", ["product", "min", "mean"])
def test_the_confidence_of_an_entity_is_learned_on_validation(predictor, reduction):
    fitted = EntityMap(reduction).fit(predictor.valid)
    reduce = {"product": np.prod, "min": np.min, "mean": np.mean}[reduction]
    raw = predictor._words([split_words(TEXTS[0])])
    confidence = raw.probabilities().max(axis=1)
    places = [word.start for word in split_words(TEXTS[0])]
    [made] = predictor.predict(TEXTS[0], reduction=reduction)
    assert made.entities
    for entity in made.entities:
        first = places.index(entity.tokens[0].start)
        reduced = reduce(confidence[first : first + len(entity.tokens)])
        assert entity.confidence == pytest.approx(fitted.apply(np.array([reduced]))[0])


def test_it_abstains_below_a_confidence(predictor):
    values = sorted(entity.confidence for entity in found(predictor))
    middle = values[len(values) // 2]
    for prediction in predictor.predict(TEXTS, min_confidence=middle):
        assert all(entity.confidence >= middle for entity in prediction.entities)
        assert all(entity.confidence < middle for entity in prediction.abstained)
    with pytest.raises(InputError, match=r"lies in \[0, 1\]"):
        predictor.predict(TEXTS, min_confidence=1.5)


def test_a_target_risk_takes_the_threshold_of_the_validation_split(predictor):
    for target in (0.01, 0.99):
        guarantee = predictor.threshold(target)
        for prediction in predictor.predict(TEXTS, target_risk=target):
            assert all(e.confidence >= guarantee.threshold for e in prediction.entities)
            assert all(e.confidence < guarantee.threshold for e in prediction.abstained)
    assert not any(p.entities for p in predictor.predict(TEXTS, target_risk=0.0001))


def test_batches_do_not_matter(predictor, monkeypatch):
    monkeypatch.setattr("calibrant.prediction.predictor._TEXTS", 1)
    single = found(predictor)
    monkeypatch.undo()
    for one, many in zip(single, found(predictor), strict=True):
        assert (one.start, one.end, one.type) == (many.start, many.end, many.type)
        assert one.confidence == pytest.approx(many.confidence, rel=1e-4)


def test_a_text_of_ten_thousand_words_is_read_whole(predictor):
    text = "Anna Holberg was born in Lindton . " * 1500
    entities = predictor.predict(text)[0].entities
    assert entities
    assert max(entity.end for entity in entities) > 0.99 * len(text)


def test_a_text_on_the_command_line(trained, capsys):
    assert main(["predict", str(trained[0]), "--min-confidence", "0", TEXTS[2]]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0] == TEXTS[2]
    assert "\x1b" not in out
    assert "[" in out


def test_colours_in_a_terminal_unless_told_otherwise(trained, capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert main(["predict", str(trained[0]), TEXTS[2]]) == 0
    assert "\x1b[1;" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert main(["predict", str(trained[0]), TEXTS[2]]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_files_and_standard_input(trained, tmp_path, capsys, monkeypatch):
    run = str(trained[0])
    (tmp_path / "in.txt").write_text("\n".join(TEXTS) + "\n")
    (tmp_path / "in.jsonl").write_text(
        "".join(json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(TEXTS))
    )
    out = tmp_path / "out.jsonl"
    assert main(["predict", run, str(tmp_path / "in.jsonl"), "-o", str(out)]) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["id"] for row in rows] == [0, 1, 2, 3]
    assert main(["predict", run, str(tmp_path / "in.jsonl"), "-o", str(out)]) == 2
    assert "exists" in capsys.readouterr().err
    assert main(["predict", run, str(tmp_path / "in.txt"), "--json"]) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["entities"] for row in printed] == [row["entities"] for row in rows]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("\n".join(TEXTS).encode())))
    assert main(["predict", run, "--json", "--target-risk", "0.5"]) == 0
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == len(TEXTS)
    assert "risk" in captured.err or "at most" in captured.err


def test_a_mark_of_the_byte_order_and_blank_lines_are_no_texts(trained, tmp_path, capsys):
    run = str(trained[0])
    (tmp_path / "in.txt").write_text(TEXTS[2] + "\n", encoding="utf-8-sig")
    line = json.dumps({"text": TEXTS[2]})
    (tmp_path / "in.jsonl").write_text(f"{line}\n\n{line}\n\n", encoding="utf-8-sig")
    assert main(["predict", run, str(tmp_path / "in.txt"), "--json"]) == 0
    (row,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert row["text"] == TEXTS[2]
    assert main(["predict", run, str(tmp_path / "in.jsonl"), "--json"]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [row, row]


def test_bad_input_is_one_line(trained, tmp_path, capsys):
    run = str(trained[0])
    (tmp_path / "latin.txt").write_bytes(b"ok\n\xe9t\xe9\n")
    (tmp_path / "no.jsonl").write_text('{"text": "a"}\n{"txt": 1}\n')
    (tmp_path / "table.csv").write_text("text\na\n")
    cases = [
        ([run, "none.txt"], "There is no file none.txt"),
        ([run, "none.csv"], "There is no file none.csv"),
        ([run, str(tmp_path / "table.csv")], "expected a .txt file with a text on each line"),
        (
            [run, str(tmp_path / "latin.txt"), "-o", str(tmp_path / "latin.txt"), "--overwrite"],
            "not written over itself",
        ),
        ([run, "a", "--device", "cuda:99"], "Device 'cuda:99' cannot be used"),
        (
            [run, str(tmp_path / "latin.txt"), "-o", str(tmp_path / "o.jsonl")],
            "line 2 is not UTF-8",
        ),
        ([run, str(tmp_path / "no.jsonl"), "-o", str(tmp_path / "o.jsonl")], "line 2: expected"),
        ([str(tmp_path), "a"], "not the folder of a training run"),
        ([run, "a", "--target-risk", "2"], "lie in (0, 1)"),
    ]
    for arguments, message in cases:
        assert main(["predict", *arguments]) == 2
        err = capsys.readouterr().err
        assert message in err
        assert err.count("\n") == 1
    assert not (tmp_path / "o.jsonl").exists()


def test_an_unfinished_run_is_named(tmp_path):
    (tmp_path / "recipe.json").write_text("{}")
    with pytest.raises(InputError, match="is not finished"):
        calibrant.load(tmp_path)


def test_the_audit_reads_what_training_wrote(trained):
    test = Predictions.read(trained[0] / "test.parquet")
    assert set(test.groups) == {"sentence", "position"}
