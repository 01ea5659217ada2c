"""Text classification: one class for each text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calibrant.tasks.text.corpus import load_texts

__all__ = ["load_texts"]


def __getattr__(name: str) -> Any:
    """Import what reads data when it is first needed: the table of tasks stays light."""
    if name != "load_texts":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from calibrant.tasks.text.corpus import load_texts

    return load_texts
