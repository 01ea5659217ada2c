"""Write the verdict of an audit: plain sentences above its numbers."""

from __future__ import annotations

from collections.abc import Sequence

from calibrant.auditing.record import Finding
from calibrant.metrics import CalibrationState, accuracy, ece, mean_confidence
from calibrant.metrics.metric import percent, points

__all__ = ["short_name", "verdict"]

# A gap between mean confidence and accuracy below this is not worth calling a direction.
_BALANCED = 0.005
# If even a calibrated model may show a larger ECE than this, there are too few examples to tell.
_INFORMATIVE = 0.1
# Longer class names than this are cut in a sentence.
_LONGEST = 60


def short_name(name: str) -> str:
    """Return the name of a class for a sentence: on one line, and cut if it is long.

    >>> short_name("two\\nlines")
    'two\\\\nlines'
    """
    printed = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)
    return printed if len(printed) <= _LONGEST else printed[: _LONGEST - 1] + "…"


def verdict(
    state: CalibrationState,
    chance: tuple[float, float],
    findings: Sequence[Finding],
    p_value: float | None = None,
    unlabelled: int = 0,
    least: float = 0.0,
    multi_label: bool = False,
) -> tuple[str, ...]:
    """Return plain sentences, the most important first.

    ``chance`` is what :func:`~calibrant.metrics.chance_ece` says of the state, ``findings`` are the
    classes and groups that are off by more than chance, and ``p_value`` is that of the mean
    confidence where it is off by more than chance. ``unlabelled`` of the ignored examples have no
    label. ``least`` is the lower end of the ECE's interval: it inverts one test at its own level,
    and the verdict asks more of each of its questions, so it can be above 0 within chance.
    ``multi_label`` says that the state counts every label of every example.
    """
    means = _means(state, multi_label)
    doubtful = ece(state) > chance[1] or p_value is not None
    sentences = (
        _off(state, chance, p_value, means)
        if doubtful
        else _within_chance(state, chance, findings, least, means)
    )
    shown = findings if doubtful else findings[1:]
    if shown:
        worst = max(shown, key=lambda finding: abs(finding.gap))
        sentences.append(
            f"{'Furthest off' if doubtful else 'Also off'}: {_describe_finding(worst)}."
        )
    empty = int((state.top_count == 0).sum())
    top = state.top_count[-1] / state.n
    sentences.append(
        f"{empty} of {state.bins.count} bins {'is' if empty == 1 else 'are'} empty; "
        f"{percent(float(top))} of the {'labels' if multi_label else 'examples'} lie in the most "
        "confident one."
    )
    if ignored := state.ignored - unlabelled:
        were = "example labelled −100 was" if ignored == 1 else "examples labelled −100 were"
        sentences.append(f"{ignored:,} {were} ignored.")
    if unlabelled:
        were = "example without a label was" if unlabelled == 1 else "examples without a label were"
        sentences.append(f"{unlabelled:,} {were} left out.")
    return tuple(sentences)


def _describe_finding(finding: Finding) -> str:
    """Return the finding as the end of a sentence."""
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


def _means(state: CalibrationState, multi_label: bool) -> str:
    right, claimed = accuracy(state), mean_confidence(state)
    if multi_label:
        return f"labels are given {percent(claimed)} on average and {percent(right)} of them apply"
    return f"the model says {percent(claimed)} on average and is right {percent(right)} of the time"


def _within_chance(
    state: CalibrationState,
    chance: tuple[float, float],
    findings: Sequence[Finding],
    least: float,
    means: str,
) -> list[str]:
    expected, upper = chance
    explained = (
        f"an ECE of {points(ece(state))} is within what chance alone gives a calibrated model at "
        f"n = {int(state.n):,} (about {points(expected)}, up to {points(upper)})."
    )
    if borderline := least > 0:
        explained += (
            f" It is a borderline case: the interval of the ECE, which asks this question alone, "
            f"begins at {points(least)}; the verdict asks several and is more careful with each."
        )
    if findings:
        which = "class" if findings[0].kind == "class" else "group"
        lead = f"Right on the whole, but not for every {which}: {_describe_finding(findings[0])}"
        return [f"{lead}.", f"Taken together, {means}; {explained}"]
    few = upper > _INFORMATIVE
    doubt = "Little" if borderline else "No"
    lead = "Too few examples to tell" if few else f"{doubt} reason to doubt the confidences"
    return [f"{lead}: {explained}", f"Taken together, {means}."]


def _off(
    state: CalibrationState, chance: tuple[float, float], p_value: float | None, means: str
) -> list[str]:
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
    return [f"{lead}: {means}.", f"This is more than chance: {would}"]
