"""Turn records into tagged sentences: ``tokens`` with ``tags``, or ``text`` with spans."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from calibrant.errors import InputError
from calibrant.files.label_studio import is_task, marked_regions, task_data
from calibrant.files.lines import numbered_lines
from calibrant.tasks.language.marked_text import from_spans
from calibrant.tasks.language.sentences import Sentence, Span, check_tag, to_bio
from calibrant.tasks.reading.records import field, read_records

__all__ = ["SPANS", "TAGS", "WORDS", "read_jsonl", "read_table", "tagged", "to_sentence"]

WORDS = ("tokens", "words")
TAGS = ("ner_tags", "tags", "labels")
# Columns of tables with a word on each line, in lower case.
_WORD = ("word", "token", "words", "tokens")
_TAG = ("tag", "ner", "tags", "labels", "label")
_SENTENCE = ("sentence #", "sentence_id", "sentence_idx", "sentence")
SPANS = ("entities", "spans", "label", "labels")  # The last two are doccano's.


def read_jsonl(path: str | Path) -> list[Sentence]:
    """Read the sentences of a jsonl file, one on each line, with BIO tags.

    ``{"tokens": ["Anna", "sings"], "tags": ["B-PER", "O"]}``, or ``{"text": "Anna sings",
    "entities": [{"start": 0, "end": 4, "label": "PER"}]}``. Tags may be numbers if the folder has a
    file of their names: labels.txt or labels.json. Only accepted records of Prodigy are read.
    """
    path = Path(path)
    names = functools.cache(lambda: _tag_names(path))
    return to_bio(
        [
            to_sentence(record, f"{path}, line {line}", names)
            for line, record in read_records(path, ".jsonl")
            if record.get("answer", "accept") == "accept"
        ]
    )


def to_sentence(
    record: dict[str, Any], where: str, names: Callable[[], Sequence[str]] | None = None
) -> Sentence:
    """Turn one record into a sentence; its tags are checked, not yet converted to BIO."""
    if is_task(record):
        text = task_data(record, where)["text"]
        spans = [_span(each.get("value"), where) for each in marked_regions(record, where)]
        return from_spans(text, spans, where)
    words = next((record[name] for name in WORDS if name in record), None)
    if words is not None and not _is_of_prodigy(record, words):
        tags = field(record, TAGS, where)
        if names is not None and _any_of(tags, int):
            tags = _named(tags, names(), where)
        return tagged(words, tags, where)
    if (words is not None or "annotator" in record) and not any(n in record for n in SPANS):
        # Prodigy and Label Studio (JSON-MIN) leave them out of a text without entities.
        record = {**record, "spans": []}
    text, spans = field(record, ("text", "tokens"), where), field(record, SPANS, where)
    if not isinstance(text, str) or not isinstance(spans, list):
        raise InputError(f"{where}: expected a text and a list of spans.")
    return from_spans(text, [_span(span, where) for span in spans], where)


def read_table(path: str | Path) -> list[Sentence]:
    """Read the sentences of a csv file with a word on each line, as in Kaggle's NER corpus.

    Columns ``Word`` and ``Tag``, and ``Sentence #``, which may be empty if a sentence continues;
    or ``words``, ``labels`` and ``sentence_id``.
    """
    path, number = Path(path), None
    sentences: list[tuple[list[str], list[str]]] = []
    for line, record in read_records(path, columns=(_SENTENCE, _WORD, _TAG)):
        where = f"{path}, line {line}"
        lower = {name.lower(): value for name, value in record.items()}
        word, tag = field(lower, _WORD, where), field(lower, _TAG, where)
        begins = field(lower, _SENTENCE, where)
        check_tag(tag, where)
        if not sentences or begins not in ("", number):
            sentences.append(([], []))
            number = begins
        sentences[-1][0].append(word)
        sentences[-1][1].append(tag)
    return to_bio([Sentence(tuple(words), tuple(tags)) for words, tags in sentences])


def tagged(words: Sequence[Any], tags: Sequence[Any], where: str) -> Sentence:
    """Return a sentence of words and tags, or raise an error that says what is wrong."""
    for values, what in ((words, "words"), (tags, "tags")):
        listed = isinstance(values, (list, tuple))
        odd = [value for value in values if not isinstance(value, str)] if listed else [values]
        if odd:
            raise InputError(f"{where}: expected a list of {what} as text, got {odd[0]!r:.40}.")
    if len(words) != len(tags):
        raise InputError(f"{where}: {len(words)} words, but {len(tags)} tags.")
    for tag in tags:
        check_tag(tag, where)
    return Sentence(tuple(words), tuple(tags))


def _is_of_prodigy(record: dict[str, Any], words: Any) -> bool:
    """Return whether tokens are objects, whose words are not those that the spans were marked in.

    An empty text has no tokens.
    """
    return "text" in record and (_any_of(words, dict) or (words == [] and "spans" in record))


def _any_of(values: Any, kind: type) -> bool:
    return isinstance(values, list) and any(isinstance(value, kind) for value in values)


def _named(numbers: Sequence[Any], names: Sequence[str], where: str) -> list[str]:
    for number in numbers:
        if type(number) is not int or not 0 <= number < len(names):
            raise InputError(f"{where}: tag {number!r} has no name; there are {len(names)} names.")
    return [names[number] for number in numbers]


def _tag_names(path: Path) -> tuple[str, ...]:
    """Read the names of numbered tags: lines of labels.txt, or a list or object in labels.json."""
    text, content = path.with_name("labels.txt"), path.with_name("labels.json")
    if text.is_file():
        return tuple(line.strip() for _, line in numbered_lines(text) if line.strip())
    if not content.is_file():
        raise InputError(
            f"{path}: the tags are numbers; put their names into labels.txt in the same folder, "
            "one per line in the order of the numbers."
        )
    try:
        names = json.loads("".join(line for _, line in numbered_lines(content)))
        if isinstance(names, dict):  # {"O": 0}, or {"0": "O"}
            pairs = [(k, v) if isinstance(v, int) else (v, int(k)) for k, v in names.items()]
            names = [name for name, _ in sorted(pairs, key=lambda pair: pair[1])]
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            return tuple(names)
    except (ValueError, TypeError, RecursionError):
        pass
    raise InputError(f"{content}: expected a list of the names of tags.")


def _span(given: Any, where: str) -> Span:
    span = given
    if isinstance(span, dict):
        start, end = (span.get(name, span.get(f"{name}_offset")) for name in ("start", "end"))
        label = span.get("label", span.get("type"))
        if isinstance(both := span.get("span"), list) and len(both) == 2 and start is end is None:
            start, end = both
        several = span.get("labels")  # Label Studio's, a list of one.
        if label is None and isinstance(several, list) and len(several) == 1:
            label = several[0]
        span = [start, end, label]
    listed = isinstance(span, list) and list(map(type, span)) == [int, int, str]
    if not listed or not span[2].strip():
        raise InputError(f"{where}: expected spans with start, end and label, got {given!r:.80}.")
    return span[0], span[1], span[2]
