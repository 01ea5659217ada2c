"""Files of tagged sentences, told apart by their names or by what is in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from calibrant.errors import InputError
from calibrant.files.lines import numbered_lines
from calibrant.inputs import check_file
from calibrant.tasks.annotations import read_jsonl, read_table
from calibrant.tasks.conll import read_conll
from calibrant.tasks.sentences import Sentence
from calibrant.tasks.splits import loosely_named_files, split_files

__all__ = ["corpus_files", "read_sentences"]

_CONLL = (".conll", ".txt", ".tsv", ".bio", ".iob", ".iob2", ".bioes", ".bmes", ".conll.gz")
_READERS: dict[str, Callable[[Path], list[Sentence]]] = {
    **dict.fromkeys(_CONLL, read_conll),
    **dict.fromkeys((".jsonl", ".jsonl.gz"), read_jsonl),
    **dict.fromkeys((".csv", ".csv.gz"), read_table),
}
# What would be read as text, and is none, or not line by line.
_OTHERS = (
    ".json",
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
    """The sentences of one file; one of unknown suffix is jsonl or CoNLL, by its first line."""
    name = path.name.lower()
    for suffix, read in _READERS.items():
        if name.endswith(suffix):
            return read(path)
    if name.endswith(_OTHERS):
        hint = " (one record on each line: jq -c '.[]')" if name.endswith(".json") else ""
        expected = ", ".join(_READERS)
        raise InputError(f"{path} is no file of sentences: expected {expected}{hint}.")
    check_file(path)
    first = next((line for _, line in numbered_lines(path) if line.strip()), "")
    return read_jsonl(path) if first.lstrip().startswith("{") else read_conll(path)


def corpus_files(folder: Path) -> dict[str, Path]:
    """The file of each split: train.conll and so on, or else en_train.conll or eng.testa."""
    exact = split_files(folder, _READERS)
    return exact if "train" in exact else {**loosely_named_files(folder, _READERS), **exact}
