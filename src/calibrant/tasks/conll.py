"""Read tagged sentences from CoNLL files: two or more columns, IOB1, BIO or BIOES tags."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from calibrant.errors import InputError

__all__ = ["Sentence", "normalised", "read_conll"]

_OUTSIDE = "O"


@dataclass(frozen=True)
class Sentence:
    """Words and one tag for each."""

    words: tuple[str, ...]
    tags: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.words)


def read_conll(path: str | Path) -> list[Sentence]:
    """The sentences of a file: a word first, its tag last on each line, blank lines between.

    Columns are parted by tabs, or by spaces where there is no tab; what stands between the first
    and the last is passed over, and so are ``-DOCSTART-`` lines. Tags come back as BIO, whichever
    of IOB1, BIO and BIOES the file uses.
    """
    path = Path(path)
    try:
        with path.open(encoding="utf-8") as file:
            sentences = list(_sentences(file, path))
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8 (byte {error.start}); convert it, for instance with "
            "'iconv -t utf-8'."
        ) from None
    if not sentences:
        raise InputError(f"{path} holds no sentence: expected lines of 'word TAB tag'.")
    return normalised(sentences)


def _sentences(lines: Iterable[str], path: Path) -> Iterator[Sentence]:
    words: list[str] = []
    tags: list[str] = []
    for number, line in enumerate(lines, start=1):
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
    line = line.rstrip("\r\n")
    return line.split("\t") if "\t" in line else line.split()


def _check(columns: list[str], where: str) -> None:
    if len(columns) < 2 or not columns[0].strip():
        raise InputError(f"{where}: expected a word and its tag, got {' '.join(columns)!r}.")
    tag = columns[-1]
    prefix, _, kind = tag.partition("-")
    if tag != _OUTSIDE and (prefix not in "BIESLU" or len(prefix) != 1 or not kind):
        raise InputError(
            f"{where}: '{tag}' is not a tag of IOB1, BIO or BIOES; expected O, B-TYPE, I-TYPE, …"
        )


def normalised(sentences: Sequence[Sentence]) -> list[Sentence]:
    """The same sentences with BIO tags.

    IOB1 writes B- only between touching entities of one type; so a corpus in which entities start
    with I- and no B- stands anywhere else is IOB1. In BIO, an I- that starts an entity is left as
    it is: scoring counts it as a start.

    >>> bioes = Sentence(("U.N.", "in", "New", "York"), ("S-ORG", "O", "B-LOC", "E-LOC"))
    >>> normalised([bioes])[0].tags
    ('B-ORG', 'O', 'B-LOC', 'I-LOC')
    >>> normalised([Sentence(("EU", "rejects"), ("I-ORG", "O"))])[0].tags
    ('B-ORG', 'O')
    """
    if any(tag[0] in "ESLU" for sentence in sentences for tag in sentence.tags):
        return [Sentence(s.words, tuple(map(_from_bioes, s.tags))) for s in sentences]
    if _is_iob1(sentences):
        return [Sentence(s.words, tuple(_from_iob1(s.tags))) for s in sentences]
    return list(sentences)


def _from_bioes(tag: str) -> str:
    # BILOU says L(ast) and U(nit) for what BIOES calls E(nd) and S(ingle).
    return {"E": "I", "L": "I", "S": "B", "U": "B"}.get(tag[0], tag[0]) + tag[1:]


def _is_iob1(sentences: Sequence[Sentence]) -> bool:
    starts_inside = False
    for sentence in sentences:
        for before, tag in zip((_OUTSIDE, *sentence.tags), sentence.tags, strict=False):
            touching = before[1:] == tag[1:]
            if tag[0] == "B" and not touching:
                return False
            starts_inside |= tag[0] == "I" and not touching
    return starts_inside


def _from_iob1(tags: Sequence[str]) -> Iterator[str]:
    before = _OUTSIDE
    for tag in tags:
        starts = tag[0] == "I" and before[1:] != tag[1:]
        yield "B" + tag[1:] if starts else tag
        before = tag
