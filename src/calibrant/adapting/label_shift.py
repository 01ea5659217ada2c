"""Class frequencies of a new, unlabelled data set, if nothing else has changed (label shift).

The odds of two classes at an example change by the same factor for all examples: p'_k ∝ w_k p_k,
with w_k the new share of class k over its old one. EM (Saerens, Latinne, Decaestecker 2002) finds
the weights under which the new data are most likely, from honest probabilities. BBSE (Lipton, Wang,
Smola 2018) solves C w = μ, with C the confusion matrix on labelled data and μ the predicted shares
of the new data; it needs no honest probabilities, but a confusion matrix that can be inverted.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from calibrant.errors import InputError

__all__ = ["ShiftEstimate", "bbse", "effective_size", "em", "replicate_means"]

_MOST_STEPS = 10_000
_STEPS_WITHOUT = 300  # Of a fit without one class.
_SURELY_PRESENT = 8.0  # Standard errors above 0.
_SURELY_ABSENT = 3.0  # Standard errors by which the likelihood falls if the class is added.
_NOT_FOUND = 1e-9  # EM comes close to a weight of 0, but not there.
_PRECISE = 1e-10
_LEAST_APART = 1e-3  # Smallest singular value of the shares of predictions by true class.
_LEAST_INFORMED = 1e-7  # Of the information matrix of the weights, relative to its largest.


class ShiftEstimate(NamedTuple):
    """Weights (K,), and what they would be in bootstrap replicates, as differences (R, K).

    ``prior_changes`` are those of the old shares. ``apart`` says how well the classes can be
    distinguished, from 0 (not at all) to 1. ``presence`` says by how many standard errors each
    weight is above 0. ``unseen`` is the share that a class without any weight may still have.
    """

    weights: np.ndarray
    changes: np.ndarray
    prior_changes: np.ndarray
    apart: float
    presence: np.ndarray
    unseen: np.ndarray


def em(
    new: np.ndarray, prior: np.ndarray, unit_new: np.ndarray, old: np.ndarray, unit_old: np.ndarray,
    replicates: int, random: np.random.Generator,
) -> ShiftEstimate:  # fmt: skip
    """Return the weights that make honest probabilities ``new`` (n, K) most likely.

    ``prior`` are the old shares of the classes, the means of ``old``: so data like the old ones
    have weights of 1. ``unit_new`` and ``unit_old`` number the units of the rows, which replicates
    draw. A replicate takes one step of Newton from the optimum, where r_k = Σ_i p_ik / (n d_i
    prior_k) is 1 with d_i = Σ_k w_k p_ik. A weight that ends at 0 has r_k < 1. Only where that is
    more than chance the class is absent: its share is then below 3 / (n (1 − r_k)), the rule of
    three, as the log-likelihood is concave. Any other may as well be there, and takes part in the
    step: where classes are hard to tell apart, it is by chance which of them end at 0.

    >>> p = np.array([[0.9, 0.1], [0.2, 0.8], [0.9, 0.1]])
    >>> old, units = np.array([[0.9, 0.1], [0.2, 0.8]]), np.arange(3)
    >>> found = em(p, old.mean(axis=0), units, old, units[:2], 10, np.random.default_rng(0))
    >>> (found.weights * old.mean(axis=0)).round(2)
    array([0.79, 0.21])
    """
    weights = _fixed_point(new, prior)
    weights[weights <= _NOT_FOUND] = 0.0
    score = new / (new @ weights)[:, None]
    drawn = replicate_means(score, unit_new, replicates, random) - score.mean(axis=0)
    prior_changes = replicate_means(old, unit_old, replicates, random) - old.mean(axis=0)
    missing = 1 - score.mean(axis=0) / prior
    noise = (drawn - prior_changes).std(axis=0) / prior
    absent = (weights == 0) & (missing > _SURELY_ABSENT * noise)
    inside = ~absent
    information = score[:, inside].T @ score[:, inside] / len(new)
    scaled = information * np.outer(prior[inside], prior[inside])
    values = np.linalg.eigvalsh(scaled)
    apart = float(values[0] / values[-1])
    if apart < _LEAST_INFORMED:
        raise InputError(_not_apart("the probabilities of the new data"))
    step = np.linalg.solve(information, (drawn - prior_changes)[:, inside].T).T
    changes = np.zeros((replicates, len(prior)))
    changes[:, inside] = step
    known = np.zeros(len(prior))  # The variances that the likelihood alone knows of.
    known[inside] = np.diag(np.linalg.inv(information)) / len(new)
    presence = _presence(new, weights, prior, changes.std(axis=0), np.sqrt(known))
    unseen = np.where(absent, 3 / (len(new) * np.where(absent, missing, 1.0)), 3 / len(new))
    return ShiftEstimate(weights, changes, prior_changes, apart, presence, unseen)


def _presence(
    new: np.ndarray, weights: np.ndarray, prior: np.ndarray, errors: np.ndarray, known: np.ndarray
) -> np.ndarray:
    """Return by how many standard errors each weight is above 0, by the likelihood near 0.

    There the likelihood is no parabola: a few rows decide about a rare class, and where it is
    absent, an estimate is often several of its standard errors. The root of the likelihood ratio
    (Wilks 1938) against weights without the class counts instead, as errors of the likelihood
    alone; where ``errors`` are larger, because units or the old shares vary, it is as many fewer.
    """
    found = np.where(errors > 0, weights / np.where(errors > 0, errors, 1.0), 0.0)
    highest = np.log(new @ weights).sum()
    for k in np.flatnonzero((found > 0) & (found < _SURELY_PRESENT)):
        others = np.delete(np.arange(len(weights)), k)
        without = _fixed_point(new[:, others], prior[others], _STEPS_WITHOUT)
        ratio = 2 * (highest - np.log(np.maximum(new[:, others] @ without, 1e-300)).sum())
        found[k] = math.sqrt(max(ratio, 0.0)) * min(1.0, known[k] / errors[k])
    return found


def _fixed_point(new: np.ndarray, prior: np.ndarray, most: int = _MOST_STEPS) -> np.ndarray:
    """Iterate w_k ← w_k / prior_k · mean of p_ik / d_i: each step raises the likelihood."""
    weights = np.ones(len(prior))
    for _ in range(most):
        better = weights * (new / (new @ weights)[:, None]).mean(axis=0) / prior
        if np.abs(better - weights).max() < _PRECISE * max(1.0, float(better.max())):
            break
        weights = better
    return np.asarray(better)


def bbse(
    predicted_new: np.ndarray, unit_new: np.ndarray, predicted: np.ndarray, labels: np.ndarray,
    unit_old: np.ndarray, classes: int, replicates: int, random: np.random.Generator,
) -> ShiftEstimate:  # fmt: skip
    """Return w = C⁻¹ μ with C_ij = P(predicted i, true j), cut at 0 and scaled to a mean of 1.

    >>> predicted, labels, units = np.array([0, 0, 1, 1]), np.array([0, 0, 1, 1]), np.arange(4)
    >>> random = np.random.default_rng(0)
    >>> bbse(np.array([0, 1, 1, 1]), units, predicted, labels, units, 2, 5, random).weights
    array([0.5, 1.5])
    """
    cell = predicted * classes + labels

    def solved(weight_new: np.ndarray | None = None, weight_old: Any = None) -> np.ndarray:
        joint = np.bincount(cell, weight_old, minlength=classes**2).reshape(classes, classes)
        shares = np.bincount(predicted_new, weight_new, minlength=classes)
        found = np.linalg.lstsq(joint / joint.sum(), shares / shares.sum(), rcond=None)[0]
        return np.asarray(found)

    joint = np.bincount(cell, minlength=classes**2).reshape(classes, classes)
    by_class = joint / np.maximum(joint.sum(axis=0), 1)
    apart = float(np.linalg.svd(by_class, compute_uv=False)[-1])
    if apart < _LEAST_APART:
        raise InputError(_not_apart("the confusion matrix of the validation data"))
    raw, prior = solved(), joint.sum(axis=0) / len(labels)
    weights = np.maximum(raw, 0)
    weights /= max(float(weights @ prior), 1e-12)
    changes, prior_changes = np.zeros((replicates, classes)), np.zeros((replicates, classes))
    for r in range(replicates):
        old, new = (_unit_counts(unit, random)[unit] for unit in (unit_old, unit_new))
        changes[r] = solved(new, old) - raw  # Cut at 0 they would vary too little.
        drawn = np.bincount(labels, old, minlength=classes)
        prior_changes[r] = drawn / drawn.sum() - prior
    errors = changes.std(axis=0)
    presence = np.where(errors > 0, weights / np.where(errors > 0, errors, 1.0), np.inf)
    unseen = np.full(classes, 3 / len(predicted_new))
    return ShiftEstimate(weights, changes, prior_changes, apart, presence, unseen)


def _not_apart(what: str) -> str:
    return (
        f"Some classes cannot be distinguished by {what} (it cannot be inverted), so their "
        "frequencies cannot be estimated; merge them, or use --method set-level."
    )


def _unit_counts(unit: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return how often each unit is drawn in a bootstrap replicate."""
    units = int(unit.max()) + 1
    return np.bincount(random.integers(0, units, units), minlength=units).astype(np.float64)


def replicate_means(
    rows: np.ndarray, unit: np.ndarray, replicates: int, random: np.random.Generator
) -> np.ndarray:
    """Return the means of the rows in bootstrap replicates that draw units, (R, columns)."""
    units = int(unit.max()) + 1
    sums = np.stack([np.bincount(unit, column, minlength=units) for column in rows.T], axis=1)
    sizes = np.bincount(unit, minlength=units)
    result = np.empty((replicates, rows.shape[1]))
    for r in range(replicates):
        drawn = _unit_counts(unit, random)
        result[r] = drawn @ sums / (drawn @ sizes)
    return result


def effective_size(weights: np.ndarray, labels: np.ndarray) -> float:
    """Return (Σ w)² / Σ w² over labelled rows: how many represent the new data.

    >>> effective_size(np.array([1.0, 3.0]), np.array([0, 0, 1]))
    2.272727272727273
    """
    each = weights[labels]
    return float(each.sum() ** 2 / max(float((each**2).sum()), 1e-300))
