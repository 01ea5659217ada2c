"""``guarantee``: learn a policy from validation predictions."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from calibrant.arguments import check_kind, check_unweighted, takes_no_labels
from calibrant.claims import Claims
from calibrant.errors import InputError, unknown_name
from calibrant.metrics.blocks import dependent_group
from calibrant.metrics.confidences import top_label
from calibrant.metrics.entities import Reduction, span_confidence
from calibrant.metrics.spans import Tagging
from calibrant.metrics.tags import is_bio
from calibrant.old_names import renamed_arguments
from calibrant.policies import wording
from calibrant.policies.missed import FLOOR, add_review
from calibrant.policies.policy import ALL, TARGET_RISK, Policy
from calibrant.policies.risk import THRESHOLDS, AcceptedRisk, find_threshold, least_refused
from calibrant.policies.set_policies import learn_sets
from calibrant.predictions import Predictions

__all__ = [
    "AVERAGES",
    "Items",
    "check_promises",
    "floored_scores",
    "guarantee",
    "guarantee_items",
    "with_floor",
]

AVERAGES = ("rows", "groups")
_WIDEST = ("document", "doc")  # Units that hold sentences, used before these.


@dataclass(frozen=True, eq=False)
class Items:
    """What a target risk is about: rows or entities with confidence, correctness and type.

    ``types`` names the numbers in ``kind``. ``thresholds`` are tested; those of a learned
    calibrator of entities are :data:`~calibrant.policies.risk.THRESHOLDS` put through it.

    >>> random = np.random.default_rng(0)
    >>> confidence = random.uniform(0.5, 1, 2000)
    >>> right = random.random(2000) < confidence
    >>> items = Items(confidence, right, np.zeros(2000, int), types=("*",))
    >>> guarantee_items(items, target=0.1, classes=2).thresholds
    {'*': 0.835}
    """

    confidence: np.ndarray
    correct: np.ndarray
    kind: np.ndarray
    types: tuple[str, ...]
    groups: np.ndarray | None = None
    unit: str | None = None
    name: str = "rows"
    thresholds: np.ndarray = field(default_factory=lambda: THRESHOLDS)


@renamed_arguments(group="keep_together")
@takes_no_labels
def guarantee(
    predictions: Predictions | Claims,
    *,
    target_risk: float | None = None,
    max_missed: float | None = None,
    coverage: float | None = None,
    level: float = 0.9,
    on_average: bool = False,
    per: str | None = None,
    keep_together: str | None = "auto",
    average: str = "rows",
    items: str = "auto",
    reduction: Reduction = "product",
    score: str = "lac",
    randomised: bool = False,
    penalty: float = 0.01,
    free: int = 1,
    seed: int = 0,
    calibrator: str | None = None,
    model: str | None = None,
) -> Policy:
    """Learn a policy on validation predictions: a threshold, a review rule or prediction sets.

    Claims, which have one confidence each, have a target risk alone.

    ``target_risk``: accept from a confidence on, so that with probability ``level`` at most this
    share of what is accepted is wrong. ``max_missed``: send words to review, so that at most this
    share of the true entities is neither accepted nor reviewed; ``on_average`` bounds the
    expectation. Both may be given. ``coverage``: prediction sets that contain the true class with
    this probability, by the ``score`` "lac", "aps" or "raps".

    ``per="type"`` learns a threshold for each predicted class or entity type (of sets: for each
    true class). ``keep_together`` names the column whose values are drawn independently, while
    rows of one value may depend on each other ("auto": document, sentence or image if there is one;
    None: every row). With ``average="groups"`` a target risk is the share of wrong ones among what
    is accepted of a group, averaged over groups: long ones count as much as short ones. ``items``
    is "rows" or "entities" ("auto": entities if labels are BIO tags). ``calibrator`` and ``model``
    are fingerprints to save.

    >>> random = np.random.default_rng(0)
    >>> confidence = random.uniform(0.5, 1, 2000)
    >>> labels = (random.random(2000) < confidence).astype(int)
    >>> policy = guarantee(Predictions.from_probabilities(confidence, labels), target_risk=0.1)
    >>> policy.thresholds, round(policy.kept, 2)
    ({'*': 0.835}, 0.34)
    """
    check_kind("guarantee", predictions, Predictions, Claims)
    reason = "its bounds count errors of rows that are drawn alike"
    check_unweighted("guarantee", predictions, reason)
    wanted = {"target_risk": target_risk, "max_missed": max_missed, "coverage": coverage}
    check_promises(wanted, per, level)
    if not len(predictions):
        raise InputError("guarantee needs labelled validation predictions, got no rows.")
    unit = _unit(predictions, keep_together)
    check_average(average, unit, target_risk)
    about: dict[str, Any] = {"calibrator": calibrator, "model": model}
    if isinstance(predictions, Claims):
        _check_claims(predictions.kind, wanted, items)
        assert target_risk is not None
        # Only labels that occur are known.
        about |= {"classes": 0, "label_names": predictions.label_names}
        claimed = _claimed(predictions, unit)
        return guarantee_items(claimed, target_risk, level, per=per, average=average, **about)
    about |= {"classes": predictions.classes, "label_names": predictions.label_names}
    if coverage is not None:
        settings = {"score": score, "randomised": randomised, "penalty": penalty, "free": free}
        return learn_sets(predictions, coverage, per, unit, {**settings, "seed": seed}, about)
    surely = None if on_average else level
    if target_risk is None:
        assert max_missed is not None
        return add_review(predictions, max_missed, surely, unit, about)
    found = _items(predictions, items, unit, reduction)
    about["reduction"] = reduction if found.name == "entities" else None
    made = {"per": per, "average": average, **about}
    if max_missed is None:
        return guarantee_items(found, target_risk, level, **made)
    policy = guarantee_items(with_floor(found), target_risk, level, **made)
    return add_review(
        predictions, max_missed, surely, unit, about, policy=policy, confidence=found.confidence
    )


def guarantee_items(
    items: Items,
    target: float,
    level: float = 0.9,
    *,
    per: str | None = None,
    average: str = "rows",
    **about: Any,
) -> Policy:
    """Learn the thresholds of :func:`guarantee` for items whose confidence is known.

    >>> random = np.random.default_rng(0)
    >>> confidence = random.uniform(0.5, 1, 4000)
    >>> right = random.random(4000) < confidence
    >>> items = Items(confidence, right, np.arange(4000) % 2, types=("LOC", "PER"))
    >>> policy = guarantee_items(items, target=0.1, per="type", classes=2)
    >>> sorted(policy.thresholds), round(policy.kept, 2)
    (['LOC', 'PER'], 0.31)
    """
    check_promises({"target_risk": target}, per, level)
    check_average(average, items.unit, target)
    units = len(items.confidence) if items.groups is None else len(np.unique(items.groups))
    _check_enough(units, target, level, items.unit or items.name.removesuffix("s"))
    kinds = range(len(items.types)) if per == "type" else (None,)
    found = {
        ALL if k is None else items.types[k]: _found(items, k, target, level, average)
        for k in kinds
    }
    accepted, n = sum(f.accepted for f in found.values()), sum(f.n for f in found.values())
    policy = Policy(
        TARGET_RISK,
        target,
        {name: f.threshold for name, f in found.items()},
        n=n,
        kept=accepted / n if n else 0.0,
        level=level,
        items=items.name,
        unit=items.unit,
        units=units,
        average=average,
        details={name: _details(f, target, average) for name, f in found.items()},
        **about,
    )
    return replace(policy, promise=wording.of_risk(policy))


def with_floor(items: Items) -> Items:
    """Return the items without thresholds below :data:`~calibrant.policies.missed.FLOOR`."""
    return replace(items, thresholds=items.thresholds[THRESHOLDS >= FLOOR])


def floored_scores(items: Items, scores: np.ndarray) -> np.ndarray:
    """Return scores of which those that a threshold of :func:`with_floor` accepts reach the floor.

    A learned confidence may be flat: then it accepts scores below :data:`FLOOR` too.

    >>> flat = Items(np.full(2, 0.9), np.ones(2, bool), np.zeros(2, int), ("*",),
    ...              thresholds=np.full(len(THRESHOLDS), 0.9))
    >>> floored_scores(flat, np.array([0.3, 0.7]))
    array([0.5, 0.7])
    """
    accepted = items.confidence >= with_floor(items).thresholds.min()
    return np.where(accepted, np.maximum(scores, FLOOR), scores)


def _found(
    items: Items, kind: int | None, target: float, level: float, average: str
) -> AcceptedRisk:
    of_kind = slice(None) if kind is None else items.kind == kind
    groups = None if items.groups is None else items.groups[of_kind]
    return find_threshold(
        items.confidence[of_kind],
        items.correct[of_kind],
        target,
        level,
        groups=groups,
        average=average,
        thresholds=items.thresholds,
    )


def _details(found: AcceptedRisk, target: float, average: str) -> dict[str, Any]:
    names = ("n", "errors", "accepted", "wrong", "units", "largest", "upper", "error", "risk")
    # Of groups that count as one, no share of rows follows from the errors.
    known = found.n and (average == "rows" or found.error <= target)
    refused = least_refused(found.error, target) if known else math.nan
    values = {name: getattr(found, name) for name in names}
    too_low = None if found.too_low is None else found.too_low._asdict()
    return {**values, "kept": found.kept, "least_refused": refused, "too_low": too_low}


def _claimed(claims: Claims, unit: str | None) -> Items:
    confidence, about, correct = top_label(claims)
    groups = None if unit is None else claims.groups[unit]
    name = "labels" if claims.kind == "multi-label" else "rows"
    return Items(confidence, correct, about, claims.names, groups, unit, name)


def _check_claims(kind: str, wanted: dict[str, float | None], items: str) -> None:
    if items == "entities" or any(wanted[name] is not None for name in ("max_missed", "coverage")):
        raise InputError(
            "Prediction sets, reviews and entities need the scores of all classes of examples with "
            f"one label each, got {kind} predictions; of these a policy takes a target risk alone."
        )


def _items(predictions: Predictions, items: str, unit: str | None, reduction: Reduction) -> Items:
    if items not in ("auto", "rows", "entities"):
        raise unknown_name("items", items, ("auto", "rows", "entities"))
    groups = None if unit is None else predictions.groups[unit]
    if items == "rows" or (items == "auto" and not is_bio(predictions.label_names)):
        confidence, predicted, correct = top_label(predictions)
        return Items(confidence, correct, predicted, predictions.names, groups, unit)
    tagging = Tagging(predictions)
    spans = tagging.predicted
    values = span_confidence(spans, tagging.top[0], reduction)
    groups = None if groups is None else groups[spans.start]
    return Items(values, tagging.right, spans.type, tagging.tags.types, groups, unit, "entities")


def _unit(predictions: Predictions | Claims, group: str | None) -> str | None:
    if group == "auto":
        wide = next((name for name in _WIDEST if name in predictions.groups), None)
        return wide or dependent_group(predictions)
    if group is not None and group not in predictions.groups:
        raise unknown_name("group", group, predictions.groups)
    return group


def check_promises(wanted: dict[str, float | None], per: str | None, level: float) -> None:
    """Raise an error where a promise is missing, not a share, or does not go with another."""
    given = {name: value for name, value in wanted.items() if value is not None}
    if not given or ("coverage" in given and len(given) > 1):
        raise InputError(
            "guarantee takes target_risk, max_missed or both, or only coverage; got "
            f"{', '.join(given) or 'none'}."
        )
    for name, value in {**given, "level": level}.items():
        number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
        if not number or not 0 < value < 1:
            raise InputError(f"guarantee expects {name} in (0, 1), got {value!r}.")
    if per not in (None, "type"):
        raise unknown_name("per", str(per), ("type",))
    if per is not None and list(given) == ["max_missed"]:
        raise InputError(
            "guarantee with max_missed alone has one threshold for all words; per='type' is for a "
            "target risk or a coverage."
        )


def check_average(average: str, unit: str | None, target: float | None) -> None:
    """Raise an error where a mean over groups is requested, but there are none, or no risk."""
    if average not in AVERAGES:
        raise unknown_name("average", str(average), AVERAGES)
    if average == "groups" and (unit is None or target is None):
        missing = "a column of groups (--keep-together)" if unit is None else "a target risk"
        raise InputError(f"A risk averaged over groups needs {missing}, got none.")


def _check_enough(units: int, target: float, level: float, unit: str) -> None:
    """Refuse a promise that this many units could not support if all were right."""
    least = wording.least_units(target, level)
    if units < least:
        raise InputError(
            f"A risk of {100 * target:g} % at level {level:g} needs at least {least:,} validation "
            f"{wording.plural(unit)}, even if all are right; got {units:,}. Use more validation "
            "data, a larger target or a lower level."
        )
