"""Semantic segmentation: one class for each pixel of an image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calibrant.tasks.segmentation.scenes import load_scenes

__all__ = ["load_scenes"]


def __getattr__(name: str) -> Any:
    """Import what reads data when it is first needed: the table of tasks stays light."""
    if name != "load_scenes":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from calibrant.tasks.segmentation.scenes import load_scenes

    return load_scenes
