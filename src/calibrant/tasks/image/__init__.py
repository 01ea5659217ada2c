"""Image classification: one class for each image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calibrant.tasks.image.pictures import load_pictures

__all__ = ["load_pictures"]


def __getattr__(name: str) -> Any:
    """Import what reads data when it is first needed: the table of tasks stays light."""
    if name != "load_pictures":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from calibrant.tasks.image.pictures import load_pictures

    return load_pictures
