"""Answers that name their confidence in words as top labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calibrant.errors import InputError
from calibrant.files.columns import SCORE_NAMES
from calibrant.files.language_models.spoken import (
    Spoken,
    cut_confidence,
    names_confidence,
    one_answer,
    plain_key,
    read_answer,
)
from calibrant.files.language_models.translated import (
    LABEL_KEYS,
    Translated,
    other_fields,
    true_label,
)
from calibrant.files.lines import json_records

__all__ = ["is_verbalised", "translate_verbalised"]

_TEXT = ("response", "output", "completion", "generation", "text")
_OPTIONS = ("options", "choices")


def is_verbalised(record: Mapping[str, Any]) -> bool:
    """Return whether a record has a true label and a confidence in words, and no scores."""
    if not any(key in record for key in LABEL_KEYS) or any(name in record for name in SCORE_NAMES):
        return False
    if isinstance(record.get("confidence"), str):
        return True
    texts = (record[k] for k in _TEXT if isinstance(record.get(k), str))
    return any(names_confidence(text, _offered(record)) for text in texts)


@dataclass(frozen=True)
class _Reply:
    """One record: its line, confidence, text without it, stated prediction and true label."""

    line: int
    spoken: Spoken | None
    text: str
    predicted: Any
    label: str
    options: Mapping[str, str]
    groups: Mapping[str, Any]


def translate_verbalised(path: Path) -> Translated:
    """Turn answers that name their confidence, "Answer: B, confidence: 85 %", into top labels.

    Where a bare number of the file is above 10, bare numbers are percentages; where none is above
    1, they are probabilities; in between their scale is not known. A reply without one clear
    answer and one clear confidence is ignored and counted.
    """
    replies = [_reply(path, line, record) for line, record in json_records(path)]
    scale = _bare_scale(each.spoken for each in replies)
    labels = {plain_key(each.label): each.label for each in replies}
    records, ignored = [], 0
    for each in replies:
        value = _confidence(each.spoken, scale)
        if value is not None and value > 1:
            raise InputError(f"{path}, line {each.line}: a confidence of {value:g} is above 1.")
        answer = _answer(each, labels)
        unread = value is None or value < 0 or answer is None
        ignored += unread
        record = {
            "predicted": each.label if unread else answer,
            "confidence": 0.5 if unread else value,
            "label": None if unread else each.label,
        }
        records.append((each.line, {**each.groups, **record}))
    how = "; bare numbers are percentages" if scale == 100 else ""
    left = f" {ignored:,} without one clear answer and confidence are ignored." if ignored else ""
    return Translated(records, f"{path}: confidences that the model put into words{how}.{left}")


def _reply(path: Path, line: int, record: Mapping[str, Any]) -> _Reply:
    label = true_label(record, f"{path}, line {line}")
    text = next((record[k] for k in _TEXT if isinstance(record.get(k), str)), "")
    spoken, rest = cut_confidence(text, _offered(record))
    if (stated := record.get("confidence")) is not None:
        spoken, _ = cut_confidence(f"confidence: {stated}")
    predicted = record.get("predicted", record.get("prediction"))
    groups = other_fields(record, (*_TEXT, *_OPTIONS))
    return _Reply(line, spoken, rest, predicted, label, _options(record, label), groups)


def _given(record: Mapping[str, Any]) -> Any:
    """Return the options of a record, a list or an object by letter."""
    return next((record[k] for k in _OPTIONS if isinstance(record.get(k), (list, dict))), [])


def _offered(record: Mapping[str, Any]) -> set[str]:
    """Return the letters and texts of the options of a record, as ``plain_key`` writes them."""
    options = _given(record)
    letters = options if isinstance(options, dict) else ()
    texts = options.values() if isinstance(options, dict) else options
    return {plain_key(str(each)) for each in (*letters, *texts)}


def _options(record: Mapping[str, Any], label: str) -> dict[str, str]:
    """Return the answers that a record offers; a text that has a letter is the same answer."""
    options = _given(record)
    if isinstance(options, list):
        texts = [str(each) for each in options]
        letters = [chr(ord("A") + i) for i in range(min(26, len(texts)))]
        lettered = dict(zip(letters, texts, strict=False))
        if label in texts or label not in letters:
            return {plain_key(each): each for each in texts}
    else:
        lettered = {str(key): str(text) for key, text in options.items()}
    by_letter = label in lettered
    return {
        plain_key(each): letter if by_letter else text
        for letter, text in lettered.items()
        for each in (text, letter)
    }


def _answer(reply: _Reply, labels: Mapping[str, str]) -> str | None:
    # A label that differs from another in case alone is spelt as in its own record.
    choices = {**labels, **reply.options, plain_key(reply.label): reply.label}
    if reply.predicted is not None:
        return one_answer(str(reply.predicted), choices)
    return read_answer(reply.text, choices)


def _bare_scale(spoken: Iterable[Spoken | None]) -> float | None:
    """Return the upper end of the numbers without a scale; None where it may be 10 or 100."""
    largest = max((each.value for each in spoken if each is not None and each.bare), default=0.0)
    if largest <= 1:
        return 1.0
    return 100.0 if largest > 10 else None


def _confidence(spoken: Spoken | None, bare_scale: float | None) -> float | None:
    if spoken is None:
        return None
    if spoken.scale is not None:
        return spoken.value / spoken.scale if spoken.scale > 0 else None
    if bare_scale is None:
        return None
    fraction = spoken.value <= 1 and not spoken.written.isdecimal()
    return None if bare_scale == 100 and fraction else spoken.value / bare_scale
