"""Data as it comes outside of a corpus: text and images corrupted at five strengths, seeded."""

from __future__ import annotations

from calibrant.corruptions.names import STRENGTHS, parse_corruption
from calibrant.corruptions.text import TEXT, corrupt_text, corrupt_words, kept_words

__all__ = ["STRENGTHS", "TEXT", "corrupt_text", "corrupt_words", "kept_words", "parse_corruption"]
