"""``audit``, ``fit`` and ``apply`` of the entities of any tool."""

import json
from pathlib import Path

import pytest
from tests.entities.conftest import made_documents

from calibrant.cli import main
from calibrant.entities import load_entity_calibrator, read_entities


def write(path, documents, form="entities"):
    lines = []
    for each in documents:
        entities = [
            {"start": e.start, "end": e.end, "label": e.type}
            | ({} if e.score is None else {"score": e.score})
            for e in each.entities
        ]
        lines.append(json.dumps({"id": each.id, "text": each.text, form: entities}))
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.fixture
def files(tmp_path):
    predicted, gold = made_documents(count=200)
    return write(tmp_path / "found.jsonl", predicted), write(tmp_path / "gold.jsonl", gold, "ents")


def test_from_outputs_to_honest_confidences(files, tmp_path, capsys):
    calibrator, honest = str(tmp_path / "entities.json"), str(tmp_path / "honest.jsonl")
    report = tmp_path / "audit.html"
    assert main(["audit", "--entities", *files, "--report", str(report), "--bootstrap", "100"]) == 0
    printed = capsys.readouterr().out
    assert "types in 200 documents" in printed
    assert "Strict:\nOverconfident by" in printed
    assert "By type (strict):" in printed
    assert "Entity types" in report.read_text()

    assert main(["fit", "--entities", *files, "-o", calibrator]) == 0
    assert "from score, type and length" in capsys.readouterr().out
    assert main(["apply", calibrator, files[0], "-o", honest]) == 0
    assert "in 200 documents" in capsys.readouterr().out

    fitted = load_entity_calibrator(calibrator)
    before, after = read_entities(files[0]), read_entities(honest)
    for old, new in zip(before.documents, after.documents, strict=True):
        assert [e.span for e in old.entities] == [e.span for e in new.entities]
        assert [e.score for e in new.entities] == fitted.confidence(old.entities).tolist()

    numbers = {}
    for name, arguments in {"before": files, "after": (honest, files[1])}.items():
        assert main(["audit", "--entities", *arguments, "--json", "--bootstrap", "0"]) == 0
        numbers[name] = json.loads(capsys.readouterr().out)["entities"]["strict"]["measures"]
    assert numbers["after"]["ece"]["value"] < numbers["before"]["ece"]["value"] / 2

    both = ["audit", "--entities", *files, "--calibrator", calibrator, "--json", "--bootstrap", "0"]
    assert main(both) == 0
    found = json.loads(capsys.readouterr().out)["entities"]
    assert found["before"]["measures"]["ece"] == numbers["before"]["ece"]
    assert found["after"]["measures"]["ece"] == numbers["after"]["ece"]


def split(path, target, least=0.7):
    """Write the lines as ``predict --min-confidence`` does: the unsure entities are apart."""
    records = [json.loads(line) for line in Path(path).read_text().splitlines()]
    for record in records:
        found = record["entities"]
        record["entities"] = [e for e in found if e["score"] >= least]
        record["abstained"] = [e for e in found if e["score"] < least]
    target.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(target)


READERS = [
    ["audit", "--entities", "FOUND", "GOLD", "--bootstrap", "0"],
    ["fit", "--entities", "FOUND", "GOLD", "-o", "OUT.json"],
    ["guarantee", "--entities", "FOUND", "GOLD", "--max-missed=0.95", "-o", "OUT.json"],
]


@pytest.mark.parametrize("command", READERS, ids=lambda command: command[0])
def test_abstained_entities_are_predictions_too(command, files, tmp_path, capsys):
    names = {"GOLD": files[1], "OUT.json": str(tmp_path / "out.json")}
    found = []
    for path in (files[0], split(files[0], tmp_path / "split.jsonl")):
        assert main([{**names, "FOUND": path}.get(word, word) for word in command]) == 0
        saved = [file.read_text() for file in tmp_path.glob("out.json")]
        (tmp_path / "out.json").unlink(missing_ok=True)
        found.append((capsys.readouterr().out, saved))
    assert found[0] == found[1]


def test_decisions_about_abstained_entities(files, tmp_path, capsys):
    policy = str(tmp_path / "policy.json")
    made = ["guarantee", "--entities", *files, "--max-missed", "0.95", "--target-risk", "0.9"]
    assert main([*made, "-o", policy]) == 0
    found = []
    for path in (files[0], split(files[0], tmp_path / "split.jsonl")):
        output = tmp_path / "decisions.jsonl"
        assert main(["apply", path, "--policy", policy, "-o", str(output), "--overwrite"]) == 0
        found.append(output.read_text())
    assert found[0] == found[1]
    assert len(found[0].splitlines()) == sum(
        len(each.entities) for each in read_entities(files[0]).documents
    )


def test_the_calibrated_copy_has_nothing_of_the_old_confidences(files, tmp_path, capsys):
    calibrator, new = str(tmp_path / "entities.json"), tmp_path / "new.jsonl"
    assert main(["fit", "--entities", *files, "-o", calibrator]) == 0
    old = Path(split(files[0], tmp_path / "split.jsonl"))
    lines = [json.loads(line) for line in old.read_text().splitlines()]
    for line in lines:
        line |= {"guarantee": {"threshold": 0.7}, "review": [{"start": 0, "end": 1}], "mine": 1}
        for entity in (*line["entities"], *line["abstained"]):
            rest = 1 - entity["score"]
            shares = {"O": 0.5, "LOC": 0.25}  # A quarter is that of types below the top.
            entity["alternatives"] = [
                {"label": label, "confidence": rest * share} for label, share in shares.items()
            ]
    lines[5]["entities"] = [{"start": 280, "end": 283, "label": "PER", "score": 1.0}]
    lines[5]["entities"][0]["alternatives"] = [{"label": "O", "confidence": 0.0}]
    old.write_text("".join(json.dumps(line) + "\n" for line in lines))
    capsys.readouterr()
    assert main(["apply", calibrator, str(old), "-o", str(new)]) == 0
    assert capsys.readouterr().err.count("\n") == 1

    fitted = load_entity_calibrator(calibrator)
    copies = [json.loads(line) for line in new.read_text().splitlines()]
    for document, line in zip(read_entities(old).documents, copies, strict=True):
        assert line.keys() == {"id", "text", "entities", "abstained", "mine"}
        assert line["abstained"] == []
        assert [e["start"] for e in line["entities"]] == [e.start for e in document.entities]
        scores = [e["score"] for e in line["entities"]]
        assert scores == fitted.confidence(document.entities).tolist()
        for before, entity in zip(document.entities, line["entities"], strict=True):
            if before.score == 1:  # It left nothing, so nobody knows the shares.
                assert "alternatives" not in entity
                continue
            found = {other["label"]: other["confidence"] for other in entity["alternatives"]}
            rest = 1 - entity["score"]
            assert found == pytest.approx({"O": 0.5 * rest, "LOC": 0.25 * rest})

    assert main(["apply", calibrator, str(new), "-o", str(tmp_path / "again.jsonl")]) == 0
    assert capsys.readouterr().err == ""  # Nothing is left to take back.


def test_gold_files_have_no_abstained_entities(tmp_path):
    line = {"text": "Ada met Bob.", "entities": [{"start": 0, "end": 3, "type": "PER"}]}
    line["abstained"] = [{"start": 8, "end": 11, "type": "PER", "confidence": 0.4}]
    (tmp_path / "gold.jsonl").write_text(json.dumps(line) + "\n")
    (document,) = read_entities(tmp_path / "gold.jsonl", gold=True).documents
    assert [e.start for e in document.entities] == [0]
    (document,) = read_entities(tmp_path / "gold.jsonl").documents
    assert [e.start for e in document.entities] == [0, 8]


def test_fit_document(files, tmp_path, capsys):
    output = str(tmp_path / "entities.json")
    assert (
        main(["fit", "--entities", *files, "-o", output, "--json", "--match", "overlapping"]) == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert found["calibrator"] == "entities"
    assert found["learned"]["match"] == "overlapping"
    assert found["documents"] == 200


def test_a_tool_without_scores(tmp_path, capsys):
    predicted, gold = made_documents(count=100)
    found = write(tmp_path / "found.jsonl", predicted)
    records = [json.loads(line) for line in (tmp_path / "found.jsonl").read_text().splitlines()]
    for record in records:
        for entity in record["entities"]:
            del entity["score"]
    (tmp_path / "found.jsonl").write_text("\n".join(map(json.dumps, records)))
    files = [found, write(tmp_path / "gold.jsonl", gold)]
    output = str(tmp_path / "entities.json")
    assert main(["fit", "--entities", *files, "-o", output]) == 2
    assert "--without-scores" in capsys.readouterr().err
    assert main(["fit", "--entities", *files, "-o", output, "--without-scores"]) == 0
    assert main(["apply", output, found, "-o", str(tmp_path / "honest.jsonl")]) == 0
    audit = ["audit", "--entities", *files, "--without-scores", "--calibrator", output]
    assert main([*audit, "--bootstrap", "0"]) == 0
    assert "By type (after)" in capsys.readouterr().out


def test_other_names_of_types(tmp_path, capsys):
    predicted, gold = made_documents(count=100)
    found = write(tmp_path / "found.jsonl", predicted)
    text = (tmp_path / "found.jsonl").read_text().replace("PER", "PERSON")
    (tmp_path / "found.jsonl").write_text(text)
    files, output = [found, write(tmp_path / "gold.jsonl", gold)], str(tmp_path / "entities.json")
    assert main(["fit", "--entities", *files, "-o", output]) == 2
    assert "--type PERSON=NAME renames it" in capsys.readouterr().err
    assert main(["fit", "--entities", *files, "-o", output, "--type", "PERSON=PER"]) == 0
    # The calibrator knows the name of the tool from then on.
    assert main(["apply", output, found, "-o", str(tmp_path / "honest.jsonl")]) == 0
    (tmp_path / "found.jsonl").write_text(text.replace("LOC", "GPE"))
    again = ["apply", output, found, "-o", str(tmp_path / "more.jsonl")]
    assert main(again) == 2
    assert "'GPE' was not in the data" in capsys.readouterr().err
    assert main([*again[:-1], str(tmp_path / "more.json"), "--type", "GPE=LOC"]) == 2
    assert "keeps the form of found.jsonl" in capsys.readouterr().err
    assert main([*again, "--type", "GPE=LOC"]) == 0
    left_out = [*again, "--overwrite", "--type", "GPE="]
    assert main(left_out) == 0
    for old, new in zip(
        read_entities(found).documents,
        read_entities(tmp_path / "more.jsonl").documents,
        strict=True,
    ):
        for a, b in zip(old.entities, new.entities, strict=True):
            assert (a.score == b.score) == (a.type == "GPE")


def test_audit_with_a_calibrator_says_what_to_do_about_a_type_that_it_does_not_know(
    files, tmp_path, capsys
):
    fitted = str(tmp_path / "entities.json")
    assert main(["fit", "--entities", *files, "-o", fitted]) == 0
    for name in files:  # Some documents have a type that was not seen in fit.
        lines = Path(name).read_text().splitlines()
        new = [line.replace('"PER"', '"VULN"') for line in lines[:40]]
        Path(name).write_text("\n".join([*new, *lines[40:]]) + "\n")
    capsys.readouterr()
    audit = ["audit", "--entities", *files, "--calibrator", fitted]
    assert main(audit) == 2
    error = capsys.readouterr().err
    assert "'VULN' was not in the data" in error
    assert "'VULN=VULN' takes the confidence of all types together" in error
    assert main([*audit, "--type", "VULN=VULN"]) == 0
    assert main([*audit, "--type", "VULN="]) == 0


BAD = [
    (["audit", "--entities", "FOUND"], "takes two files, PREDICTED and GOLD, got 1"),
    (["audit", "--entities", "FOUND", "GOLD", "GOLD"], "takes two files"),
    (["audit", "--entities", "FOUND", "FOUND"], "are the same file"),
    (["audit", "--entities", "GOLD", "FOUND"], "are the two files swapped"),
    (["audit", "--entities", "GOLD", "COPY"], "is it a second gold file"),
    (["audit", "--entities", "FOUND", "no.jsonl"], "There is no file"),
    (["audit", "--entities", "FOUND", "GOLD", "--kind", "logits"], "--kind does not go with"),
    (
        ["audit", "--entities", "FOUND", "GOLD", "--keep-together", "x"],
        "--keep-together does not go",
    ),
    (["audit", "--entities", "FOUND", "GOLD", "--type", "PER"], "--type takes NAME=GOLD"),
    (["audit", "--entities", "FOUND", "GOLD", "--type", "Q=PER"], "Unknown type 'Q'"),
    (["audit", "--entities", "FOUND", "GOLD", "--calibrator", "GOLD"], "not an entity calibrator"),
    (["audit", "--entities", "SHORT", "GOLD"], "199 of 200 documents of GOLD are not in PREDICTED"),
    (["audit", "--entities", "FOUND", "GOLD", "--bins", "20000"], "at most 10,000 bins"),
    (["audit", "FOUND", "--match", "strict"], "--match is about entities"),
    (["audit", "FOUND", "--type", "A=B"], "--type is about entities"),
    (["fit", "FOUND", "-o", "o.json", "--without-scores"], "--without-scores is about entities"),
    (["fit", "--entities", "FOUND", "GOLD", "-o", "map.onnx"], "saved as .json"),
    (["fit", "--entities", "FOUND", "GOLD", "-o", "FOUND"], "saved as .json"),
    (
        ["fit", "--entities", "FOUND", "GOLD", "-o", "o.json", "--calibrator", "auto"],
        "--calibrator auto does not go with --entities",
    ),
    (
        ["fit", "--entities", "FOUND", "GOLD", "-o", "o.json", "--calibrator", "vector"],
        "needs the scores of all classes",
    ),
    (["fit", "--entities", "FOUND", "GOLD", "-o", "o.json", "--set", "a=1"], "--set does not go"),
]


@pytest.mark.parametrize(("arguments", "expected"), BAD)
def test_bad_input_is_one_line_and_writes_nothing(
    files, tmp_path, capsys, monkeypatch, arguments, expected
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "copy.jsonl").write_text((tmp_path / "gold.jsonl").read_text())
    first = (tmp_path / "found.jsonl").read_text().splitlines()[0]
    (tmp_path / "short.jsonl").write_text(first)
    names = {"FOUND": files[0], "GOLD": files[1], "COPY": "copy.jsonl", "SHORT": "short.jsonl"}
    before = sorted(tmp_path.iterdir())
    report = ["--report", "audit.html"] if arguments[0] == "audit" else []
    assert main([*(names.get(a, a) for a in arguments), *report]) == 2
    printed = capsys.readouterr()
    assert expected in printed.err
    assert printed.err.count("\n") == 1
    assert not printed.out
    assert sorted(tmp_path.iterdir()) == before


@pytest.fixture
def four(files, tmp_path):
    predicted, gold = made_documents(seed=5, count=150)
    test = write(tmp_path / "new.jsonl", predicted), write(tmp_path / "new-gold.jsonl", gold)
    return [*files, *test]


def test_compare_entities(four, capsys):
    options = ["--bootstrap", "100", "--folds", "3"]
    assert main(["compare", "--entities", *four, *options]) == 0
    printed = capsys.readouterr().out
    assert "* Recommended:" in printed
    assert "entities learns from score, type and length" in printed
    assert main(["compare", "--entities", *four, *options, "--json", "--match", "overlapping"]) == 0
    found = {row["name"]: row for row in json.loads(capsys.readouterr().out)["calibrators"]}
    assert {"identity", "temperature", "entities"} <= found.keys()
    assert found["entities"]["valid_nll"] < found["identity"]["valid_nll"]


def test_the_row_of_entities_is_that_of_fit_and_audit(four, tmp_path, capsys):
    """On TEST the compared calibrator has the numbers that fit, apply and audit would give."""
    assert main(["compare", "--entities", *four, "--bootstrap", "100", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["calibrators"]
    compared = next(row for row in rows if row["name"] == "entities")
    saved = str(tmp_path / "entities.json")
    assert main(["fit", "--entities", *four[:2], "-o", saved]) == 0
    capsys.readouterr()
    command = ["audit", "--entities", *four[2:], "--calibrator", saved, "--bootstrap", "0"]
    assert main([*command, "--json"]) == 0
    measures = json.loads(capsys.readouterr().out)["entities"]["after"]["measures"]
    assert compared["ece"] == pytest.approx(measures["ece"]["value"], abs=1e-6)


def test_each_compared_calibrator_can_be_applied(four, tmp_path, capsys):
    """Fit, apply and audit give the numbers of its row."""
    assert main(["compare", "--entities", *four, "--bootstrap", "100", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["calibrators"]
    tried = 0
    for row in rows:
        if row["name"] == "entities":
            continue
        saved, out = tmp_path / f"{row['name']}.json", tmp_path / f"{row['name']}.jsonl"
        fit = ["fit", "--entities", *four[:2], "-o", str(saved), "--calibrator", row["name"]]
        assert main(fit) == 0
        assert main(["apply", str(saved), four[2], "-o", str(out)]) == 0
        capsys.readouterr()
        command = ["audit", "--entities", str(out), four[3], "--bootstrap", "0", "--json"]
        assert main([*command, "--match", "strict"]) == 0
        measures = json.loads(capsys.readouterr().out)["entities"]["strict"]["measures"]
        assert row["ece"] == pytest.approx(measures["ece"]["value"], abs=1e-6), row["name"]
        assert row["nll"] == pytest.approx(measures["nll"]["value"], abs=1e-6), row["name"]
        tried += 1
    assert tried > 5


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--calibrators", "temperature"], "--calibrators does not go with --entities"),
        (["--output", "x.json"], "--output does not go with --entities"),
        (["--label-column", "y"], "--label-column does not go with --entities"),
    ],
)
def test_options_that_do_not_go_with_compare_entities(more, words, four, capsys):
    assert main(["compare", "--entities", *four, *more]) == 2
    assert words in capsys.readouterr().err


def test_compare_takes_four_files_of_entities(four, capsys):
    assert main(["compare", "--entities", *four[:2]]) == 2
    assert "takes four files" in capsys.readouterr().err
    assert main(["compare", *four]) == 2
    assert "takes two files, VALID and TEST, got 4" in capsys.readouterr().err
    assert main(["compare", "--entities", *four[:2], *four[:2]]) == 2
    assert "hold the same examples" in capsys.readouterr().err
    assert main(["compare", *four[:2], "--match", "strict"]) == 2
    assert "use it with --entities" in capsys.readouterr().err
