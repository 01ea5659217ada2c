"""Read tagged sentences from CoNLL files: two or more columns, IOB1, BIO or BIOES tags."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from calibrant.errors import InputError
from calibrant.files.lines import numbered_lines
from calibrant.tasks.sentences import Sentence, check_tag, to_bio

__all__ = ["read_conll"]


def read_conll(path: str | Path) -> list[Sentence]:
    """The sentences of a file: a word first, its tag last on each line, blank lines between.

    Columns are parted by tabs, or by spaces where there is no tab; what stands between the first
    and the last is passed over, and so are ``-DOCSTART-`` lines. Tags come back as BIO, whichever
    of IOB1, BIO and BIOES the file uses.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    sentences = list(_sentences(path))
    if not sentences:
        raise InputError(f"{path} holds no sentence: expected lines of 'word TAB tag'.")
    return to_bio(sentences)


def _sentences(path: Path) -> Iterator[Sentence]:
    words: list[str] = []
    tags: list[str] = []
    for number, line in numbered_lines(path):
        columns = _columns(line)
        if columns and columns[0] != "-DOCSTART-":
            _check(columns, f"{path}, line {number}")
            words.append(columns[0])
            tags.append(columns[-1])
        elif words:
            yield Sentence(tuple(words), tuple(tags))
            words, tags = [], []
    if words:
        yield Sentence(tuple(words), tuple(tags))


def _columns(line: str) -> list[str]:
    # Only these are separators: a word may hold, or be, some other kind of space.
    line = line.strip(" \r\n")
    if "\t" in line.strip("\t"):
        return [column.strip(" ") for column in line.split("\t")]
    return line.strip("\t").split(" ") if line.strip("\t") else []


def _check(columns: list[str], where: str) -> None:
    if len(columns) < 2 or not columns[0]:
        raise InputError(f"{where}: expected a word and its tag, got {' '.join(columns)!r}.")
    check_tag(columns[-1], where)
