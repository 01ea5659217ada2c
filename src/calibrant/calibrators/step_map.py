"""Piecewise constant maps of one probability, the result of histogram binning and BBQ."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from calibrant.arrays import Array
from calibrant.calibrators.backend import step
from calibrant.calibrators.scalar import ScalarMap

__all__ = ["StepMap", "equal_mass_edges", "steps"]


class StepMap(ScalarMap):
    """values_[b] where edges_[b − 1] < p ≤ edges_[b]."""

    @abstractmethod
    def fit(self, scores: np.ndarray, happened: np.ndarray) -> dict[str, np.ndarray]:
        """Return edges and values."""

    def apply(self, scores: Array, values: Mapping[str, Any]) -> Array:
        """Look each score up."""
        return step(values["edges_"], values["values_"], scores)


def steps(edges: np.ndarray, values: np.ndarray) -> dict[str, np.ndarray]:
    """Return the learned arrays; a single bin gets an edge at 1, so that there is always one."""
    if not len(edges):
        edges, values = np.ones(1), np.repeat(values, 2)
    return {"edges_": edges.astype(np.float64), "values_": values}


def equal_mass_edges(scores: np.ndarray, bins: int, *, ascending: bool = False) -> np.ndarray:
    """Return inner edges that split the scores into bins of nearly equal size.

    Each edge lies halfway between the largest score of its bin and the next one: on a score itself,
    a last bit that NumPy, torch and ONNX round differently would put it into another bin. Tied
    scores stay together; a bin that ties would leave empty is merged, so there may be fewer.
    ``ascending`` scores need not be sorted again.

    >>> equal_mass_edges(np.array([0.1, 0.2, 0.3, 0.3, 0.3, 1.0]), 3)
    array([0.25, 0.65])
    """
    starts = np.unique(np.arange(1, bins) * len(scores) // bins)
    starts = starts[starts > 0]
    ordered = scores
    if len(starts) and not ascending:
        # Only the scores beside the edges need to be in sorted position.
        ordered = np.partition(scores, np.append(starts - 1, starts))
    ends, following = ordered[starts - 1], ordered[starts]
    if (ends == following).any():
        ordered = scores if ascending else np.sort(scores)
        ends = np.unique(ends)
        ends = ends[ends < ordered[-1]]
        following = ordered[np.searchsorted(ordered, ends, side="right")]
    middle = ends + (following - ends) / 2
    edges: np.ndarray = np.where(middle < following, middle, ends)  # Neighbours have no middle.
    return edges
