"""CLINC150 as published: one JSON file, in scope and out of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from calibrant.errors import InputError
from calibrant.predictions import IGNORED
from calibrant.tasks.text.corpus import INTENTS, load_test_texts, load_texts, read_intents

PARTS = {
    "oos_val": [["who won", "oos"]],
    "val": [["send money", "transfer"]],
    "train": [["pay Anna", "transfer"], ["how rich am i", "balance"]],
    "oos_test": [["how tall is he", "oos"], ["sing", "oos"]],
    "test": [["my balance", "balance"]],
    "oos_train": [["hello there", "oos"]],
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / INTENTS
    file.write_text(json.dumps(PARTS))
    return file


def test_splits_and_what_is_out_of_scope(path: Path) -> None:
    parts = read_intents(path)
    assert {split: len(rows) for split, rows in parts.items()} == {
        "dev": 1, "train": 2, "ood": 2, "test": 1,
    }  # fmt: skip
    assert parts["ood"][1] == ("sing", "oos")


def test_two_names_of_one_split(path: Path) -> None:
    path.write_text(json.dumps({**PARTS, "dev": []}))
    with pytest.raises(InputError, match="two parts for one split: val and dev"):
        read_intents(path)


@pytest.mark.parametrize("by", ["file", "folder"])
def test_a_corpus_by_file_and_by_folder(path: Path, by: str) -> None:
    name = str(path if by == "file" else path.parent)
    corpus = load_texts(name)
    assert corpus.labels == ("balance", "transfer")
    assert corpus.classes["train"] == [1, 0]
    assert corpus.classes["ood"] == [IGNORED, IGNORED]
    assert corpus.notes == ()
    for whole in (False, True):
        assert load_test_texts(name, whole=whole) == [("my balance", "balance")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not a JSON file that can be read"),
        ("[]", "expected"),
        ('{"test": []}', "expected"),
        ('{"train": [["a", "b"], ["c"]]}', r"train, row 2: expected \[text, intent\], got \['c'\]"),
        ('{"train": [["a", 3]]}', "row 1: expected"),
        ('{"train": 5}', r"train: expected \[\[text, intent\], …\], got 5\."),
        ('{"train": {"a": "b"}}', r"train: expected \[\[text, intent\], …\]"),
        ('{"train": []}', "no training texts"),
    ],
)
def test_files_with_a_fault(path: Path, text: str, message: str) -> None:
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        load_texts(str(path))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is no file"):
        load_texts(str(tmp_path / "none.json"))
