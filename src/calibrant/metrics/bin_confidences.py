"""A calibration state of events that are either right or wrong, such as predicted entities."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calibrant.arguments import check_kind
from calibrant.metrics.bins import Bins, Closed
from calibrant.metrics.confidences import Confidences
from calibrant.metrics.state import CalibrationState

__all__ = ["bin_confidences"]


def bin_confidences(
    state: Confidences,
    bins: int | Bins = 15,
    *,
    closed: Closed = "right",
    cell: np.ndarray | None = None,
    cells: tuple[int, ...] = (),
) -> CalibrationState:
    """Return the calibration state of confidences, for binned metrics and diagrams.

    Its two classes are wrong and right, and the prediction is always "right", with probability c:
    the NLL is that of c as the chance of being right, the Brier score 2 (c − a)². There are no
    classwise tables. With ``cell``, the (flat) place of each example in leading axes of shape
    ``cells``, there is one state per place.

    >>> from calibrant.metrics import ece
    >>> c = Confidences(np.array([0.9, 0.8]), np.array([True, False]))
    >>> round(ece(bin_confidences(c)), 3)
    0.45
    """
    check_kind("bin_confidences", state, Confidences)
    bins = bins if isinstance(bins, Bins) else Bins(bins, closed)
    lead = (int(np.prod(cells)),)
    place = np.zeros(len(state), np.int64) if cell is None else cell
    confidence, right = np.clip(state.confidence, 0, 1), state.correct
    with np.errstate(divide="ignore"):  # Certain and wrong: the log-likelihood is −∞.
        nll = -np.log(np.where(right, confidence, 1 - confidence))
    each = {"n": None, "correct": right, "nll": nll, "brier": 2 * (confidence - right) ** 2}
    columns = {"count": None, "confidence": confidence, "correct": right}
    empty = CalibrationState.empty(2, bins, classwise=False, blocks=lead)
    sums = {name: (place, weights) for name, weights in each.items()}
    for name, weights in columns.items():
        sums[f"top_{name}"] = (place * bins.count + bins.index(confidence), weights)
        sums[f"predicted_{name}"] = (2 * place + 1, weights)
    sums["label_count"] = (2 * place + right, None)
    tables = {}
    for name in CalibrationState.SUMS:
        zero = getattr(empty, name)
        table = zero
        if name in sums:
            table = np.bincount(*sums[name], minlength=zero.size).astype(zero.dtype)
        tables[name] = table.reshape(cells + zero.shape[1:])
    return replace(empty, **tables)
