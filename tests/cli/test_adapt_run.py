"""``calibrant adapt`` and ``calibrant watch`` of a run: texts that its model predicts."""

import json
import shutil

import numpy as np
import pytest

from calibrant import Predictions, load_calibrator, load_run
from calibrant.calibrators.correction import corrected
from calibrant.cli import main
from calibrant.tasks import task_of
from calibrant.tasks.task import AdaptedRun


@pytest.fixture
def texts(tmp_path):
    from calibrant.tasks.language.synthetic import generate_splits

    sentences = generate_splits(5, train=60, dev=0, test=0, ood=0)["train"]
    path = tmp_path / "new.txt"
    path.write_text("".join(" ".join(s.words) + "\n" for s in sentences))
    return path


COPIES = ["--corrupt", "typos-1", "typos-3", "typos-5", "ocr-5", "--device", "cpu"]


def test_a_run_is_adapted_to_texts(trained, texts, tmp_path, capsys):
    run, damaged = trained[0], tmp_path / "damaged.txt"
    main(["corrupt", str(texts), "--kind", "typos", "--strength", "3", "-o", str(damaged)])
    capsys.readouterr()
    command = ["adapt", str(run), "--unlabelled", str(damaged), "-o", str(tmp_path / "run2")]
    before = {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
    assert main([*command, *COPIES, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["method"] == "set-level"
    assert [s["name"] for s in found["sets"]][:3] == ["validation", "test split", "typos-1"]
    assert found["entities"] is not None
    assert before == {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
    text = texts.read_text().splitlines()
    old, new = (load_run(folder, "cpu").predict(text) for folder in (run, tmp_path / "run2"))
    pairs = [
        (a, b)
        for p, q in zip(old, new, strict=True)
        for a, b in zip(p.entities, q.entities, strict=True)
    ]
    assert pairs
    assert all((a.type, a.start, a.end) == (b.type, b.start, b.end) for a, b in pairs)
    assert any(a.tokens[0].confidence != b.tokens[0].confidence for a, b in pairs)
    assert json.loads((tmp_path / "run2" / "adapted.json").read_text())["run"] == str(run)
    assert main([*command, *COPIES]) == 2
    assert "exists" in capsys.readouterr().err
    assert main([*command, *COPIES, "--overwrite"]) == 0


def test_other_class_frequencies_change_entities_too(trained, tmp_path):
    """A bias may change tags: confidences of entities are learned again for the new ones."""
    folder = tmp_path / "run2"
    shutil.copytree(trained[0], folder)
    calibrator = load_calibrator(folder / "calibrator.json")
    bias = np.where([name == "O" for name in calibrator.label_names_], -1.0, 0.0)
    changed = corrected(calibrator, bias=bias)
    changed.save(folder / "calibrator.json", overwrite=True)
    valid = Predictions.read(next(folder.glob("valid.*")))
    adapted = AdaptedRun(folder, False, changed, valid, valid, {}, 0.95)
    assert task_of("ner").finish_adapted(adapted) == {"learned_again": True}
    words = ["Rosa", "Lind", "moved", "."]
    before, after = (load_run(f, "cpu").predict([words], tokens=True) for f in (trained[0], folder))
    assert len(after[0].entities) >= len(before[0].entities)


def test_frequencies_that_cannot_be_known_are_refused(trained, tmp_path, capsys):
    run = trained[0]
    test = next(run.glob("test.*"))
    command = f"adapt {run} --unlabelled {test} -o {tmp_path}/run2 --method bbse --device cpu"
    status = main(command.split())
    assert status == (0 if (tmp_path / "run2").exists() else 2)
    assert capsys.readouterr().err.count("\n") <= 1


def test_texts_are_watched(trained, texts, tmp_path, capsys):
    page = tmp_path / "page.html"
    command = f"watch {texts} --run {trained[0]} --device cpu --chunk 200 --report {page}"
    assert main(command.split()) == 0
    out = capsys.readouterr().out
    assert "entity F1" in out
    assert "Expected entity F1" in page.read_text()
    test = next(trained[0].glob("test.*"))
    assert main(["watch", str(test), "--run", str(trained[0]), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["total"]["labelled"] == found["total"]["rows"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("adapt {run} --unlabelled {text} -o {run}", "name another folder"),
        ("adapt {run} --unlabelled {text} -o {run}/inside", "name another folder"),
        ("adapt {run} --unlabelled {text} -o {folder} --overwrite", "is not a run"),
        ("adapt {run} --unlabelled {text} -o {folder}/new --valid {text}", "--valid"),
        ("adapt {run} --unlabelled {folder}/none.txt -o {folder}/new", "no such file"),
        ("adapt {run} --unlabelled {text} -o {folder}/new --corrupt typo", "typos"),
        ("adapt {folder} --unlabelled {text} -o {folder}2/new", "finished"),
        ("adapt {folder}/none.json --unlabelled {text} -o {folder}/new.json", "--valid"),
        ("watch {folder}/none.txt --run {run}", "no such file"),
        ("watch {folder}/empty.txt --run {run}", "no rows"),
    ],
)
def test_bad_input_is_one_line(trained, texts, tmp_path, command, words, capsys):
    (tmp_path / "empty.txt").write_text("")
    given = command.format(run=trained[0], text=texts, folder=tmp_path)
    status = main(given.split())
    err = capsys.readouterr().err
    assert status == 2, err
    assert words in err
    assert err.count("\n") == 1
