"""Read files of tagged sentences; their names or contents decide the format."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from calibrant.errors import InputError
from calibrant.files.lines import numbered_lines
from calibrant.inputs import check_file
from calibrant.tasks.language.sentences import Sentence
from calibrant.tasks.ner.corpora.annotations import read_jsonl, read_table
from calibrant.tasks.ner.corpora.conll import read_conll
from calibrant.tasks.reading.splits import loosely_named_files, split_files

__all__ = ["corpus_files", "read_sentences"]

_CONLL = (
    ".conll", ".txt", ".tsv", ".bio", ".iob", ".iob2", ".bioes", ".bmes", ".conllu", ".conllup",
    ".conll.gz",
)  # fmt: skip
_READERS: dict[str, Callable[[Path], list[Sentence]]] = {
    **dict.fromkeys(_CONLL, read_conll),
    **dict.fromkeys((".jsonl", ".jsonl.gz"), read_jsonl),
    **dict.fromkeys((".csv", ".csv.gz"), lambda path: _read_csv(path)),
    ".json": lambda path: _read_json(path),
}
# Files that are not text, or not line by line.
_OTHERS = (
    ".parquet",
    ".npz",
    ".zip",
    ".xlsx",
    ".pdf",
    ".docx",
    ".spacy",
    ".arrow",
    ".xml",
)


def read_sentences(path: Path) -> list[Sentence]:
    """Read the sentences of one file; of unknown suffix, as jsonl or CoNLL by its first line."""
    name = path.name.lower()
    for suffix, read in _READERS.items():
        if name.endswith(suffix):
            return read(path)
    if name.endswith(_OTHERS):
        expected = ", ".join(_READERS)
        raise InputError(f"{path} is not a file of sentences: expected {expected}.")
    return read_jsonl(path) if _first_line(path).startswith("{") else read_conll(path)


def _read_csv(path: Path) -> list[Sentence]:
    """Read a table; some call a file .csv whose lines are a word, a tab and its tag."""
    first = _first_line(path)
    return read_conll(path) if "\t" in first and "," not in first else read_table(path)


def _read_json(path: Path) -> list[Sentence]:
    """Read what many call .json: one record on each line."""
    if re.match(r"\{.*\}$", _first_line(path)):
        return read_jsonl(path)
    raise InputError(f"{path}: expected one record on each line: jq -c '.[]' makes them so.")


def _first_line(path: Path) -> str:
    check_file(path)
    return next((line.strip() for _, line in numbered_lines(path) if line.strip()), "")


def corpus_files(folder: Path) -> dict[str, Path]:
    """Find the file of each split: train.conll and so on, or else en_train.conll or eng.testa."""
    usual = [suffix for suffix in _READERS if suffix != ".json"]  # Which may be something else.
    exact = split_files(folder, usual)
    if "train" in exact:
        return exact
    loose = {**loosely_named_files(folder, usual), **exact}
    return loose if "train" in loose else {**split_files(folder, [".json"]), **loose}
