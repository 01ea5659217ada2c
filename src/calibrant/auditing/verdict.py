"""Write the sentences of an audit: its verdict, what it leaves out, and its warnings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from calibrant.auditing.evidence import material
from calibrant.auditing.record import Finding
from calibrant.inputs import shortened
from calibrant.labels import lone_positive
from calibrant.metrics import METRICS, CalibrationState, accuracy, ece, is_bio, mean_confidence
from calibrant.metrics.metric import percent, percents, points

if TYPE_CHECKING:
    from calibrant.auditing.collect import Collector

__all__ = ["left_out", "short_name", "verdict", "warnings"]

# If even a calibrated model may show a larger ECE than this, there are too few examples to tell.
_INFORMATIVE = 0.1
# Longer class names than this are cut in a sentence.
_LONGEST = 60
_WHOLE = ("", "predicted", "given")  # Where a finding is about all examples of its class or group.
FEW_BLOCKS = 20  # Fewer groups say little about how much they differ.


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
    and the verdict is stricter with each of its questions, so it can be above 0 within chance.
    ``multi_label`` says that the state counts every label of every example.
    """
    means = _means(state, multi_label)
    doubtful = ece(state) > chance[1] or p_value is not None
    sentences = (
        _off(state, chance, p_value, means)
        if doubtful
        else _within_chance(state, chance, findings, least, means, multi_label)
    )
    shown = findings if doubtful else findings[1:]
    if shown:
        # Of a class or group that is off as a whole no bin is known, and bins are further off.
        wholes = [finding for finding in shown if finding.where in _WHOLE]
        worst = max(wholes or shown, key=lambda finding: abs(finding.gap))
        lead = "Also off" if not doubtful else "Furthest off" if wholes else "Off in one part"
        sentences.append(f"{lead}: {_describe_finding(worst, multi_label)}.")
    item = "label" if multi_label else "example"
    empty = int((state.top_count == 0).sum())
    top = state.top_count[-1] / state.n
    sentences.append(
        f"{empty} of {state.bins.count} bins {'is' if empty == 1 else 'are'} empty; "
        f"{percent(float(top))} of the {item}s lie in the most confident one."
    )
    if ignored := state.ignored - unlabelled:
        marks = "of −100" if multi_label else "labelled −100"
        marks += " or of weight 0" if state.weighted else ""
        were = f"{item} {marks} was" if ignored == 1 else f"{item}s {marks} were"
        sentences.append(f"{ignored:,} {were} ignored.")
    if unlabelled:
        marks = "without a value" if multi_label else "without a label"
        were = f"{item} {marks} was" if unlabelled == 1 else f"{item}s {marks} were"
        sentences.append(f"{unlabelled:,} {were} left out.")
    return tuple(sentences)


def _describe_finding(finding: Finding, multi_label: bool) -> str:
    """Return the finding as the end of a sentence."""
    name = short_name(finding.name)
    # With so many decimals that the two differ.
    digits = 1 if abs(finding.gap) >= 0.005 else 2 if abs(finding.gap) >= 0.0005 else 3
    claimed, right = (percent(share, digits) for share in (finding.confidence, finding.accuracy))
    if finding.kind == "group":
        where = f" where the model says {finding.where}" if finding.where else ""
        if multi_label:
            return (
                f"'{name}'{where}, labels are given {claimed} on average and "
                f"{right} of {finding.n:,} apply"
            )
        return f"'{name}'{where}, claimed {claimed} and right {right} in {finding.n:,} predictions"
    if finding.where == "predicted" and not multi_label:
        return f"'{name}', claimed {claimed} and right {right} in {finding.n:,} predictions"
    if finding.where == "bin by bin":
        return (
            f"'{name}', whose score misses its share bin by bin by more than chance "
            f"(positive-class ECE, p = {finding.p_value:.2g})"
        )
    bin_ = finding.where.removeprefix("predicted").removeprefix("given").strip()
    where = f" where it is given {bin_}" if bin_ else ""
    return (
        f"'{name}'{where}, given {claimed} on average and the label of "
        f"{right} of {finding.n:,} examples"
    )


def _means(state: CalibrationState, multi_label: bool) -> str:
    right, claimed = percents(accuracy(state), mean_confidence(state))
    if multi_label:
        return f"labels are given {claimed} on average and {right} of them apply"
    return f"the model says {claimed} on average and is right {right} of the time"


def _within_chance(
    state: CalibrationState,
    chance: tuple[float, float],
    findings: Sequence[Finding],
    least: float,
    means: str,
    multi_label: bool,
) -> list[str]:
    expected, upper = chance
    # Where mistakes are very rare, the mean of the ECE is beyond what most samples show.
    about = f"about {points(expected)}, " if expected <= upper else ""
    explained = (
        f"an ECE of {points(ece(state))} is within what chance gives a calibrated model at "
        f"n = {round(float(state.n)):,} ({about}up to {points(upper)})."
    )
    if borderline := least > 0:
        explained += (
            f" It is a borderline case: the interval of the ECE, which answers only this question, "
            f"begins at {points(least)}; the verdict asks several and is more careful with each."
        )
    if findings:
        which = "class" if findings[0].kind == "class" else "group"
        found = _describe_finding(findings[0], multi_label)
        lead = f"Right on the whole, but not for every {which}: {found}"
        return [f"{lead}.", f"Taken together, {means}; {explained}"]
    # Rule of three: n examples without a fault are compatible with an error of 3 / n.
    few = max(upper, 3 / float(state.n)) > _INFORMATIVE
    doubt = "Little" if borderline else "No"
    lead = "Too few examples to tell" if few else f"{doubt} reason to doubt the confidences"
    return [f"{lead}: {explained}", f"Taken together, {means}."]


def _off(
    state: CalibrationState, chance: tuple[float, float], p_value: float | None, means: str
) -> list[str]:
    gap = mean_confidence(state) - accuracy(state)
    direction = "Overconfident" if gap > 0 else "Underconfident"
    # A mean within chance that is a small part of the ECE says nothing about a direction.
    balanced = abs(gap) < material(accuracy(state)) or (
        p_value is None and abs(gap) < ece(state) / 2
    )
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


def left_out(found: Collector) -> tuple[str, ...]:
    """Return sentences about sample weights, and the metrics that claims are not enough for."""
    weights = _about_weights(found) if found.weighted else ()
    if not found.of_claims:
        return weights
    known = {"state", "confidences"} | ({"classwise"} if found.classwise_known else set())
    rows = [row for row in METRICS.values() if row.kind == "classes" and row.audited]
    titles = [row.title for row in rows if not known >= set(row.source)]
    missing = f"Left out, as they need the scores of all classes: {', '.join(titles)}."
    return (*weights, *_about_unknown(found), missing)


def _about_unknown(found: Collector) -> tuple[str, ...]:
    """Say which examples the view of top labels has, if some labels are unknown."""
    if found.top is None or not found.ignored:
        return ()
    if not found.top.n.sum():
        return ("No example has all of its labels known, so there is no view of top labels.",)
    return ("The view of top labels has only the examples whose labels are all known.",)


def _about_weights(found: Collector) -> tuple[str, ...]:
    kinds = ("classes", "tags") if is_bio(found.label_names) else ("classes",)
    rows = [row for row in METRICS.values() if row.kind in kinds and row.audited]
    titles = ", ".join(row.title for row in rows if not row.weighted)
    many = found.kind == "multi-label"
    items, whose = (
        ("labels", "the sample weights of their examples")
        if many
        else ("examples", "their sample weights")
    )
    return (
        f"{items.capitalize()} count by {whose}, and are worth {found.effective:,.0f} of one "
        f"weight; numbers of {items} are sums of weights, scaled to a mean of 1. Left out, as they "
        f"take none: {titles}.",
    )


def warnings(found: Collector, bootstrap: int) -> tuple[str, ...]:
    """Return sentences about what makes numbers or intervals doubtful."""
    return (
        *_other_spelling(found),
        *_never_positive(found),
        *_like_probabilities(found),
        *_missing_texts(found),
        *_few_digits(found),
        *_without_mistake(found, bootstrap),
        *_few_blocks(found, bootstrap),
    )


def _like_probabilities(found: Collector) -> tuple[str, ...]:
    """Warn if the rows of logits sum to 1: they are read as logits nevertheless."""
    if not found.like_probabilities:
        return ()
    return (
        "These are read as logits, and each row is positive and sums to 1, as probabilities do: if "
        "they are probabilities, say so (--kind probabilities, Predictions.from_probabilities).",
    )


def _missing_texts(found: Collector) -> tuple[str, ...]:
    """Warn if a text was read as no label: a class may have this name, and never be predicted."""
    if not found.missing_texts:
        return ()
    texts = ", ".join(f"'{text}'" for text in found.missing_texts)
    return (
        f"True labels {texts} were read as no label, because they are never predicted; if a class "
        "has this name, list it among the label names (--labels FILE, label_names=…).",
    )


def _few_digits(found: Collector) -> tuple[str, ...]:
    """Warn if rows do not sum to 1 because their values have few digits."""
    if not found.rounded:
        return ()
    return (
        f"{found.rounded:,} of {found.rows:,} rows miss a sum of 1 by more than 0.01, because "
        "their probabilities have few digits; they are used as they are. Metrics of every class "
        "(NLL, Brier score, classwise ECE) are exact with more digits.",
    )


def _without_mistake(found: Collector, bootstrap: int) -> tuple[str, ...]:
    """Say why most metrics have no interval if every prediction is right, or every one wrong."""
    assert found.state is not None
    right, n = float(found.state.correct.sum()), float(found.state.n.sum())
    if not bootstrap or n < 2:
        return ()
    if not found.weighted and 1 in (right, n - right) and n > 2:
        what = "right" if right == 1 else "wrong"
        return (
            f"Only one prediction is {what}, so resampling cannot show where others would rank: "
            "AUROC and the areas under the risk–coverage curve have no interval.",
        )
    if right not in (0.0, n):
        return ()
    what = "right" if right else "wrong"
    return (
        f"Every prediction is {what}, so resampling cannot show how other samples differ: the "
        "intervals of accuracy, the risk at a coverage and calibration errors allow for it, and "
        "NLL, Brier score and the other metrics of ranks have none.",
    )


def _other_spelling(found: Collector) -> tuple[str, ...]:
    """Warn if no top label is right: a pipeline may say LABEL_0 where the truth is called cat."""
    assert found.state is not None
    several = found.top is None and found.rows > 1 and len(found.label_names) > 1
    if not (found.of_claims and several) or found.state.correct.sum() > 0:
        return ()
    names = ", ".join(f"'{shortened(name)}'" for name in found.label_names[:6])
    return (
        f"No prediction is right: are predicted and true labels spelled alike ({names})? If not, "
        "rename one of them.",
    )


def _never_positive(found: Collector) -> tuple[str, ...]:
    """Warn if no label is the positive one that was named: it may be spelled otherwise."""
    assert found.state is not None
    positive = lone_positive(found.label_names)
    if positive is None or found.rows < 2 or found.state.total().label_count[1] > 0:
        return ()
    return (
        f"No example is labelled '{shortened(positive)}', so all are negative: is the positive "
        "label spelled as in the data?",
    )


def _few_blocks(found: Collector, bootstrap: int) -> tuple[str, ...]:
    assert found.state is not None
    blocks = int((found.state.n > 0).sum())
    if found.by is None or not bootstrap or blocks >= FEW_BLOCKS:
        return ()
    many = "group" if blocks == 1 else "groups"
    return (
        f"'{found.by}' has {blocks} {many} of examples: an interval needs at least {FEW_BLOCKS} "
        "that are independent, so these intervals are wide and only rough (if groups differ much, "
        "95 % intervals of ten groups held the truth in 89 % of simulated samples); 'none' treats "
        "every example as independent.",
    )
