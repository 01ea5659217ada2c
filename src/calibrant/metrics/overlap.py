"""Overlap of predicted and true regions: functions of the same state as the calibration errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.metrics.binned import Source, state_of

__all__ = ["class_iou", "mean_iou"]


def class_iou(source: Source) -> np.ndarray:
    """Return the intersection over union of each class, TP / (TP + FP + FN), NaN if unseen.

    The Jaccard index (Everingham et al. 2010 for pixels). Counted over all examples together, not
    image by image; ignored pixels count nowhere.

    >>> from calibrant import Predictions
    >>> p = Predictions.from_logits([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [0, 1, 1])
    >>> class_iou(p)
    array([0.5, 0.5])
    """
    state = state_of(source)
    both = state.predicted_correct
    either = state.label_count + state.predicted_count - both
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(both / either)


def mean_iou(source: Source) -> Any:
    """Mean of :func:`class_iou` over the classes that were labelled or predicted (mIoU).

    >>> from calibrant import Predictions
    >>> p = Predictions.from_logits([[1.0, 0, 0], [1.0, 0, 0], [0, 1.0, 0]], [0, 1, 1])
    >>> mean_iou(p)  # The third class was never met.
    0.5
    """
    found = class_iou(source)
    met = ~np.isnan(found)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.asarray(np.where(met, found, 0.0).sum(axis=-1) / met.sum(axis=-1))
    return float(mean) if mean.ndim == 0 else mean
