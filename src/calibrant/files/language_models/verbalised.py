"""Answers that name their confidence in words as top labels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calibrant.errors import InputError
from calibrant.files.language_models.translated import (
    LABEL_KEYS,
    Translated,
    plain_answer,
    true_label,
)
from calibrant.files.lines import json_records

__all__ = ["is_verbalised", "translate_verbalised"]

_TEXT = ("response", "output", "completion", "generation", "text")
_CONFIDENCE = re.compile(
    r"\b(?:confidence|probability|certainty)\b[^0-9\n]{0,30}?"
    r"(\d+(?:\.\d+)?|\.\d+)\s*(%|percent\b|/\s*\d+|out of \d+)?",
    re.IGNORECASE,
)
# Of JSON, or of what looks like it: {"answer": "B", "confidence": 0.8}
_KEYED_ANSWER = re.compile(
    r"""["'](?:final[ _]?)?answer["']\s*:\s*(?:"([^"\n]*)"|'([^'\n]*)'|([\w.+-]+))""", re.IGNORECASE
)
_BOXED = re.compile(r"\\boxed\{([^{}\n]*)\}")
_ANSWER = re.compile(
    r"\b(?:final answer|answer)\b\s*(?:is|:|=)*\s*\(?\s*([^\n.,;)]+)", re.IGNORECASE
)


def is_verbalised(record: Mapping[str, Any]) -> bool:
    """Return whether a record has a true label and a confidence in words."""
    if not any(key in record for key in LABEL_KEYS):
        return False
    if isinstance(record.get("confidence"), str):
        return True
    return any(isinstance(record.get(k), str) and _CONFIDENCE.search(record[k]) for k in _TEXT)


def translate_verbalised(path: Path) -> Translated:
    """Turn answers that name their confidence, "Answer: B, confidence: 85 %", into top labels.

    Where any bare number of the file is above 1, bare numbers are percentages. An answer
    without a confidence is ignored and counted.
    """
    found = [(line, *_spoken(path, line, record)) for line, record in json_records(path)]
    percent = any(bare and value > 1 for _, _, value, bare, _ in found if value is not None)
    records, ignored = [], 0
    for line, answer, value, bare, label in found:
        value = value / 100 if value is not None and bare and percent else value
        if value is not None and value > 1:
            raise InputError(f"{path}, line {line}: a confidence of {value:g} is above 1.")
        ignored += value is None
        record = {"predicted": answer, "confidence": 0.5 if value is None else value}
        records.append((line, {**record, "label": None if value is None else label}))
    how = "; bare numbers are percentages" if percent else ""
    left = f" {ignored:,} answers name none and are ignored." if ignored else ""
    return Translated(records, f"{path}: confidences that the model put into words{how}.{left}")


def _spoken(
    path: Path, line: int, record: Mapping[str, Any]
) -> tuple[str, float | None, bool, str]:
    """Return the answer, the number that was named, whether it is bare, and the true label."""
    label = true_label(record, f"{path}, line {line}")
    text = next((record[k] for k in _TEXT if isinstance(record.get(k), str)), "")
    confidence = record.get("confidence")
    spoken = f"confidence {confidence}" if confidence is not None else text
    answer = record.get("predicted", record.get("prediction"))
    if answer is None:
        answer = _stated(_BOXED.sub(r"\1", text), label)
    number = list(_CONFIDENCE.finditer(spoken))
    if not number:
        return _same(str(answer), label), None, False, label
    value, unit = float(number[-1].group(1)), (number[-1].group(2) or "").lower()
    if unit in ("%", "percent"):
        return _same(str(answer), label), value / 100, False, label
    if unit:
        return _same(str(answer), label), value / float(re.sub(r"\D", "", unit) or 1), False, label
    return _same(str(answer), label), value, True, label


def _stated(text: str, label: str) -> str:
    """Return the last answer that a text states, or its first line.

    An answer ends at a full stop, except where the ``label`` has one too.

    >>> _stated('{"answer": "B", "confidence": 0.8}', "B"), _stated("The answer is B. Sure.", "A")
    ('B', 'B')
    >>> _stated("Answer: St. Louis. Confidence: 90 %", "St. Louis")
    'St. Louis'
    """
    if keyed := list(_KEYED_ANSWER.finditer(text)):
        return next(group for group in keyed[-1].groups() if group is not None)
    stated = list(_ANSWER.finditer(text))
    if not stated:
        return text.strip().split("\n")[0]
    longer = text[stated[-1].start(1) :][: len(label)]
    goes_on = len(label) > len(stated[-1].group(1))
    return label if goes_on and longer.casefold() == label.casefold() else stated[-1].group(1)


def _same(answer: str, label: str) -> str:
    """Return the answer, spelt as the label where they differ in case, blanks and marks alone."""
    plain = plain_answer(answer)
    return label if plain.casefold() == label.strip().casefold() else plain
