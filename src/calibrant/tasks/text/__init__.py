"""Text classification: one class for each text."""

from __future__ import annotations

from calibrant.tasks.text.corpus import load_texts

__all__ = ["load_texts"]
