"""Named entity recognition: words with BIO tags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calibrant.tasks.ner.corpus import load_corpus

__all__ = ["load_corpus"]


def __getattr__(name: str) -> Any:
    """Import what reads data when it is first needed: the table of tasks stays light."""
    if name != "load_corpus":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from calibrant.tasks.ner.corpus import load_corpus

    return load_corpus
