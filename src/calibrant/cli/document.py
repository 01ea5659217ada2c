"""The JSON document that a command prints with ``--json``; docs/json.md has its keys."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from calibrant.json_values import FORMAT, json_values

__all__ = ["document"]


def document(command: str, content: Mapping[str, Any]) -> str:
    """Return one line of JSON that starts with the format's number and the command.

    >>> document("audit", {"nll": float("inf")})
    '{"format": 1, "command": "audit", "nll": "inf"}'
    """
    whole = {"format": FORMAT, "command": command, **content}
    return json.dumps(json_values(whole), ensure_ascii=False, allow_nan=False)
