"""Numbers as JSON documents write them: NaN is null, and infinity is the text ``"inf"``."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["FORMAT", "json_values"]

# The version of the documents that commands print with --json; docs/json.md describes them.
FORMAT = 1


def json_values(content: Any) -> Any:
    """Return the same content with what JSON lacks: null for NaN, "inf" and "-inf" for infinity.

    A value that does not exist (no interval was requested, a metric is undefined) is null; a value
    that is infinite is a text that Python's ``float`` reads back. Tuples become lists.

    >>> json_values({"ece": float("nan"), "nll": [0.5, float("inf")]})
    {'ece': None, 'nll': [0.5, 'inf']}
    """
    if isinstance(content, dict):
        return {key: json_values(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [json_values(value) for value in content]
    if not isinstance(content, float) or math.isfinite(content):
        return content
    return None if math.isnan(content) else ("inf" if content > 0 else "-inf")
