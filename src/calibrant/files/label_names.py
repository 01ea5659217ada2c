"""Label names from a file of their own: one per line, a JSON list, or a model's config.json."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

from calibrant.errors import InputError

__all__ = ["read_label_names"]


def read_label_names(path: str | PathLike[str]) -> tuple[str, ...]:
    """The names of the classes in the order of their numbers.

    A ``.json`` file holds a list of names, or an object with ``id2label`` as the config.json of a
    Hugging Face model has it; any other file holds one name per line.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8-sig")
        names = _from_json(json.loads(text)) if file.suffix == ".json" else text.splitlines()
    except FileNotFoundError:
        raise InputError(f"{file}: no such file; expected label names, one per line.") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: label names cannot be read ({error}).") from None
    while names and not names[-1].strip():
        names.pop()  # An empty last line ends the file; it is no name.
    if len(set(names)) != len(names) or not names:
        twice = next((name for name in names if names.count(name) > 1), None)
        raise InputError(f"{file}: " + (f"'{twice}' occurs twice." if names else "no label names."))
    return tuple(names)


def _from_json(value: Any) -> list[str]:
    if isinstance(value, dict) and isinstance(value.get("id2label"), dict):
        table = {int(number): str(name) for number, name in value["id2label"].items()}
        if sorted(table) == list(range(len(table))):
            return [table[k] for k in range(len(table))]
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return list(value)
    raise ValueError("expected a JSON list of names, or id2label with the numbers 0..K−1")
