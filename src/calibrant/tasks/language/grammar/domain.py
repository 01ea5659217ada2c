"""What the sentences of one domain are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Domain", "lines", "words"]


@dataclass(frozen=True)
class Domain:
    """What one kind of text is made of.

    ``patterns`` gives the forms of a name of each type, ``parts`` the words or word parts that
    they name in braces; ``ambiguous`` the types that a name may have; ``decided`` templates tell
    the type by their words, ``open_`` ones do not.
    """

    patterns: Mapping[str, Sequence[str]]
    parts: Mapping[str, Sequence[str]]
    ambiguous: Mapping[str, Sequence[str]]
    decided: Sequence[str]
    open_: Sequence[str]
    typos: float  # chance that a word is mistyped
    lower: float  # chance that a sentence is all lower case


def words(text: str) -> tuple[str, ...]:
    """Split a text into words."""
    return tuple(text.split())


def lines(text: str) -> tuple[str, ...]:
    """Split a text into lines, without the space around them."""
    return tuple(line.strip() for line in text.strip().splitlines())
