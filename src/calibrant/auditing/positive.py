"""The view of binary predictions: the probability of the positive class, next to the top label."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from calibrant.auditing.estimate import Estimator
from calibrant.auditing.evidence import material, whole_p_value
from calibrant.auditing.record import Finding, PositiveView
from calibrant.metrics import (
    CalibrationState,
    Confidences,
    ConfidenceSketch,
    accuracy,
    ece,
    mean_confidence,
)
from calibrant.metrics.metric import points
from calibrant.metrics.null_ece import ece_p_value

__all__ = ["least_gap", "positive_findings", "positive_state", "positive_view"]


def positive_state(state: CalibrationState) -> CalibrationState:
    """Return the state of the claims "this is class 1", from the tables of two classes."""
    tables: dict[str, Any] = {
        f"top_{part}": getattr(state, f"class_{part}")[..., 1, :]
        for part in ("count", "confidence", "correct")
    }
    correct = tables["top_correct"].sum(axis=-1)
    return replace(state.without_classes(), classes=0, correct=correct, **tables)


def least_gap(state: CalibrationState) -> float:
    """Return the least gap of the positive class that matters: less where a class is rare."""
    return material(float(accuracy(positive_state(state).total())))


def positive_findings(
    state: CalibrationState, name: str, *, grouped: bool, level: float
) -> tuple[Finding, ...]:
    """Test the positive class: its mean score against its share, and its ECE.

    Each has half of the risk ``level``. They need fewer examples than the tests of every bin.
    ``grouped``: the state has a leading axis of blocks.
    """
    positive, least = positive_state(state), least_gap(state)
    whole = positive.total()
    about = (round(float(whole.n)), float(mean_confidence(whole)), float(accuracy(whole)))
    p_value = whole_p_value(positive, grouped=grouped, least=least)
    if p_value <= level / 2:
        return (Finding("class", name, "given", *about, 2 * p_value),)
    p_value = ece_p_value(positive) if ece(whole) >= least else 1.0
    if p_value <= level / 2:
        return (Finding("class", name, "bin by bin", *about, 2 * p_value),)
    return ()


def positive_view(
    state: CalibrationState,
    confidences: Confidences | ConfidenceSketch,
    name: str,
    estimate: Estimator,
) -> PositiveView:
    """Return the measures of the positive class; ``state`` has a leading axis of blocks."""
    blocked = positive_state(state)
    sources = {"positive": blocked, "positive_confidences": confidences}
    measures = estimate("binary", sources, state.bins.count)
    return PositiveView(measures, blocked.total(), name, _explanation(state.total(), name))


def _explanation(state: CalibrationState, name: str) -> str:
    """Say how the error of the positive class and that of the top label differ, and why."""
    of_positive, of_top = ece(positive_state(state)), ece(state)
    asked = (
        f"The positive-class ECE asks whether '{name}' is true as often as its score says; the "
        "top-label ECE asks whether the predicted class is right as often as the larger of p and "
        "1 − p says."
    )
    if abs(of_positive - of_top) <= least_gap(state):
        return f"{asked} Here both are about {points(of_positive)}."
    if of_positive > of_top:
        where, below, above = (
            ("high", "unsure", "confident")
            if _cancelling(positive_state(state)) >= 0
            else ("low", "confident", "unsure")
        )
        why = (
            f"where the score is too {where}, the predicted class looks too {below} below one half "
            f"and too {above} above it, and there both share a bin, where they cancel out"
        )
    else:
        why = (
            "the bin around one half has scores of both sides, whose errors cancel out in the "
            "positive-class ECE"
        )
    return f"{asked} Here they are {points(of_positive)} and {points(of_top)}: {why}."


def _cancelling(positive: CalibrationState) -> float:
    """Return the errors that cancel out between p and 1 − p: above 0 where scores are too high."""
    gaps = positive.top_confidence - positive.top_correct
    half = len(gaps) // 2
    below, above = gaps[:half], gaps[::-1][:half]
    same = below * above > 0
    return float((np.sign(below) * np.minimum(np.abs(below), np.abs(above)))[same].sum())
