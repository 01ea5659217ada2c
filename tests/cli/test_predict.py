"""``calibrant predict`` and ``calibrant.load_run``."""

import csv
import io
import json
import shutil
import sys

import numpy as np
import pytest

import calibrant
from calibrant.cli import main
from calibrant.comparison import SpanCalibrator
from calibrant.errors import InputError
from calibrant.predictions import Predictions
from calibrant.tasks.language.sentences import Sentence
from calibrant.tasks.language.words import FIRST, SPLITTERS, split_words
from calibrant.tasks.ner.subword_windows import encode
from calibrant.tasks.ner.word_predictions import score_words

pytest.importorskip("transformers")

TEXTS = [
    "Shares of Norsoft Group fell five percent.",
    "",
    "Anna Holberg was born in Lindton and studied at Terralabs .",
    "On Monday the weather was strong .",
]


@pytest.fixture(scope="module")
def predictor(trained):
    return calibrant.load_run(trained[0], device="cpu")


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


def test_the_predictor_shows_what_it_is(predictor):
    text = repr(predictor)
    assert text.startswith("<EntityPredictor of ")
    assert text.endswith(f", calibrated by {predictor.calibrator.name}>")


def test_confidences_are_those_of_the_calibrated_model(predictor):
    text = "Police in Lindton arrested two men ."
    words = tuple(text.split())
    pieces = encode([Sentence(words, ("O",) * 7)], predictor.labels, predictor.tokenizer)
    raw = score_words(predictor.scorer, pieces, predictor.labels, padding=0)
    expected = predictor.calibrator.transform(raw).probabilities().max(axis=1)
    for entity in predictor.predict(text)[0].entities:
        for token in entity.tokens:
            word = words.index(token.text)
            assert token.confidence == pytest.approx(expected[word], rel=1e-5)


@pytest.mark.parametrize("reduction", ["product", "min", "mean"])
def test_the_confidence_of_an_entity_is_learned_on_validation(trained, predictor, reduction):
    fitted = SpanCalibrator(reduction).fit(Predictions.read(trained[0] / "raw_valid.parquet"))
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
    with pytest.raises(InputError, match=r"must be in \[0, 1\]"):
        predictor.predict(TEXTS, min_confidence=1.5)


def test_a_target_risk_takes_the_threshold_of_the_validation_split(predictor):
    for target in (0.01, 0.99):
        guarantee = predictor.threshold(target)
        for prediction in predictor.predict(TEXTS, target_risk=target):
            assert all(e.confidence >= guarantee.threshold for e in prediction.entities)
            assert all(e.confidence < guarantee.threshold for e in prediction.abstained)
    assert not any(p.entities for p in predictor.predict(TEXTS, target_risk=0.0001))


def test_batches_do_not_matter(predictor):
    parts = predictor.stream(TEXTS, batch=1)
    single = [entity for part in parts for entity in (*part.entities, *part.abstained)]
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


def test_colours_in_a_terminal_unless_switched_off(trained, capsys, monkeypatch):
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


def test_a_table_says_how_many_texts_have_no_row(trained, tmp_path, capsys):
    run, given, out = str(trained[0]), tmp_path / "in.jsonl", tmp_path / "out.csv"
    given.write_text(
        "".join(json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(TEXTS))
    )
    assert main(["predict", run, str(given), "-o", str(out)]) == 0
    rows = {row["id"] for row in csv.DictReader(out.read_text().splitlines())}
    missing = len(TEXTS) - len(rows)
    assert missing >= 1
    words = (
        "1 text without entities has" if missing == 1 else f"{missing} texts without entities have"
    )
    assert f"4 texts. {words} no row.\n" in capsys.readouterr().out
    given.write_text(json.dumps({"id": 2, "text": TEXTS[2]}) + "\n")
    assert main(["predict", run, str(given), "-o", str(out), "--overwrite"]) == 0
    assert "no row" not in capsys.readouterr().out
    assert main(["predict", run, str(given), "-o", str(tmp_path / "out.jsonl")]) == 0
    assert "no row" not in capsys.readouterr().out


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


def test_tables_with_semicolons(trained, tmp_path, capsys):
    given = tmp_path / "in.csv"
    given.write_text(f'id;text\n7;"{TEXTS[2]}; and, so on"\n')
    assert main(["predict", str(trained[0]), str(given), "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["id"], row["text"]) == ("7", f"{TEXTS[2]}; and, so on")


def test_bad_input_is_one_line(trained, tmp_path, capsys):
    run = str(trained[0])
    (tmp_path / "latin.txt").write_bytes(b"ok\n\xe9t\xe9\n")
    (tmp_path / "no.jsonl").write_text('{"text": "a"}\n{"txt": 1}\n')
    (tmp_path / "table.json").write_text("[]")
    (tmp_path / "words.csv").write_text("word\na\n")
    (tmp_path / "short.csv").write_text("id,text\n1,a\n2\n")
    (tmp_path / "unnamed.csv").write_text(",text\n0,a\n")
    (tmp_path / "twice.csv").write_text("id,text,id\n1,a,2\n")
    (tmp_path / "open.tsv").write_text('text\tid\n"a\t1\nb"\t2\n')
    (tmp_path / "quotes.tsv").write_text('id\ttext\n1\t"Go" Anna\n')
    (tmp_path / "half.jsonl").write_text('{"text": "a", "by": "\\ud83d"}\n')
    cases = [
        ([run, "none.txt"], "There is no file none.txt"),
        ([run, "none.csv"], "There is no file none.csv"),
        ([run, str(tmp_path / "table.json")], "expected a .txt file with a text on each line"),
        ([run, str(tmp_path / "words.csv")], "line 2: expected an object with a 'text'"),
        ([run, str(tmp_path / "short.csv")], "line 3 has a different number of columns"),
        ([run, str(tmp_path / "open.tsv")], "line 2: a quote begins a cell and is not closed"),
        (
            [run, str(tmp_path / "quotes.tsv")],
            "line 2: a cell begins with a quote and does not end",
        ),
        ([run, str(tmp_path / "unnamed.csv")], "line 1: column 1 has no name; give it one"),
        ([run, str(tmp_path / "twice.csv")], "line 1: two columns are called 'id'"),
        (
            [run, str(tmp_path / "half.jsonl"), "-o", str(tmp_path / "o.jsonl")],
            "line 1: the text contains half of a character",
        ),
        ([run, "a", "--top-k", "0"], "top_k must be a whole number of at least 1"),
        ([run, "a", "--target-risk", ".1", "--policy", "x"], "a policy or a target risk"),
        ([run, "a", "--policy", "none.json"], "There is no policy at none.json"),
        ([run, "a", "--masks", "there"], "--masks is for models of masks"),
        ([run, "a", "-o", "there.txt"], "predictions are written as .jsonl or .csv"),
        (
            [run, str(tmp_path / "latin.txt"), "-o", str(tmp_path / "latin.txt"), "--overwrite"],
            "cannot overwrite itself",
        ),
        ([run, "a", "--device", "cuda:99"], "Device 'cuda:99' cannot be used"),
        (
            [run, str(tmp_path / "latin.txt"), "-o", str(tmp_path / "o.jsonl")],
            "line 2 is not UTF-8",
        ),
        ([run, str(tmp_path / "no.jsonl"), "-o", str(tmp_path / "o.jsonl")], "line 2: expected"),
        ([str(tmp_path), "a"], "not the folder of a training run"),
        ([str(tmp_path / "nowhere"), "a"], "There is no folder"),
        ([run, str(tmp_path)], "is a folder: name a .txt, .jsonl or .csv file"),
        ([run, "a", "--target-risk", "2"], "must be in (0, 1)"),
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
        calibrant.load_run(tmp_path)


def test_the_audit_reads_what_training_wrote(trained):
    test = Predictions.read(trained[0] / "test.parquet")
    assert set(test.groups) == {"sentence", "position"}


def test_sentences_of_a_text_are_predicted_one_by_one(predictor):
    """A model of sentences sees sentences; places are those in the text."""
    parts = [TEXTS[0], "Anna Holberg was born in Lindton.", "She studied at Terralabs."]
    text = " ".join(parts)
    assert predictor.cutting.sentences
    expected = [
        (entity.type, start + entity.start, start + entity.end, round(entity.confidence, 4))
        for part, start in zip(parts, [0, 43, 77], strict=True)
        for entity in predictor.predict(part)[0].entities
    ]
    found = predictor.predict(text)[0].entities
    assert [(e.type, e.start, e.end, round(e.confidence, 4)) for e in found] == expected
    assert all(text[e.start : e.end] == e.text for e in found)
    whole = predictor.predict(text, sentences=False)[0]
    assert [round(e.confidence, 4) for e in whole.entities] != [e[3] for e in expected]


def test_words_that_are_given(trained, predictor, tmp_path, capsys):
    words = ["Anna", "Holberg", "was", "born", "in", "Lindton-on-Sea", "."]
    (listed,) = predictor.predict([words], tokens=True)
    (spaced,) = predictor.predict("  ".join(words), tokens=True)
    assert listed.text == " ".join(words)
    assert [e.words for e in listed.entities] == [e.words for e in spaced.entities]
    for entity in (*listed.entities, *spaced.entities):
        assert entity.text.split() == words[slice(*entity.words)]
    (tmp_path / "in.jsonl").write_text(json.dumps({"id": 7, "tokens": words}))
    assert main(["predict", str(trained[0]), str(tmp_path / "in.jsonl"), "--tokens", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["id"], row["tokens"]) == (7, words)
    assert [e["words"] for e in row["entities"]] == [list(e.words) for e in listed.entities]
    with pytest.raises(InputError, match="A list of words was given as a text"):
        predictor.predict([words])
    with pytest.raises(InputError, match=r"A text is expected, got 3\."):
        predictor.predict([3])
    with pytest.raises(InputError, match=r"A list of words or a text is expected, got \[3\]"):
        predictor.predict([[3]], tokens=True)
    with pytest.raises(InputError, match="each list of words is one sentence"):
        predictor.predict([words], tokens=True, sentences=True)


def test_given_words_do_not_replace_another_text(trained, tmp_path, capsys):
    run, path, words = str(trained[0]), tmp_path / "in.jsonl", ["Anna", "'s", "dog"]
    path.write_text(json.dumps({"text": "Anna's dog", "tokens": words}))
    assert main(["predict", run, str(path), "--tokens", "--json"]) == 2
    assert "line 1 already has a field 'text'" in capsys.readouterr().err
    assert main(["predict", run, str(path), "--tokens", "--json", "--field", "found"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["text"], row["found"]["text"]) == ("Anna's dog", "Anna 's dog")
    path.write_text(json.dumps({"text": "Anna 's dog", "tokens": words}))
    assert main(["predict", run, str(path), "--tokens", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["text"] == "Anna 's dog"


@pytest.mark.parametrize("name", ["tokens", "words"])
def test_words_separated_by_spaces_do_not_replace_another_text(trained, tmp_path, capsys, name):
    run, path = str(trained[0]), tmp_path / "in.jsonl"
    path.write_text(json.dumps({"text": "Anna's dog", name: "Anna 's dog"}))
    assert main(["predict", run, str(path), "--tokens", "--json"]) == 2
    assert "line 1 already has a field 'text'" in capsys.readouterr().err
    path.write_text(json.dumps({"text": "Anna 's dog", name: "Anna 's dog"}))
    assert main(["predict", run, str(path), "--tokens", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["text"] == "Anna 's dog"


def test_given_words_of_spaces_are_left_out_as_in_a_corpus(predictor):
    words = TEXTS[2].split()
    (plain,) = predictor.predict([words], tokens=True)
    assert plain.entities
    spaced = [part for word in words for part in (word, " ")]
    for given in (spaced, [*spaced, "\u200b"]):
        (found,) = predictor.predict([given], tokens=True)
        assert found.text == " ".join(given)
        assert [(e.type, e.confidence) for e in found.entities] == [
            (e.type, e.confidence) for e in plain.entities
        ]
        for entity, same in zip(found.entities, plain.entities, strict=True):
            first, end = same.words
            assert entity.words == (2 * first, 2 * end - 1)
            assert entity.text == " ".join(given[2 * first : 2 * end - 1])
    assert not predictor.predict([[" ", "\u200b"]], tokens=True)[0].entities


def test_given_words_have_the_map_and_the_guarantee_of_the_corpus(trained, predictor):
    given = Predictions.read(trained[0] / "valid.parquet")
    raw = Predictions.read(trained[0] / "raw_valid.parquet")
    for tokens, valid in ((True, given), (False, raw)):
        entities = len(SpanCalibrator().fit(valid).transform(valid))
        assert predictor.threshold(0.9, tokens=tokens).entities == entities


def test_the_guarantee_stands_in_every_line(trained, predictor, tmp_path, capsys):
    run, out = str(trained[0]), tmp_path / "out.jsonl"
    guarantee = predictor.threshold(0.4)
    arguments = ["predict", run, TEXTS[2], "--target-risk", "0.4"]
    assert main([*arguments, "--json"]) == 0
    assert main([*arguments, "-o", str(out)]) == 0
    printed = capsys.readouterr().out.splitlines()[0]
    assert json.loads(printed) == json.loads(out.read_text())
    found = json.loads(printed)["guarantee"]
    assert found["meaning"] == str(guarantee)
    assert (found["target"], found["level"], found["accepted"]) == (0.4, 0.9, guarantee.accepted)
    assert main(["predict", run, "Anna", "--target-risk", "0.0001", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["guarantee"]["threshold"] == "inf"


@pytest.mark.parametrize("field", ["entities", "abstained", "guarantee", "format"])
def test_no_field_of_the_input_is_replaced(trained, tmp_path, capsys, field):
    run, path = str(trained[0]), tmp_path / "in.jsonl"
    path.write_text(json.dumps({"text": TEXTS[2], field: "mine"}))
    for output in (["--json"], ["-o", str(tmp_path / "out.jsonl")]):
        assert main(["predict", run, str(path), *output]) == 2
        assert f"line 1 already has a field '{field}'" in capsys.readouterr().err
    assert main(["predict", run, str(path)]) == 0
    capsys.readouterr()
    assert main(["predict", run, str(path), "--json", "--field", "found"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["text"], row[field]) == (TEXTS[2], "mine")
    assert set(row["found"]) == {"format", "entities", "abstained"}
    path.write_text(json.dumps({"text": TEXTS[2], "found": 1}))
    assert main(["predict", run, str(path), "--json", "--field", "found"]) == 2
    assert "already has a field 'found'" in capsys.readouterr().err


def test_runs_of_earlier_versions_cut_as_they_did(trained, tmp_path):
    """They say nothing of words: one splitter, texts whole, and one validation split for all."""
    old = tmp_path / "old"
    shutil.copytree(trained[0], old)
    files = ("words.json", "raw_calibrator.json", "raw_valid.parquet", "entities.json")
    for name in (*files, "evidence.npz"):
        (old / name).unlink()
    made = calibrant.load_run(old, device="cpu")
    assert (made.cutting.splitter, made.cutting.sentences) == (FIRST, False)
    valid = Predictions.read(old / "valid.parquet")
    assert made.threshold(0.5).entities == len(SpanCalibrator().fit(valid).transform(valid))
    assert made.predict("Anna Holberg-Lund was born. 北京")
    (old / "words.json").write_text('{"splitter": {"inside": 3}}')
    with pytest.raises(InputError, match=r"words\.json cannot be read: "):
        calibrant.load_run(old, device="cpu")


def test_predicting_needs_no_validation_predictions(trained, predictor, tmp_path):
    """A run has all calibrators: the same entities, confidences and guarantees without logits."""
    bare = tmp_path / "bare"
    shutil.copytree(trained[0], bare)
    for path in bare.glob("*.parquet"):
        path.unlink()
    made = calibrant.load_run(bare, device="cpu")
    for tokens in (False, True):
        assert made.predict(TEXTS, tokens=tokens) == predictor.predict(TEXTS, tokens=tokens)
        assert made.threshold(0.3, tokens=tokens) == predictor.threshold(0.3, tokens=tokens)
    (bare / "entities.json").unlink()
    with pytest.raises(InputError, match=r"is damaged: it has no valid\.parquet"):
        calibrant.load_run(bare, device="cpu")


def test_runs_without_saved_maps_learn_them_again(trained, predictor, tmp_path):
    old = tmp_path / "old"
    shutil.copytree(trained[0], old)
    (old / "entities.json").unlink()
    made = calibrant.load_run(old, device="cpu")
    for reduction in ("auto", "product", "min", "mean"):
        options = {"reduction": reduction, "target_risk": 0.5}
        assert made.predict(TEXTS, **options) == predictor.predict(TEXTS, **options)


def test_training_says_what_raw_text_costs(trained):
    record = json.loads((trained[0] / "metrics.json").read_text())
    known = record["training"]["raw_text"]
    assert known["splitter"] in SPLITTERS
    for words in ("corpus", "raw"):
        assert f"F1 {100 * known['test'][words]['entity_f1']:.2f} %" in trained[1]
    assert "of the corpus' words (F1)" in trained[1]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("labels.json", b"[", "labels.json: not a list of label names"),
        ("labels.json", b'{"a": 1}', "labels.json: not a list of label names"),
        ("labels.json", b'["O", "B-X"]', "is damaged: its model and labels.json differ"),
        ("labels.json", None, "There is no file"),
        ("recipe.json", b"\xff", "recipe.json: not a recipe"),
        ("recipe.json", b"[" * 100_000, "nested too deeply"),
        ("recipe.json", b"{}", "recipe.json: not a recipe of a run"),
        ("calibrator.json", None, "is damaged: it has no calibrator.json"),
        ("calibrator.json", b"{}", "is not a calibrator saved by calibrant"),
        ("entities.json", b"{}", "entities.json: no calibrators of entities"),
        ("entities.json", b'{"signature": "calibrant entities", "format": 9}', "reads format 1"),
        (
            "entities.json",
            b'{"signature": "calibrant entities", "format": 1}',
            "entities.json is damaged: KeyError",
        ),
        ("evidence.npz", b"PK", "evidence.npz: not a complete npz file"),
        ("evidence.npz", None, "There is no file"),
    ],
)
def test_a_damaged_run_is_one_line(name, content, expected, trained, tmp_path, capsys):
    import shutil

    folder = tmp_path / "run"
    shutil.copytree(trained[0], folder)
    (folder / "temperature.json").unlink(missing_ok=True)
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)
    assert main(["predict", str(folder), "Rosa Lind", "--device", "cpu"]) == 2
    err = capsys.readouterr().err
    assert expected in err
    assert err.count("\n") == 1


def test_data_that_is_raw_text_has_no_words_to_compare_with():
    from calibrant.cli.run_numbers import describe_raw_text

    numbers = {"entity_f1": 0.5, "accepted": 0.5, "risk": 0.1}
    found = {"sentences": True, "splitter": "plain", "words": 1.0, "entities": 0.9, "unsure": 0.0}
    found |= {"target_risk": 0.1, "test": {"corpus": numbers}}
    assert "words (F1)" not in describe_raw_text(found)[0]
    found["test"] = {"corpus": numbers, "raw": numbers}
    assert "100.0 % of the corpus' words (F1)" in describe_raw_text(found)[0]
    found["words"] = 0.9999  # Some are cut otherwise.
    assert "99.99 % of the corpus' words (F1)" in describe_raw_text(found)[0]


@pytest.mark.parametrize(("lost", "suggested"), [(0.04, False), (0.2, True)])
def test_raw_text_that_costs_much_f1_suggests_words(lost, suggested):
    from calibrant.cli.run_numbers import describe_raw_text

    found = {"sentences": True, "splitter": "signs", "words": 0.6, "entities": 0.5, "unsure": 0.0}
    corpus, raw = ({"entity_f1": f1, "accepted": 0.5, "risk": 0.1} for f1 in (0.6, 0.6 - lost))
    found |= {"target_risk": 0.1, "test": {"corpus": corpus, "raw": raw}}
    last = describe_raw_text(found)[-1]
    assert ("Raw text costs 20.0 points of F1" in last and "--tokens" in last) == suggested


def test_two_standard_inputs_are_not_the_same_file():
    """A place in memory named the input, and the next process may have the same place."""
    from calibrant.cli.predict_input import Input
    from calibrant.cli.predict_output import _sources

    given = Input(iter(()), None, ())
    assert _sources(given) != _sources(given)
