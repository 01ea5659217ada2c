"""Image classification: one class for each image."""

from __future__ import annotations

from calibrant.tasks.image.pictures import load_pictures

__all__ = ["load_pictures"]
