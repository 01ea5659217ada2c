"""Read label names from a separate file."""

from __future__ import annotations

from os import PathLike
from typing import Any

from calibrant.errors import InputError
from calibrant.inputs import check_file, door, first_repeated, parse_json, shortened

__all__ = ["read_label_names"]


def read_label_names(path: str | PathLike[str]) -> tuple[str, ...]:
    """Return the names of the classes in the order of their numbers.

    A ``.json`` file holds a list of names, or an object with ``id2label`` as the config.json of a
    Hugging Face model has it; any other file holds one name per line.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(f"{folder}/config.json").write_text('{"id2label": {"1": "dog", "0": "cat"}}')
    ...     read_label_names(f"{folder}/config.json")
    ('cat', 'dog')
    """
    file = check_file(path, "label names, one per line")
    with door(file, "not a file of label names"):
        try:
            text = file.read_text(encoding="utf-8-sig")
            names = _from_json(parse_json(text)) if file.suffix == ".json" else text.splitlines()
        except ValueError as error:  # Not UTF-8, no JSON, or other JSON.
            raise InputError(f"{file}: label names cannot be read ({error}).") from None
    while names and not names[-1].strip():
        names.pop()  # An empty last line ends the file; it is not a name.
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
