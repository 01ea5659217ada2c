"""Read tagged sentences from CoNLL files: two or more columns, IOB1, BIO or BIOES tags."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from calibrant.errors import InputError
from calibrant.files.lines import numbered_lines
from calibrant.inputs import check_file
from calibrant.tasks.language.sentences import Sentence, check_tag, is_tag, to_bio

__all__ = [
    "DOCUMENT",
    "conll_lines",
    "is_comment",
    "is_numbered",
    "read_conll",
    "split_columns",
]

DOCUMENT = "-DOCSTART-"  # The first column of a line that begins a document and holds no word.
_LOOKED_AT = 500  # Lines that decide whether words have numbers in front.
_METADATA = re.compile(r"#+\s*[\w.]+ = ")  # Of CoNLL-U; its text may end in what looks like a tag.
_COMMENT = re.compile(r"#+[ \t]")
_NAMED_COLUMNS = re.compile(r"#\s*global\.columns\s*=\s*(.+)")  # The first line of CoNLL-U Plus.
_IN_MISC = re.compile(r"(?:.*\|)?(?:name|NER|NE)=(?P<tag>[^|]+).*")  # Of NorNE: name=B-PER|…
_USUAL = (0, -1)  # Columns of a word and its tag.
_PARTS = re.compile(r"\d+[-.]\d+")  # The number of several words at once, or of one left out.


def read_conll(path: str | Path) -> list[Sentence]:
    """Read the sentences of a file: word first, tag last on each line, blank lines between.

    Columns are separated by tabs, or by spaces if there is no tab. Columns between the first and
    the last are skipped, and so are ``-DOCSTART-`` lines and comments (``# id 7``). A tab
    before the tag alone is an empty word. If words have numbers in front (Universal NER, GermEval,
    the rows of a table), the word is the second column and its tag the third, or the last if the
    third holds something else; ``name=B-PER|…`` is B-PER there (NorNE, DaNE). A first line
    ``# global.columns = …`` names FORM and NER instead, as in CoNLL-U Plus. Tags
    become BIO, whichever of IOB1, BIO, BIOES and BMEWO the file uses.
    """
    path = Path(path)
    check_file(path)
    sentences = list(_sentences(path))
    if not sentences:
        raise InputError(f"{path} holds no sentence: expected lines of 'word TAB tag'.")
    return to_bio(sentences)


def _sentences(path: Path) -> Iterator[Sentence]:
    words: list[str] = []
    tags: list[str] = []
    places = _places(path)
    for number, line in conll_lines(path):
        if is_comment(line) or (places[0] > 0 and _PARTS.match(line)):
            continue
        columns = split_columns(line, f"{path}, line {number}", places)
        if columns and columns[0] != DOCUMENT:
            words.append(columns[0])
            tags.append(columns[-1])
        elif words:
            yield Sentence(tuple(words), tuple(tags))
            words, tags = [], []
    if words:
        yield Sentence(tuple(words), tuple(tags))


def conll_lines(path: Path) -> Iterator[tuple[int, str]]:
    r"""Yield numbered lines; ``\r\r\n``, which Windows makes of ``\r\n``, is one line end."""
    held = 0, ""
    for number, line in numbered_lines(path):
        if held[1] and line == "\r\n":
            number, line = held[0], held[1] + line
        elif held[1]:
            yield held
        held = number, line
        if not held[1].endswith("\r"):
            yield held
            held = 0, ""
    if held[1]:
        yield held


def is_comment(line: str) -> bool:
    """Return whether a line is a comment, as ``# id 7``; the word ``#`` has a tag.

    >>> is_comment("# id 5239d808 domain=en"), is_comment("# text = Blood group O")
    (True, True)
    >>> is_comment("# O"), is_comment("#topic O"), is_comment("## words: syllables")
    (False, False, True)
    """
    if _METADATA.match(line):
        return True
    return _COMMENT.match(line) is not None and not is_tag(line.split()[-1])


def is_numbered(path: Path) -> bool:
    """Return whether every word has its number in front: in its sentence, or in the file."""
    return _places(path) != _USUAL


def _places(path: Path) -> tuple[int, int]:
    """Return the columns of word and tag; after numbers the tag is the third column, or the last.

    The lines that are looked at decide. Numbers begin with 0 or 1 in each sentence, or in the file.
    """
    words: list[tuple[int, int, list[str]]] = []
    place = longest = 0
    if (named := _named_places(path)) is not None:
        return named
    for _, line in islice(conll_lines(path), _LOOKED_AT):
        columns = line.split()
        if not columns or is_comment(line):
            place = 0
        elif columns[0] != DOCUMENT and not _PARTS.fullmatch(columns[0]):
            words.append((place, len(words), columns))
            place += 1
            longest = max(place, longest)
    if longest < 2 or any(len(columns) < 3 for _, _, columns in words):
        return _USUAL
    counted = any(
        all(columns[0] == str(begin + number[way]) for *number, columns in words)
        for begin in (0, 1)
        for way in (0, 1)
    )
    if not counted:
        return _USUAL
    return (1, 2) if all(is_tag(columns[2]) for _, _, columns in words) else (1, -1)


def _named_places(path: Path) -> tuple[int, int] | None:
    """Return the columns FORM and NER, as in ``# global.columns = ID FORM CONLL:NER``."""
    first = next((line for _, line in numbered_lines(path) if line.strip()), "")
    found = _NAMED_COLUMNS.match(first)
    names = found.group(1).upper().split() if found else []
    tags = [place for place, name in enumerate(names) if name.split(":")[-1] == "NER"]
    return (names.index("FORM"), tags[0]) if "FORM" in names and tags else None


def split_columns(line: str, where: str, places: tuple[int, int] = _USUAL) -> list[str]:
    """Split a line into columns, the first a word, the last its tag; none for a blank line.

    If they have other ``places``, only these two columns are left.

    >>> split_columns("Paris NNP B-LOC", "news.conll, line 1")
    ['Paris', 'NNP', 'B-LOC']
    """
    if is_comment(line):
        return []
    # Only these are separators: a word may hold, or be, some other kind of space.
    is_space = re.match(" +\t", line) is not None
    line = line.strip(" \r\n")
    if "\t" in line.rstrip("\t"):  # Also in front: then the word is empty.
        columns = [column.strip(" ") for column in line.rstrip("\t").split("\t")]
    else:
        columns = line.strip("\t").split(" ") if line.strip("\t") else []
    if is_space and columns:
        columns[0] = " "
    if places != _USUAL and columns:
        columns = [columns[place] for place in places if place < len(columns)]
        columns[-1] = _IN_MISC.sub(r"\g<tag>", columns[-1])
    if columns and columns[0] != DOCUMENT:
        _check(columns, where)
    return columns


def _check(columns: list[str], where: str) -> None:
    if len(columns) < 2 or not (columns[0] or len(columns) == 2):
        raise InputError(f"{where}: expected a word and its tag, got {' '.join(columns)!r}.")
    check_tag(columns[-1], where)
