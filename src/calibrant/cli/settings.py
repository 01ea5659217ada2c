"""``--set KEY=VALUE`` options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calibrant.errors import InputError
from calibrant.inputs import parse_json

__all__ = ["parse_settings"]


def parse_settings(settings: Sequence[str]) -> dict[str, Any]:
    """Numbers, true, false, null, lists and objects as JSON has them; anything else is text.

    >>> parse_settings(["gamma=3", "noise={\\"name\\": \\"shell\\"}", "reduction=sum"])
    {'gamma': 3, 'noise': {'name': 'shell'}, 'reduction': 'sum'}
    """
    values = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not name:
            raise InputError(f"--set takes KEY=VALUE, got '{setting}'.")
        try:
            values[name] = parse_json(text)
        except ValueError:
            values[name] = text
    return values
