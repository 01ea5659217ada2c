"""Intents in one JSON file, as CLINC150 is given out: {"train": [[text, intent], …], "val": …}.

Larson et al., "An evaluation dataset for intent classification and out-of-scope prediction" (EMNLP
2019); https://github.com/clinc/oos-eval, data/data_full.json.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from calibrant.errors import InputError
from calibrant.inputs import check_file, parse_json
from calibrant.tasks.reading.splits import split_of

__all__ = ["INTENTS", "read_intents"]

INTENTS = "data_full.json"
_OUTSIDE = "oos_test"  # Only to test on; a model is trained on what is in scope.


def read_intents(path: Path) -> dict[str, list[tuple[str, str]]]:
    """Read texts and intents of each split; queries out of scope are the split ``ood``."""
    check_file(path)
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
    except ValueError:  # Not UTF-8, or no JSON.
        raise InputError(f"{path}: not a JSON file that can be read.") from None
    if not isinstance(content, dict) or "train" not in content:
        raise InputError(f'{path}: expected {{"train": [[text, intent], …], "val": …}}.')
    parts: dict[str, list[tuple[str, str]]] = {}
    for key, rows in content.items():
        split = "ood" if key == _OUTSIDE else split_of(key)
        if split is not None and not isinstance(rows, list):
            raise InputError(f"{path}, {key}: expected [[text, intent], …], got {rows!r:.60}.")
        if split is not None:
            parts[split] = [_pair(row, f"{path}, {key}, row {n}") for n, row in enumerate(rows, 1)]
    return parts


def _pair(row: Any, where: str) -> tuple[str, str]:
    if not isinstance(row, list) or len(row) != 2 or not all(isinstance(v, str) for v in row):
        raise InputError(f"{where}: expected [text, intent], got {row!r:.60}.")
    return row[0], row[1]
