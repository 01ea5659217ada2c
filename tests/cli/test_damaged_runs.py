"""Run folders with a missing or damaged file: one clear line and exit code 2, or the answer."""

import json
import shutil

import pytest

from calibrant.cli import main

pytest.importorskip("transformers")

NESTED = b"[" * 100_000
DAMAGES = {
    "gone": None,
    "cut": 0.5,
    "not text": bytes(range(256)) * 4,
    "a list": b"[1, 2]",
    "numbers for texts": b'{"task": 3, "max_length": "many", "labels": 7, "model_type": 5}',
    "nested": NESTED,
    "a folder": "folder",
}
FILES = [
    "recipe.json", "labels.json", "calibrator.json", "metrics.json",
    "valid.parquet", "entities.json", "evidence.npz", "model/config.json",
    "model/model.safetensors", "model/tokenizer.json", "model/tokenizer_config.json", "model",
]  # fmt: skip


def damage(path, kind):
    content = path.read_bytes() if path.is_file() else b""
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    if kind == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif kind == "folder":
        path.mkdir()
    elif kind is not None:
        path.write_bytes(kind)


@pytest.fixture
def run(trained, tmp_path):
    shutil.copytree(trained[0], tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize("damaged", DAMAGES)
@pytest.mark.parametrize("file", FILES)
def test_a_damaged_file_is_one_line(file, damaged, run, capsys):
    damage(run / file, "cut" if damaged == "cut" else DAMAGES[damaged])
    for command in (
        ["predict", str(run), "Anna Holberg was born in Lindton .", "--device", "cpu"],
        ["evaluate", str(run), "--device", "cpu"],
    ):
        rc = main(command)
        err = capsys.readouterr().err
        assert rc in (0, 2), (command[0], err[-600:])
        if rc:
            assert err.count("\n") == 1, (command[0], err[-600:])
            assert str(run) in err, (command[0], err)


@pytest.mark.parametrize(
    ("file", "change", "expected"),
    [
        ("labels.json", lambda labels: labels[:-1], "labels.json"),
        ("labels.json", lambda labels: [*labels[:-1], labels[0]], "labels.json"),
        ("labels.json", lambda labels: [*labels[:-1], 7], "labels.json"),
        ("recipe.json", lambda recipe: {**recipe, "max_length": 10**9}, "max_length"),
        ("recipe.json", lambda recipe: {**recipe, "task": "cooking"}, "task"),
    ],
)
def test_parts_that_do_not_fit_together_are_named(file, change, expected, run, capsys):
    path = run / file
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    assert main(["predict", str(run), "Anna Holberg was born in Lindton ."]) == 2
    err = capsys.readouterr().err
    assert expected in err
    assert err.count("\n") == 1
