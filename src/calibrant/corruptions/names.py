"""``typos-3``: a corruption and its strength in one name."""

from __future__ import annotations

import re
from collections.abc import Collection

from calibrant.errors import InputError, unknown_name

__all__ = ["STRENGTHS", "check_strength", "known_corruption", "parse_corruption"]

STRENGTHS = (1, 2, 3, 4, 5)


def parse_corruption(name: str, kinds: Collection[str]) -> tuple[str, int] | None:
    """Return kind and strength, or None if the name is not one of ``kinds``.

    >>> parse_corruption("dropped-words-3", ["typos", "dropped-words"])
    ('dropped-words', 3)
    >>> parse_corruption("wnut17", ["typos"]) is None
    True
    """
    parts = re.fullmatch(r"(.+)-(\d+)", name)
    if parts is None or parts[1] not in kinds:
        return None
    return parts[1], check_strength(int(parts[2]), name)


def known_corruption(name: str, kinds: Collection[str], of: str) -> tuple[str, int]:
    """Return kind and strength of a name that must be one of ``kinds``, ``of`` some data.

    >>> known_corruption("typo-3", ["typos", "ocr"], of="texts")
    Traceback (most recent call last):
    ...
    calibrant.errors.InputError: Unknown corruption of texts 'typo-3'. Did you mean 'typos'? ...
    """
    if name in kinds:
        raise InputError(f"Which strength of '{name}'? Expected {name}-1 to {name}-5.")
    found = parse_corruption(name, kinds)
    if found is None:
        hint = "Expected KIND-STRENGTH; 'calibrant list corruptions' shows all."
        raise unknown_name(f"corruption of {of}", name, kinds, hint)
    return found


def check_strength(strength: int, given: object = None) -> int:
    """Return the strength if it is valid; the error quotes ``given`` instead of it."""
    if strength not in STRENGTHS or isinstance(strength, bool):
        got = strength if given is None else given
        raise InputError(f"The strength of a corruption is 1, 2, 3, 4 or 5, got {got!r}.")
    return strength
