"""The part of an audit that looks at images: overlap, borders, and each image separately."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calibrant.auditing.estimate import Estimator
from calibrant.auditing.record import ImageRow, PixelView, RegionRow
from calibrant.metrics import (
    Bins,
    CalibrationState,
    accumulate,
    class_iou,
)
from calibrant.metrics.segmentation_example import Scene
from calibrant.predictions import Predictions

__all__ = ["PixelSums", "pixel_view"]


class PixelSums:
    """Sums per bootstrap block inside and near borders, and per image over bins of confidence.

    Memory grows with the number of images, 3 numbers per bin of each, and not with their pixels.
    """

    def __init__(self, blocks: int, bins: Bins) -> None:
        self.blocks, self.bins = blocks, bins
        self.regions: CalibrationState | None = None  # (blocks, 2): inside, near a border
        self.images: dict[str | int | float, np.ndarray] = {}  # (3, bins): count, claimed, right

    def add(self, chunk: Predictions, block: np.ndarray) -> None:
        """Add a chunk with the groups ``image`` and, where there is one, ``border``."""
        if not len(chunk):
            return
        names, first, image = np.unique(
            chunk.groups["image"], return_index=True, return_inverse=True
        )
        near = chunk.groups.get("border", np.zeros(len(chunk))).astype(bool)
        part = accumulate(
            chunk, self.bins, classwise=False, block=2 * image + near, blocks=2 * len(names)
        )
        if self.regions is None and "border" in chunk.groups:
            shape = (self.blocks, 2)
            self.regions = CalibrationState.empty(
                chunk.classes, self.bins, classwise=False, blocks=shape, weighted=chunk.weighted
            )
        for number, name in enumerate(names.tolist()):
            rows = slice(2 * number, 2 * number + 2)
            if self.regions is not None:
                for field in CalibrationState.SUMS:
                    sums = getattr(self.regions, field)
                    sums[block[first[number]]] += getattr(part, field)[rows]
            tables = (part.top_count, part.top_confidence, part.top_correct)
            added = np.stack([table[rows].sum(axis=0) for table in tables])
            self.images[name] = self.images.get(name, 0) + added

    def scale(self, factor: float) -> None:
        """Multiply all sample weights by a factor."""
        self.regions = None if self.regions is None else self.regions.scaled(factor)
        self.images = {name: factor * tables for name, tables in self.images.items()}

    def merge(self, other: PixelSums) -> None:
        """Add the sums of other pixels, also of the same images."""
        if self.regions is None or other.regions is None:
            self.regions = self.regions or other.regions
        else:
            self.regions += other.regions
        for name, tables in other.images.items():
            self.images[name] = self.images.get(name, 0) + tables


def pixel_view(
    sums: PixelSums,
    blocked: CalibrationState,
    total: CalibrationState,
    names: Sequence[str],
    estimate: Estimator,
    scenes: Sequence[Scene],
) -> PixelView:
    """Return the measures of images, from the states of all pixels with and without blocks."""
    rows = _image_rows(sums)
    sources = {"classwise": blocked, "image_errors": np.array([row.ece for row in rows])}
    if sums.regions is not None:
        sources |= {"inside": sums.regions[:, 0], "border": sums.regions[:, 1]}
    measures = estimate("pixels", sources)
    return PixelView(measures, rows, _region_rows(total, names), tuple(scenes))


def _region_rows(state: CalibrationState, names: Sequence[str]) -> tuple[RegionRow, ...]:
    gaps = np.abs(state.class_correct - state.class_confidence).sum(axis=-1) / state.n
    found = zip(names, class_iou(state).tolist(), gaps.tolist(), strict=True)
    return tuple(RegionRow(*row) for row in found)


def _image_rows(sums: PixelSums) -> tuple[ImageRow, ...]:
    """Return the images, the furthest off first."""
    rows = []
    for name, (count, claimed, right) in sums.images.items():
        n = count.sum()
        error = np.abs(right - claimed).sum() / n
        rows.append(
            ImageRow(
                str(name), round(n), float(claimed.sum() / n), float(right.sum() / n), float(error)
            )
        )
    return tuple(sorted(rows, key=lambda row: -row.ece))
