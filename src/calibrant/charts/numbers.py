"""Numbers formatted for people; a value that is not a number becomes a dash."""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = [
    "DASH", "count", "counted", "edge", "interval", "number", "percent", "points", "short_count",
    "show", "signed",
]  # fmt: skip

DASH = "–"


def count(value: float) -> str:
    """Format 12345 as '12,345', and a sum of weights as the nearest whole number.

    >>> count(12345), count(1.99)
    ('12,345', '2')
    """
    return f"{round(value):,}"


def counted(value: float, noun: str) -> str:
    """Format a count with its noun.

    >>> counted(0.98, "example"), counted(1234, "gold entity"), counted(2, "class")
    ('1 example', '1,234 gold entities', '2 classes')
    """
    value = round(value)
    *before, last = noun.split(" ")
    plural = " ".join([*before, {"class": "classes", "entity": "entities"}.get(last, f"{last}s")])
    return f"{count(value)} {noun if value == 1 else plural}"


def percent(value: float, digits: int = 1) -> str:
    """Format a share; only exactly 1 reads 100 %, and only exactly 0 reads 0 %.

    >>> percent(0.5), percent(0.99996), percent(1.0), percent(1 - 1e-12), percent(float("nan"))
    ('50.0 %', '99.996 %', '100 %', '> 99.9999 %', '–')
    """
    if math.isnan(value):
        return DASH
    if value in (0, 1):
        return f"{100 * value:.0f} %"
    for decimals in range(digits, 7):
        text = f"{100 * value:.{decimals}f}"
        if float(text) not in (0, 100):
            return f"{text} %"
    return "< 0.0001 %" if value < 0.5 else "> 99.9999 %"


def points(value: float) -> str:
    """Format the signed difference of two shares in percentage points.

    >>> points(0.0345), points(-0.2), points(float("nan"))
    ('+3.5', '−20.0', '–')
    """
    return signed(100 * value, 1)


def signed(value: float, digits: int) -> str:
    """Format a difference with its sign; no sign if it rounds to zero."""
    text = show(value, digits)
    return text if value <= 0 or text == DASH or not text.strip("0.") else f"+{text}"


def number(value: float) -> str:
    """Format with four decimals for small numbers, fewer for large ones.

    >>> number(0.23468), number(75.13), number(1234.5), number(float("inf"))
    ('0.2347', '75.13', '1,234.5', '∞')
    """
    return show(value, 4 if abs(value) < 10 else 2 if abs(value) < 1000 else 1)


def show(value: float, digits: int) -> str:
    """Format a number with a real minus, none if it rounds to zero; NaN is a dash.

    >>> show(-0.25, 1), show(math.nan, 1), show(math.inf, 1), show(-0.001, 1)
    ('−0.2', '–', '∞', '0.0')
    """
    if math.isnan(value):
        return DASH
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:,.{digits}f}"
    return text.replace("-", "−") if text.strip("-0.") else text.removeprefix("-")


def interval(
    low: float | None, high: float | None, form: Callable[[float], str] = number
) -> str | None:
    """Format an interval in the unit of its value, or return None without one.

    >>> interval(0.0412, 0.0533), interval(-0.0165, 0.1168, points), interval(None, None)
    ('[0.0412, 0.0533]', '[−1.7, +11.7]', None)
    """
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return None
    return f"[{form(low)}, {form(high)}]"


def edge(value: float, digits: int = 3) -> str:
    """Format the edge of a bin: 0, 0.067, 0.2, 1."""
    return f"{value:.{digits}f}".rstrip("0").rstrip(".")


def short_count(value: int) -> str:
    """Format a count in at most four characters.

    >>> [short_count(c) for c in (0, 999, 1234, 56_789, 999_999, 2_500_000, 3_000_000_000)]
    ['0', '999', '1.2k', '57k', '1M', '2.5M', '3G']
    """
    left, unit = float(value), ""
    for unit in ("", "k", "M", "G", "T"):  # noqa: B007
        if left < 999.5:
            break
        left /= 1000
    text = f"{left:.1f}" if unit and left < 9.95 else f"{left:.0f}"
    return text.removesuffix(".0") + unit
