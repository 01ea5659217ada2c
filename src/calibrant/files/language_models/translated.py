"""Records of a language model as predictions: what the translators of all kinds share."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from calibrant.errors import InputError
from calibrant.files.columns import READ_NAMES

__all__ = ["LABEL_KEYS", "Numbered", "Translated", "other_fields", "plain_answer", "true_label"]

Numbered: TypeAlias = tuple[int, dict[str, Any]]
LABEL_KEYS = (
    *("label", "target", "answer", "gold", "expected"),
    *("true_label", "ground_truth", "y_true"),
)


@dataclass(frozen=True)
class Translated:
    """Records with their lines, and one sentence about what their scores are."""

    records: list[Numbered]
    note: str


def true_label(record: Mapping[str, Any], where: str) -> str:
    """Return the true answer next to the response of a model.

    pandas writes whole numbers as 3.0 where one of a column is missing.

    >>> true_label({"label": 3.0}, "line 1"), true_label({"label": 2.5}, "line 1")
    ('3', '2.5')
    """
    for key in LABEL_KEYS:
        label = record.get(key)
        if isinstance(label, float) and math.isfinite(label):
            return str(int(label) if label.is_integer() else label)
        if isinstance(label, (str, int)):
            return str(label)
    raise InputError(f"{where}: it has no true label (one of {', '.join(LABEL_KEYS[:4])}).")


def other_fields(record: Mapping[str, Any], read: Collection[str]) -> dict[str, Any]:
    """Return the single values of a record to group by, without those that are ``read``.

    >>> other_fields({"response": "B", "label": "B", "topic": "law", "tags": []}, ["response"])
    {'topic': 'law'}
    """
    taken = {*read, *LABEL_KEYS, *READ_NAMES}
    return {
        key: value
        for key, value in record.items()
        if key not in taken and not isinstance(value, (list, dict))
    }


def plain_answer(text: str) -> str:
    """Return an answer without the blanks, brackets and marks around it.

    >>> plain_answer(" (B).")
    'B'
    """
    return text.strip().strip("()[].:\"'*").strip()
