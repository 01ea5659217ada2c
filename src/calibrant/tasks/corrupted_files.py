"""Copy text files with corrupted text: CoNLL, jsonl, csv and tsv, or one text on each line."""

from __future__ import annotations

import io
import itertools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from calibrant.corruptions import TEXT, corrupt_text
from calibrant.corruptions.names import check_strength
from calibrant.errors import InputError, unknown_name
from calibrant.files.lines import CsvWriter, csv_delimiter, numbered_lines, text_file
from calibrant.outputs import new_file
from calibrant.tasks.language.marked_text import is_read, without_blanks
from calibrant.tasks.language.sentences import Sentence
from calibrant.tasks.ner.corpora.annotations import SPANS, TAGS, WORDS, tagged
from calibrant.tasks.ner.corpora.conll import (
    DOCUMENT,
    conll_lines,
    is_comment,
    is_numbered,
    split_columns,
)
from calibrant.tasks.ner.corpora.corrupted_sentences import corrupt_sentence
from calibrant.tasks.reading.records import TEXTS, field, read_records

__all__ = ["LAYOUTS", "corrupt_file"]

# Layout → the suffixes of files that have it by default.
LAYOUTS = {
    "conll": (".conll", ".bio", ".iob", ".iob2", ".bioes", ".bmes"),
    "jsonl": (".jsonl",),
    "csv": (".csv", ".tsv"),
    "lines": (".txt",),
}


_LOOKED_AT = 50  # Lines that decide whether a .txt file is CoNLL.


class _Work(NamedTuple):
    source: Path
    kind: str
    strength: int
    seed: int
    column: str | None

    def text(self, text: str, number: int) -> str:
        return corrupt_text(text, self.kind, self.strength, seed=self.seed, number=number)

    def sentence(self, sentence: Sentence, number: int) -> tuple[Sentence, list[bool]]:
        return corrupt_sentence(sentence, self.kind, self.strength, seed=self.seed, number=number)


def corrupt_file(
    source: str | Path,
    target: str | Path,
    kind: str,
    strength: int,
    *,
    seed: int = 0,
    layout: str | None = None,
    column: str | None = None,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Write a corrupted copy of ``source``, text by text; return the number of texts.

    ``layout`` is one of :data:`LAYOUTS`, by default that of the file's suffix (before ``.gz``);
    ``column`` is what holds the text in jsonl, csv and tsv. Everything else stays. Text n
    is corrupted as :func:`~calibrant.corruptions.corrupt_words` does with that number, so the copy
    is what a run is tested on under ``shift``.
    """
    source = Path(source)
    if kind not in TEXT:
        raise unknown_name("text corruption", kind, TEXT)
    work = _Work(source, kind, check_strength(strength), seed, column)
    if not source.is_file():
        raise InputError(f"There is no file {source}.")
    if layout not in (None, *LAYOUTS):
        raise unknown_name("layout", str(layout), LAYOUTS)
    write = _LAYOUTS[layout or _layout_of(source)]
    texts = 0
    with (
        new_file(target, overwrite=overwrite, inputs=[source]) as part,
        text_file(part) as file,
    ):
        for lines, is_text in write(work):
            try:
                file.write(lines)
            except UnicodeEncodeError:
                where = f"{source}, text {texts + 1}"
                raise InputError(f"{where}: it contains half of a character.") from None
            texts += is_text
            if progress is not None:
                progress(1)
    return texts


def _layout_of(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz")
    for layout, suffixes in LAYOUTS.items():
        if name.endswith(suffixes):
            if name.endswith(".tsv") and _is_tagged(path):
                return "conll"
            if layout == "lines" and _is_tagged(path):
                raise InputError(
                    f"{path}: words with tags (CoNLL), it seems, and as lines of text the tags "
                    "would be corrupted too: ask for a layout, conll or lines."
                )
            return layout
    known = ", ".join(suffix for suffixes in LAYOUTS.values() for suffix in suffixes)
    raise InputError(f"{path}: which layout? Expected {known}, or a layout: {', '.join(LAYOUTS)}.")


def _is_tagged(path: Path) -> bool:
    """Return whether the first lines of a file, comments aside, all end in a column with a tag."""
    lines = (line.split() for _, line in numbered_lines(path) if not is_comment(line))
    some = list(itertools.islice(filter(None, lines), _LOOKED_AT))
    return bool(some) and all(
        len(columns) > 1 and re.fullmatch(r"O|[BIESLUMW]-\S+", columns[-1]) for columns in some
    )


def _conll(work: _Work) -> Iterator[tuple[str, bool]]:
    """Corrupt sentence by sentence; keep blank lines and columns between the word and its tag."""
    if is_numbered(work.source):
        raise InputError(
            f"{work.source}: the words have numbers in front; leave those out: cut -f 2,3."
        )
    count, block = 0, list[tuple[str, list[str]]]()
    for number, line in conll_lines(work.source):
        columns = split_columns(line, f"{work.source}, line {number}")
        if (columns and columns[0] != DOCUMENT) or (block and is_comment(line)):
            block.append((line, columns))  # A comment does not end a sentence.
            continue
        if block:
            lines, is_sentence = _sentence_lines(work, block, count)
            yield lines, is_sentence
            count, block = count + is_sentence, []
        yield line, False
    if block:
        yield _sentence_lines(work, block, count)


def _sentence_lines(
    work: _Work, block: list[tuple[str, list[str]]], number: int
) -> tuple[str, bool]:
    """Return the corrupted lines of a sentence, and whether it counts; comments stay."""
    words = [columns for _, columns in block if columns]
    sentence = Sentence(tuple(c[0] for c in words), tuple(c[-1] for c in words))
    pairs, counts = _changed(work, sentence, number)
    changed = iter(pairs)
    lines = []
    for line, columns in block:
        pair = next(changed) if columns else None
        if not columns:
            lines.append(line)
        elif pair is not None:
            lines.append(_with_word(line, columns, *pair))
    return "".join(lines), counts


def _changed(
    work: _Work, sentence: Sentence, number: int
) -> tuple[list[tuple[str, str] | None], bool]:
    """Return each word and tag, None where a word is dropped, and whether the sentence counts.

    Words of spaces stay as they are, and a sentence of them does not count: a corpus is read
    without them, and its sentences are corrupted by their number.
    """
    pairs: list[tuple[str, str] | None] = list(zip(sentence.words, sentence.tags, strict=True))
    places = [place for place, word in enumerate(sentence.words) if is_read(word)]
    if not places:
        return pairs, False
    new, kept = work.sentence(without_blanks(sentence), number)
    left = zip(new.words, new.tags, strict=True)
    for place, stays in zip(places, kept, strict=True):
        pairs[place] = next(left) if stays else None
    return pairs, True


def _with_word(line: str, columns: list[str], word: str, tag: str) -> str:
    """Return a line with another word and tag; the columns between stay."""
    first, last = line.index(columns[0]), line.rindex(columns[-1])
    middle = line[first + len(columns[0]) : last]
    return line[:first] + word + middle + tag + line[last + len(columns[-1]) :]


def _jsonl(work: _Work) -> Iterator[tuple[str, bool]]:
    number = 0
    for line, record in read_records(work.source, ".jsonl"):
        changed, is_text = _record(work, record, number, f"{work.source}, line {line}")
        number += is_text
        yield json.dumps(changed, ensure_ascii=False) + "\n", is_text


def _record(
    work: _Work, record: dict[str, Any], number: int, where: str
) -> tuple[dict[str, Any], bool]:
    """Return the corrupted record, and whether it counts: a sentence without words does not."""
    words = next((name for name in WORDS if name in record), None)
    if words is not None and work.column is None:
        tags = next((name for name in TAGS if name in record), None)
        given = record[words] if tags is None else record[tags]
        sentence = tagged(record[words], ["O"] * len(given) if tags is None else given, where)
        pairs, counts = _changed(work, sentence, number)
        left = [pair for pair in pairs if pair is not None]
        changed = {words: [word for word, _ in left]}
        return {**record, **changed, **({tags: [t for _, t in left]} if tags else {})}, counts
    # One label of a whole text has the name that some give to a list of spans.
    spans = next((n for n in SPANS if isinstance(record.get(n), list) and record[n]), None)
    if spans is not None:
        raise InputError(
            f"{where}: '{spans}' are places in a text that changes; give words and tags instead."
        )
    name = work.column or next((name for name in TEXTS if name in record), TEXTS[0])
    text = field(record, (name,), where)
    if not isinstance(text, str):
        raise InputError(f"{where}: expected a text in '{name}', got {text!r:.40}.")
    return {**record, name: work.text(text, number)}, True


def _csv(work: _Work) -> Iterator[tuple[str, bool]]:
    suffix = ".tsv" if ".tsv" in work.source.name.lower() else ".csv"
    delimiter = "\t" if suffix == ".tsv" else csv_delimiter(work.source)
    row = io.StringIO()
    writer = CsvWriter(row, delimiter)
    number = -1
    for number, (line, record) in enumerate(read_records(work.source, suffix)):
        if not number:
            writer.writerow(record)
        changed, _ = _record(work, record, number, f"{work.source}, line {line}")
        writer.writerow(changed.values())
        yield row.getvalue(), True
        row.seek(0)
        row.truncate()
    if number < 0:  # No text: the header, if there is one.
        yield "".join(line for _, line in numbered_lines(work.source)), False


def _lines(work: _Work) -> Iterator[tuple[str, bool]]:
    for number, line in numbered_lines(work.source):
        text = line.rstrip("\r\n")
        yield work.text(text, number - 1) + line[len(text) :], True


_LAYOUTS: dict[str, Callable[[_Work], Iterator[tuple[str, bool]]]] = {
    "conll": _conll,
    "jsonl": _jsonl,
    "csv": _csv,
    "lines": _lines,
}
