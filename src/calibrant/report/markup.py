"""HTML and SVG safe from injection: text is escaped unless it was made here."""

from __future__ import annotations

import html
from collections.abc import Iterable

__all__ = ["Markup", "join", "sentence", "tag", "user_text"]

# Longer names are cut, so that a report stays small with any labels.
_LONGEST = 200
_EMPTY = ("circle", "img", "line", "path", "rect")


class Markup(str):
    """Text that is HTML already; every other string is escaped by :func:`tag`."""

    __slots__ = ()


def tag(name: str, *children: str | None, **attributes: object) -> Markup:
    """Return one element. A trailing underscore of an attribute is dropped, others become hyphens.

    >>> tag("td", "a < b", class_="name", data_tip=None)
    '<td class="name">a &lt; b</td>'
    >>> tag("p", tag("b", "<script>"))
    '<p><b>&lt;script&gt;</b></p>'
    """
    head = name + "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(_text(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _EMPTY:
        return Markup(f"<{head}/>")
    return Markup(f"<{head}>{join(children)}</{name}>")


def join(parts: Iterable[str | None]) -> Markup:
    """Join the parts; escape all that is not markup, skip None."""
    return Markup(
        "".join(
            part if isinstance(part, Markup) else html.escape(part)
            for part in parts
            if part is not None
        )
    )


def user_text(value: object, longest: int = _LONGEST) -> Markup:
    """Return a user's name, cut to a sane length and unable to reverse the text around it."""
    text = str(value)
    short = text if len(text) <= longest else text[: longest - 1] + "…"
    return tag("bdi", short, title=text[:1000] if short != text else None)


def sentence(text: str) -> Markup:
    """Return a sentence that may hold a user's name; no sentence of ours is cut."""
    return user_text(text, 10 * _LONGEST)


def _text(value: object) -> str:
    """Round coordinates to a tenth of a unit, finer than any screen; keep the rest as it is."""
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    return str(value)
