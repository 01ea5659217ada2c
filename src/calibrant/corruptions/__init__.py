"""Corrupt text and images at five strengths, seeded, as data looks outside a corpus.

``calibrant.corruptions.image`` needs torch; everything here needs NumPy alone.
"""

from __future__ import annotations

from calibrant.corruptions.names import (
    IMAGE,
    IMAGE_COPIES,
    RANDOM_DAMAGE,
    STRENGTHS,
    TEXT_COPIES,
    known_corruption,
    parse_corruption,
)
from calibrant.corruptions.text import TEXT, corrupt_text, corrupt_words, kept_words

__all__ = [
    "IMAGE",
    "IMAGE_COPIES",
    "RANDOM_DAMAGE",
    "STRENGTHS",
    "TEXT",
    "TEXT_COPIES",
    "corrupt_text",
    "corrupt_words",
    "kept_words",
    "known_corruption",
    "parse_corruption",
]
