"""The additive state of claims: the sums of ``accumulate``, from one confidence each."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import numpy as np

from calibrant.claims import Claims
from calibrant.errors import InputError
from calibrant.metrics.bins import Bins
from calibrant.metrics.kernel_dispatch import claim_kernels, kernel_edges, plain
from calibrant.metrics.state import CalibrationState, times

__all__ = ["add_to", "claim_state", "tally"]

_CHUNK = 1 << 16  # Claims at a time: the intermediates stay in cache.


def claim_state(
    claims: Claims,
    bins: Bins,
    *,
    classwise: bool = False,
    block: np.ndarray | None = None,
    blocks: int = 0,
    into: CalibrationState | None = None,
) -> CalibrationState:
    """Return the state of claims, or add them to ``into``, as ``accumulate`` does.

    The confidence of claim i is c_i, and a_i = 1 if it came true, else 0. The NLL is that of "true
    or not", −log(c_i) or −log(1 − c_i), the Brier score 2 (c_i − a_i)²: for the top label or the
    positive class of two classes, both are those of the full predictions. Tables per class exist
    for claims about K known labels (multi-label), with the claims about label k in row k.

    >>> state = claim_state(Claims.from_top_label(None, [0.9, 0.7], correct=[1, 0]), Bins(5))
    >>> state.top_count.tolist(), round(float(state.brier), 2)
    ([0, 0, 0, 1, 1], 1.0)
    """
    known = claims.kind == "multi-label"
    classes = len(claims.names) if known else 0
    lead = 1 if block is None else blocks
    state = into
    if state is None:
        made = known and classwise
        options = {"classwise": made, "weighted": claims.weighted}
        state = CalibrationState.empty(classes, bins, blocks=(lead,), **options)
    if state.weighted != claims.weighted:
        raise InputError("accumulate expects sample weights in all parts, or in none.")
    module = None if known or claims.weighted else claim_kernels(len(claims))
    if module is not None:
        _add_compiled(state, claims, block, module)
    for start in range(0, len(claims) if module is None else 0, _CHUNK):
        rows = slice(start, start + _CHUNK)
        where = None if block is None else block[rows]
        about = None if claims.about is None or not known else claims.about[rows]
        weights = None if claims.weights is None else claims.weights[rows]
        _add(state, claims.confidence[rows], claims.correct[rows], where, about, weights)
    n, correct = state.top_count.sum(axis=-1), state.top_correct.sum(axis=-1)
    state = replace(state, ignored=state.ignored + claims.ignored, n=n, correct=correct)
    return state.total() if block is None and into is None else state


def _add_compiled(
    state: CalibrationState, claims: Claims, block: np.ndarray | None, kernels: ModuleType
) -> None:
    """Add all claims to the sums of their blocks, in place, in one pass."""
    parts = kernels.TURNS if block is None else len(state.top_confidence)
    tally = np.zeros((parts, state.bins.count), np.int64)
    claimed = np.zeros(tally.shape)
    kernels.add_claims(
        plain(claims.confidence),
        plain(claims.correct, np.bool_),
        plain(np.empty(0) if block is None else block, np.int64),
        kernel_edges(state.bins, claims.confidence.dtype),
        (tally.reshape(-1), claimed.reshape(-1), state.nll, state.brier),
    )
    if block is None:
        tally, claimed = (table.sum(axis=0, keepdims=True) for table in (tally, claimed))
    state.top_confidence[...] += claimed
    right = tally >> kernels.RIGHT
    state.top_correct[...] += right
    state.top_count[...] += tally - (right << kernels.RIGHT)


def _add(
    state: CalibrationState,
    given: np.ndarray,
    right: np.ndarray,
    block: np.ndarray | None,
    about: np.ndarray | None,
    w: np.ndarray | None,
) -> None:
    """Add some claims to the sums of their blocks, in place."""
    bin_ = state.bins.index(given)
    confidence = np.clip(given.astype(np.float64), 0, 1)
    with np.errstate(divide="ignore"):  # Certain and wrong: the log-likelihood is −∞.
        nll = -np.log(np.where(right, confidence, 1 - confidence))
    place: np.ndarray | int = 0 if block is None else block
    whole = np.zeros(len(given), np.int64) if block is None else block
    add_to(state.nll, whole, times(nll, w))
    add_to(state.brier, whole, times(2 * (confidence - right) ** 2, w))
    cells = {"top": place * state.bins.count + bin_}
    if about is not None:
        cells["predicted"] = label = place * state.classes + about
        add_to(state.label_count, label[right], None if w is None else w[right])
        if state.classwise:
            cells["class"] = label * state.bins.count + bin_
    claimed = times(confidence, w)
    for name, cell in cells.items():
        count, correct = (getattr(state, f"{name}_{part}") for part in ("count", "correct"))
        tally(count, correct, cell, right, w)
        add_to(getattr(state, f"{name}_confidence"), cell, claimed)


def tally(
    count: np.ndarray,
    correct: np.ndarray,
    cell: np.ndarray,
    right: np.ndarray,
    weights: np.ndarray | None,
) -> None:
    """Count all claims and those that came true, in place: by one pass over both."""
    both = np.bincount(2 * cell + right, weights, minlength=2 * count.size)
    both = both.astype(count.dtype, copy=False).reshape(*count.shape, 2)
    count += both[..., 0]
    count += both[..., 1]
    correct += both[..., 1]


def add_to(total: np.ndarray, cell: np.ndarray, weights: np.ndarray | None) -> None:
    """total.ravel()[cell] += weights, in place, with repeated cells added up."""
    added = np.bincount(cell, weights, minlength=total.size)
    total += added.reshape(total.shape).astype(total.dtype, copy=False)
