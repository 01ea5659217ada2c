"""The review threshold below which few true entities are lost.

A word is sent to review where P(not O) ≥ t. A true entity is found if one of its words is reviewed
(or if it is accepted as it is), else missed. The loss of a sentence is the share of its true
entities that are missed; it never falls as t rises. Sentences without an entity do not count.

On average: conformal risk control (Angelopoulos, Bates, Fisch, Lei & Schuster 2024) takes the
largest t with (n · mean loss + 1) / (n + 1) ≤ target, which bounds the expected loss of a new
sentence. With a level: learn then test from t = 0 upwards, each by betting on the losses of
sentences; the mean loss is then at most the target with that probability.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.errors import InputError
from calibrant.metrics.spans import Tagging, lost_entities
from calibrant.policies import wording
from calibrant.policies.p_values import betting_p_value, loosest
from calibrant.policies.policy import MAX_MISSED, Policy, entity_mass
from calibrant.policies.risk import THRESHOLDS
from calibrant.predictions import Predictions

__all__ = [
    "FLOOR",
    "REVIEW_THRESHOLDS",
    "Reach",
    "add_review",
    "entity_reach",
    "review_threshold",
    "reviewed_policy",
]

# From 0, where every word is reviewed, to 1; close to each other at both ends.
REVIEW_THRESHOLDS = np.unique(np.concatenate([THRESHOLDS, 1 - THRESHOLDS]))
FLOOR = 0.5  # With review, nothing of a smaller (unmapped) confidence is accepted.
_ROUNDING = 1e-12


def entity_reach(
    predictions: Predictions, confidence: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the review threshold up to which each true entity is found, and its first row.

    It is the largest P(not O) among its words. ``confidence`` is that of predicted entities which
    may be accepted: a wrong one from :data:`FLOOR` on hides its words from review, for any
    threshold of acceptance.

    >>> p = Predictions.from_probabilities([0.9, 0.2, 0.4], [1, 0, 1], label_names=["O", "B-X"])
    >>> entity_reach(p)[0].round(3)
    array([0.9, 0.4])
    """
    tagging = Tagging(predictions)
    mass = entity_mass(predictions)
    if confidence is not None:
        hides = ~tagging.right & (confidence >= FLOOR)
        spans = tagging.predicted
        for start, end in zip(spans.start[hides], spans.end[hides], strict=True):
            mass[start:end] = -np.inf
    lost = lost_entities(predictions, tagging.gold)
    start = np.append(tagging.gold.start, lost).astype(np.int64)
    end = np.append(tagging.gold.end, lost + 1).astype(np.int64)
    order = np.argsort(start, kind="stable")
    values = np.array([mass[a:b].max() for a, b in zip(start[order], end[order], strict=True)])
    return values, start[order]


def add_review(
    predictions: Predictions,
    target: float,
    level: float | None,
    unit: str | None,
    about: dict[str, Any],
    *,
    policy: Policy | None = None,
    confidence: np.ndarray | None = None,
) -> Policy:
    """Add to a policy, or make one of, which words to review so that few entities are missed.

    ``confidence`` is that of the predicted entities which ``policy`` decides about, unmapped.
    """
    reach, row = entity_reach(predictions, confidence)
    groups = None if unit is None else predictions.groups[unit][row]
    why = (
        "Wrong entities that may be accepted hide all their words: use --max-missed without "
        "--target-risk, or a larger share."
    )
    found = Reach(reach, groups, unit, entity_mass(predictions), "words", why)
    return reviewed_policy(found, target, level, about, policy=policy)


@dataclass(frozen=True, eq=False)
class Reach:
    """Up to which review threshold each true entity is found, and what the threshold is about.

    ``groups`` has the ``unit`` of each true entity, None where entities are independent. ``scores``
    are those of all ``items``, words or entities, that may be reviewed, and ``why`` says what hides
    an entity whose reach is below 0.
    """

    values: np.ndarray
    groups: np.ndarray | None
    unit: str | None
    scores: np.ndarray
    items: str
    why: str


def reviewed_policy(
    reach: Reach,
    target: float,
    level: float | None,
    about: dict[str, Any],
    *,
    policy: Policy | None = None,
) -> Policy:
    """Add the review threshold to a policy, or make one of it alone."""
    n = len(reach.values)
    if not n:
        raise InputError("--max-missed needs validation data with true entities, got none.")
    groups = np.arange(n) if reach.groups is None else reach.groups
    _check_reached(reach, groups, target)
    threshold = review_threshold(reach.values, groups, target, level)
    units = len(np.unique(groups))
    if policy is None:
        policy = Policy(
            MAX_MISSED, target, {}, n=n, kept=math.nan, level=level, unit=reach.unit,
            items="entities", units=units, **about,
        )  # fmt: skip
    # Without entities that are accepted: as many as there can be.
    reviewed = float((reach.scores >= threshold).mean()) if len(reach.scores) else 0.0
    review = {
        "threshold": threshold,
        "target": target,
        "level": level,
        "entities": n,
        "units": units,
        "missed": int((reach.values < threshold).sum()),
        f"reviewed_{reach.items}": reviewed,
    }
    policy = replace(policy, review=review, kept=policy.kept if policy.thresholds else reviewed)
    return replace(policy, promise=f"{policy.promise} {wording.of_review(policy)}".strip())


def _check_reached(reach: Reach, groups: np.ndarray, target: float) -> None:
    """Refuse a share that is exceeded even if everything is reviewed."""
    _, number, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    never = float((1 / sizes[number])[reach.values < 0].sum()) / len(sizes)
    if never > target:
        raise InputError(
            f"At most {100 * target:g} % missed cannot be promised: {100 * never:.2g} % of the "
            f"true entities are missed whatever is reviewed. {reach.why}"
        )


def review_threshold(
    reach: np.ndarray, groups: np.ndarray, target: float, level: float | None = None
) -> float:
    """Return the largest threshold that keeps the mean loss of sentences at most at ``target``.

    ``reach`` has one number for each true entity and ``groups`` its sentence. Without ``level`` the
    expectation is bounded, with it the mean loss, with that probability.

    >>> reach = np.linspace(0, 1, 101)
    >>> review_threshold(reach, np.arange(101), 0.1), review_threshold(reach, np.arange(101), 0.5)
    (0.09, 0.5)
    """
    if not 0 < target < 1:
        raise InputError(f"A share of missed entities must be in (0, 1), got {target}.")
    _, number, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    n = len(sizes)
    if level is None:
        _check_enough(n, target)
        return _on_average(reach, 1 / sizes[number], n, target)
    losses = np.zeros(n)
    order = np.argsort(reach, kind="stable")
    done = 0

    def p_value(index: int) -> float:
        nonlocal done
        end = int(np.searchsorted(reach[order], REVIEW_THRESHOLDS[index], side="left"))
        new = number[order[done:end]]
        np.add.at(losses, new, 1 / sizes[new])
        done = end
        shuffled = np.random.default_rng(0).permutation(losses)
        return betting_p_value(np.ones(n), shuffled, 1, target, 1 - level)

    best = loosest(p_value, {0: 1.0}, len(REVIEW_THRESHOLDS), 1 - level)
    if best is None:
        raise _too_few(n, target, float(losses.mean()))
    return float(REVIEW_THRESHOLDS[best])


def _on_average(reach: np.ndarray, weight: np.ndarray, n: int, target: float) -> float:
    order = np.argsort(reach, kind="stable")
    values = reach[order]
    # The loss at t is that of all entities whose reach is below t.
    before = np.concatenate([[0.0], np.cumsum(weight[order])])
    before = before[np.searchsorted(values, values, side="left")]
    passes = (before + 1) / (n + 1) <= target + _ROUNDING
    if not passes.any() or values[passes].max() < 0:
        raise _too_few(n, target, float(weight[reach < 0].sum()) / n)
    return float(values[passes].max())


def _check_enough(n: int, target: float) -> None:
    if 1 / (n + 1) > target + _ROUNDING:
        raise _too_few(n, target)


def _too_few(n: int, target: float, never: float = 0.0) -> InputError:
    hidden = f", as {100 * never:.2g} % are missed whatever is reviewed" if never else ""
    return InputError(
        f"{n:,} validation sentences or documents with entities are too few for at most "
        f"{100 * target:g} % missed{hidden}: use more validation data or a larger --max-missed."
    )
