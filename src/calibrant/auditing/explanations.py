"""One plain sentence for each number of an audit, and the verdict that stands above them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from calibrant.auditing.record import Finding
from calibrant.metrics import CalibrationState, accuracy, ece, mean_confidence

__all__ = ["MEANINGS", "percent", "points", "short_name", "verdict"]

# A gap between mean confidence and accuracy below this is not worth calling a direction.
_BALANCED = 0.005
# Where even a calibrated model may show a larger ECE than this, none says little about another.
_TELLING = 0.1
# Longer class names than this are cut in a sentence.
_LONGEST = 60


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
        f"So computed, an entity's confidence misses its accuracy by {points(v)} on average."
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
    "apcr": lambda v: (
        "Infinite: the ECE is 0."
        if np.isinf(v)
        else f"F1² / ECE = {v:.1f}; higher is a better trade of performance and trust."
    ),
}


def verdict(
    state: CalibrationState,
    chance: tuple[float, float],
    findings: Sequence[Finding],
    p_value: float | None = None,
) -> tuple[str, ...]:
    """Plain sentences, the most important first.

    ``chance`` is what :func:`~calibrant.metrics.chance_ece` says of the state, ``findings`` are the
    classes and groups that are off by more than chance, and ``p_value`` is that of the mean
    confidence where it is off by more than chance.
    """
    doubtful = ece(state) > chance[1] or p_value is not None
    sentences = (
        _off(state, chance, p_value) if doubtful else _within_chance(state, chance, findings)
    )
    shown = findings if doubtful else findings[1:]
    if shown:
        worst = max(shown, key=lambda finding: abs(finding.gap))
        sentences.append(f"{'Furthest off' if doubtful else 'Also off'}: {_what(worst)}.")
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


def _what(finding: Finding) -> str:
    """The finding as the end of a sentence."""
    name, claimed, right = short_name(finding.name), finding.confidence, finding.accuracy
    if finding.kind == "group":
        where = f" where the model says {finding.where}" if finding.where else ""
        return (
            f"'{name}'{where}, claimed {percent(claimed)} and right {percent(right)} in "
            f"{finding.n:,} predictions"
        )
    if finding.where == "predicted":
        return (
            f"'{name}', claimed {percent(claimed)} and right {percent(right)} in "
            f"{finding.n:,} predictions"
        )
    bin_ = finding.where.removeprefix("given").strip()
    where = f" where it is given {bin_}" if bin_ else ""
    return (
        f"'{name}'{where}, given {percent(claimed)} on average and the label of "
        f"{percent(right)} of {finding.n:,} examples"
    )


def _said(state: CalibrationState) -> str:
    right, claimed = accuracy(state), mean_confidence(state)
    return f"the model says {percent(claimed)} on average and is right {percent(right)} of the time"


def _within_chance(
    state: CalibrationState, chance: tuple[float, float], findings: Sequence[Finding]
) -> list[str]:
    expected, upper = chance
    explained = (
        f"an ECE of {points(ece(state))} is within what chance alone gives a calibrated model at "
        f"n = {int(state.n):,} (about {points(expected)}, up to {points(upper)})."
    )
    if findings:
        which = "class" if findings[0].kind == "class" else "group"
        lead = f"Right on the whole, but not for every {which}: {_what(findings[0])}"
        return [f"{lead}.", f"Taken together, {_said(state)}; {explained}"]
    few = upper > _TELLING
    lead = "Too few examples to tell" if few else "No reason to doubt the confidences"
    return [f"{lead}: {explained}", f"Taken together, {_said(state)}."]


def _off(state: CalibrationState, chance: tuple[float, float], p_value: float | None) -> list[str]:
    gap = mean_confidence(state) - accuracy(state)
    direction = "Overconfident" if gap > 0 else "Underconfident"
    balanced = abs(gap) < _BALANCED
    lead = "Balanced only on average" if balanced else f"{direction} by {points(gap)}"
    if ece(state) > chance[1] or p_value is None:
        would = (
            f"a perfectly calibrated model of this size would show an ECE of about "
            f"{points(chance[0])}, this one shows {points(ece(state))}."
        )
    else:
        would = (
            f"the mean confidence of a perfectly calibrated model of this size is so far off in "
            f"{100 * p_value:.2g} % of samples."
        )
    return [f"{lead}: {_said(state)}.", f"This is more than chance: {would}"]
