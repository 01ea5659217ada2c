"""One plain sentence for each number of an audit, and the verdict that stands above them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from calibrant.audit.record import ClassRow
from calibrant.metrics import CalibrationState, accuracy, chance_ece, ece, mean_confidence

__all__ = ["MEANINGS", "percent", "points", "short_name", "verdict"]

# A gap between mean confidence and accuracy below this is not worth calling a direction.
_BALANCED = 0.005
# Where even a calibrated model may show a larger ECE than this, none says little about another.
_TELLING = 0.1
# Longer class names than this are cut in a sentence.
_LONGEST = 60
# Classes predicted fewer times than this are too few to be blamed in the verdict.
_ENOUGH = 20


def percent(value: float, digits: int = 1) -> str:
    """0.9125 as '91.3 %'."""
    return f"{100 * value:.{digits}f} %"


def points(value: float) -> str:
    """A difference of two shares: 0.052 as '5.2 points', finer below one point."""
    size = abs(100 * value)
    text = f"{size:.1f}" if size >= 0.95 else f"{size:.2f}"
    return f"{text} point" + ("" if text in ("1.0", "1.00") else "s")


def short_name(name: str) -> str:
    """The name of a class as it stands in a sentence: on one line and of a sane length.

    >>> short_name("two\\nlines")
    'two\\\\nlines'
    """
    printed = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)
    return printed if len(printed) <= _LONGEST else printed[: _LONGEST - 1] + "…"


# Metric → what its value means for the user.
MEANINGS: dict[str, Callable[[float], str]] = {
    "accuracy": lambda v: f"{percent(v)} of the predictions are right.",
    "mean_confidence": lambda v: (
        f"On average the model claims to be right {percent(v)} of the time."
    ),
    "ece": lambda v: f"Confidence misses accuracy by {points(v)} on average, bin by bin.",
    "debiased_ece": lambda v: (
        f"Root-mean-square gap of {points(v)} once the part that chance explains is taken off."
    ),
    "adaptive_ece": lambda v: f"As ECE, with bins of equal mass: {points(v)}.",
    "mce": lambda v: f"In the worst bin the gap is {points(v)}; small bins exaggerate.",
    "overconfidence_error": lambda v: (
        "Nowhere more confident than right."
        if v == 0
        else f"The part of the gap where confidence exceeds accuracy, weighted: {points(v)}."
    ),
    "classwise_ece": lambda v: f"Averaged over all classes, each against the rest: {points(v)}.",
    "adaptive_classwise_ece": lambda v: (
        f"The classwise error with bins of equal mass: {points(v)}."
    ),
    "smooth_ece": lambda v: f"Free of bins, by a smoothing kernel: {points(v)}.",
    "ks_error": lambda v: (
        f"Largest gap of the running sums of confidence and accuracy: {points(v)}."
    ),
    "nll": lambda v: (
        "Infinite: some true class was given probability 0."
        if np.isinf(v)
        else f"{v:.3f} nats of surprise per example; lower is better, a proper score."
    ),
    "brier": lambda v: f"Squared error of all probabilities, 0 to 2: {v:.3f}; a proper score.",
    "auroc": lambda v: (
        f"A right prediction is more confident than a wrong one {percent(v)} of the time."
    ),
    "aurc": lambda v: f"Error of {percent(v, 2)} averaged over all shares that could be kept.",
    "e_aurc": lambda v: f"Of which {points(v)} could be had by ranking the same errors last.",
    "augrc": lambda v: f"Undetected errors, averaged over all thresholds: {percent(v, 2)}.",
    "risk_at_coverage": lambda v: f"Keeping the most confident 80 %, {percent(v)} are wrong.",
    "coverage_at_risk": lambda v: f"{percent(v)} can be kept with at most 5 % of them wrong.",
    "token_f1": lambda v: f"Micro F1 over tags other than O: {percent(v)}.",
    "entity_f1": lambda v: f"Exact spans and types found: F1 {percent(v)}.",
    "ece_without_o": lambda v: (
        f"Where gold or prediction is not O, confidence misses accuracy by {points(v)}."
    ),
    "entity_ece": lambda v: (
        f"Made of its words' like this, an entity's confidence misses its accuracy by {points(v)}."
    ),
    "entity_confidence": lambda v: f"The model claims {percent(v)} of its entities to be right.",
    "entity_accuracy": lambda v: f"{percent(v)} of the predicted entities are right (precision).",
    "entity_auroc": lambda v: (
        f"A right entity is more confident than a wrong one {percent(v)} of the time."
    ),
    "mean_iou": lambda v: (
        f"Regions found and true ones share {percent(v)} of their pixels, averaged over classes."
    ),
    "inside_accuracy": lambda v: f"{percent(v)} of the pixels away from borders are right.",
    "border_accuracy": lambda v: f"{percent(v)} of the pixels near borders are right.",
    "inside_ece": lambda v: f"Away from borders, confidence misses accuracy by {points(v)}.",
    "border_ece": lambda v: f"Near borders, confidence misses accuracy by {points(v)}.",
    "image_ece_median": lambda v: (
        f"Half of the images, each by itself, are further off than {points(v)}."
    ),
    "image_ece_high": lambda v: f"One image in ten is further off than {points(v)}.",
    "apcr": lambda v: f"F1² / ECE = {v:.1f}; higher is a better trade of performance and trust.",
}


def verdict(state: CalibrationState, classes: Sequence[ClassRow]) -> tuple[str, ...]:
    """Plain sentences, the most important first."""
    sentences = _first_sentences(state)
    many = [row for row in classes if row.predicted >= _ENOUGH]
    worst = max(many, key=_surely_off, default=None)
    if worst is not None and _surely_off(worst) > _BALANCED and len(classes) > 1:
        sentences.append(
            f"Furthest off: '{short_name(worst.name)}', claimed {percent(worst.confidence)} and "
            f"right {percent(worst.accuracy)} in {worst.predicted:,} predictions."
        )
    empty = int((state.top_count == 0).sum())
    top = state.top_count[-1] / state.n
    sentences.append(
        f"{empty} of {state.bins.count} bins {'is' if empty == 1 else 'are'} empty; "
        f"{percent(float(top))} of the examples lie in the most confident one."
    )
    if state.ignored:
        were = "example labelled −100 was" if state.ignored == 1 else "examples labelled −100 were"
        sentences.append(f"{state.ignored:,} {were} ignored.")
    return tuple(sentences)


def _surely_off(row: ClassRow) -> float:
    """The gap less two standard deviations of what a calibrated model would show."""
    claimed = min(max(row.confidence, 0.0), 1.0)
    return abs(row.gap) - 2 * float(np.sqrt(claimed * (1 - claimed) / row.predicted))


def _first_sentences(state: CalibrationState) -> list[str]:
    right, claimed, observed = accuracy(state), mean_confidence(state), ece(state)
    expected, upper = chance_ece(state)
    said = (
        f"the model says {percent(claimed)} on average and is right {percent(right)} of the time."
    )
    if observed <= upper:
        few = upper > _TELLING
        lead = "Too few examples to tell" if few else "No reason to doubt the confidences"
        return [
            f"{lead}: an ECE of {points(observed)} is within what chance alone gives a calibrated "
            f"model at n = {int(state.n):,} (about {points(expected)}, up to {points(upper)}).",
            f"Taken together, {said}",
        ]
    direction = "Overconfident" if claimed > right else "Underconfident"
    balanced = abs(claimed - right) < _BALANCED
    lead = "Balanced only on average" if balanced else f"{direction} by {points(claimed - right)}"
    return [
        f"{lead}: {said}",
        f"This is more than chance: a perfectly calibrated model of this size would show an ECE "
        f"of about {points(expected)}, this one shows {points(observed)}.",
    ]
