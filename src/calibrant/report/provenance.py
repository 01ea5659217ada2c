"""The origin of the numbers: all that the audit recorded, nested, cut where too long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calibrant.report.markup import Markup, join, tag, user_text
from calibrant.report.numbers import count

__all__ = ["entries"]

_MOST = 60


def entries(values: Mapping[Any, Any]) -> Markup:
    """Return names and values as a definition list."""
    pairs = [
        tag("div", tag("dt", user_text(str(key).replace("_", " "))), tag("dd", _value(value)))
        for key, value in list(values.items())[:_MOST]
    ]
    return tag("dl", *pairs, _more(len(values)), class_="entries")


def _value(value: Any) -> Markup:
    if isinstance(value, Mapping):
        return entries(value)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        shown = [_value(entry) for entry in value[:_MOST]]
        if any(isinstance(entry, Mapping) for entry in value[:_MOST]):
            return join([*shown, _more(len(value))])
        return Markup(", ".join([*shown, *filter(None, [_more(len(value))])]))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return user_text(value)
    return tag("span", count(value) if isinstance(value, int) else f"{value:.6g}")


def _more(length: int) -> Markup | None:
    return tag("span", f"… {count(length)} in all") if length > _MOST else None
