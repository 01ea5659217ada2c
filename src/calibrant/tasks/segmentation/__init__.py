"""Semantic segmentation: one class for each pixel of an image."""

from __future__ import annotations

from calibrant.tasks.segmentation.scenes import load_scenes

__all__ = ["load_scenes"]
