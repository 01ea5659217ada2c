"""Named entity recognition: words with BIO tags."""

from __future__ import annotations

from calibrant.tasks.ner.corpus import load_corpus

__all__ = ["load_corpus"]
