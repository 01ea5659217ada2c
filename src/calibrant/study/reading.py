"""Read the records of a study from folders and files."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path

from calibrant.errors import InputError
from calibrant.experiments.record import TITLES, Record, located_records
from calibrant.json_values import json_values

__all__ = ["read_all", "read_titles"]


def read_all(paths: Iterable[str | Path]) -> list[Record]:
    """Read each record once; the same run with different numbers is an error."""
    found: dict[str, tuple[str, Record]] = {}
    sources = [Path(path) for path in paths]
    for path in sources:
        if not path.exists():
            raise InputError(f"{path}: there is no such file or folder.")
        for where, record in located_records(path):
            earlier, other = found.setdefault(record.recipe.key, (where, record))
            if other is not record and _content(other) != _content(record):
                raise InputError(
                    f"{record.recipe.key} is there twice with different contents: {earlier} and "
                    f"{where}; keep one."
                )
    if not found:
        raise InputError(
            f"No records in {', '.join(map(str, sources)) or 'nothing'}: 'calibrant bench' makes "
            "them (KEY.json in a folder, or lines of a .jsonl file)."
        )
    return [found[key][1] for key in sorted(found)]


def read_titles(paths: Iterable[str | Path]) -> str:
    """Return the titles of the recipes behind the records in folders, each once."""
    files = [Path(path) / TITLES for path in paths]
    lines = [
        line for file in files if file.is_file() for line in file.read_text("utf-8").splitlines()
    ]
    return "; ".join(dict.fromkeys(filter(None, map(str.strip, lines))))


def _content(record: Record) -> str:
    return json.dumps(json_values(dataclasses.asdict(record)), sort_keys=True, default=str)
