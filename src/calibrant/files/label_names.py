"""Label names: reading them from a file of their own, and numbering labels that are names."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np

from calibrant.errors import InputError
from calibrant.inputs import check_file, door, first_repeated, parse_json, shortened
from calibrant.predictions import IGNORED
from calibrant.validation import RowError

__all__ = ["is_whole_number", "label_numbers", "read_label_names"]

_MOST_DIGITS = 18  # Of a number of 64 bits.


def read_label_names(path: str | PathLike[str]) -> tuple[str, ...]:
    """Return the names of the classes in the order of their numbers.

    A ``.json`` file holds a list of names, or an object with ``id2label`` as the config.json of a
    Hugging Face model has it; any other file holds one name per line.
    """
    file = check_file(path, "label names, one per line")
    with door(file, "not a file of label names"):
        try:
            text = file.read_text(encoding="utf-8-sig")
            names = _from_json(parse_json(text)) if file.suffix == ".json" else text.splitlines()
        except ValueError as error:  # Not UTF-8, no JSON, or other JSON.
            raise InputError(f"{file}: label names cannot be read ({error}).") from None
    while names and not names[-1].strip():
        names.pop()  # An empty last line ends the file; it is no name.
    if not names:
        raise InputError(f"{file}: no label names.")
    if (twice := first_repeated(names)) is not None:
        raise InputError(f"{file}: '{shortened(twice)}' occurs twice.")
    return tuple(names)


def _from_json(value: Any) -> list[str]:
    if isinstance(value, dict) and isinstance(value.get("id2label"), dict):
        table = {int(number): str(name) for number, name in value["id2label"].items()}
        if sorted(table) == list(range(len(table))):
            return [table[k] for k in range(len(table))]
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return list(value)
    raise ValueError("expected a JSON list of names, or id2label with the numbers 0..K−1")


def label_numbers(column: np.ndarray, names: Sequence[str] | None, name: str) -> np.ndarray:
    """Return class numbers as they are, and text as the number of the class of that name."""
    if column.dtype.kind not in "OUS":
        return column
    if column.ndim > 1:
        return label_numbers(column.reshape(-1), names, name).reshape(column.shape)
    known = _Names(names)
    numbers: dict[Any, int] = {}
    for text in dict.fromkeys(column.tolist()):
        number = known.number(_decoded(text))
        if number is None:
            row = int((column == text).argmax())
            raise RowError(f"{known.complaint(_decoded(text), name)} at {{where}}.", row)
        numbers[text] = number
    return np.fromiter((numbers[text] for text in column.tolist()), np.int64, len(column))


def _decoded(text: Any) -> str:
    return text.decode(errors="replace") if isinstance(text, bytes) else str(text)


class _Names:
    """The label names, looked up in a table: there may be as many labels as names."""

    def __init__(self, names: Sequence[str] | None) -> None:
        self.given = names
        self.places: dict[str, int | None] = {}
        for place, name in enumerate(names or ()):
            self.places[name] = None if name in self.places else place  # None: two are called so.
        self.some_are_numbers = any(name.isdecimal() for name in self.places)

    def number(self, text: str) -> int | None:
        """Return the class of a text: a name first, a number only where no name could be meant."""
        if text in self.places:
            return self.places[text]
        if not is_whole_number(text):
            return None
        number = int(text.strip().removesuffix(".0"))
        return None if number != IGNORED and self.some_are_numbers else number

    def complaint(self, text: str, column: str) -> str:
        """Return what is wrong with a label that has no number."""
        shown = shortened(text)
        if not text.strip():
            return f"No label in column '{column}' (−100 marks rows to ignore)"
        if self.given is None and text.strip().lstrip("-").isdecimal():
            return f"Label {shown} in column '{column}' is no class number"
        if self.given is None:
            return (
                f"The labels in column '{column}' are text ('{shown}') and the label names are not "
                "known; give them (--labels FILE, or Columns(label_names=…)), first seen"
            )
        if text in self.places:
            return (
                f"Two classes are called '{shown}', the label in column '{column}'; use class "
                "numbers"
            )
        some = ", ".join(map(shortened, self.given[:8])) + (", …" if len(self.given) > 8 else "")
        return f"Label '{shown}' in column '{column}' is not one of the label names ({some})"


def is_whole_number(text: str) -> bool:
    """Return whether a text is a whole number that an array can hold: 7, -100, 3.0.

    >>> is_whole_number("3.0"), is_whole_number("3.5"), is_whole_number("9" * 5000)
    (True, False, False)
    """
    digits = text.strip().removeprefix("-").removesuffix(".0")
    return digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS
