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

__all__ = ["ShiftEstimate", "bbse", "effective_size", "em", "most_likely", "replicate_means"]

_MOST_STEPS = 10_000
_STEPS_WITHOUT = 300  # Of a fit without one class.
_SURELY_PRESENT = 8.0  # Standard errors above 0.
_NOT_FOUND = 1e-9  # EM comes close to a weight of 0, but not there.
_PRECISE = 1e-10
_LEAST_APART = 1e-3  # Smallest singular value of the shares of predictions by true class.
_LEAST_INFORMED = 1e-6  # Smallest singular value of the same for the functions of EM.


class ShiftEstimate(NamedTuple):
    """Weights (K,), and what they would be in bootstrap replicates, as differences (R, K).

    ``prior`` are the old shares, and ``prior_changes`` what they would be. ``apart`` says how well
    the classes can be distinguished, from 0 (not at all) to 1. ``presence`` says by how many
    standard errors each weight is above 0. A class without any weight may still have the share
    ``unseen``.
    """

    weights: np.ndarray
    changes: np.ndarray
    prior: np.ndarray
    prior_changes: np.ndarray
    apart: float
    presence: np.ndarray
    unseen: float


def em(
    new: np.ndarray, unit_new: np.ndarray, old: np.ndarray, labels: np.ndarray,
    unit_old: np.ndarray, replicates: int, random: np.random.Generator,
) -> ShiftEstimate:  # fmt: skip
    """Return the weights that make probabilities ``new`` (n, K) most likely, by labelled old ones.

    EM looks for w with mean_new p_j / d = mean_old p_j for all j, where d = Σ_k w_k p_k. If the
    probabilities are honest, the true weights fulfil this. If they are not, EM is sure of weights
    that are wrong. Label shift alone makes mean_new h = Σ_k w_k mean_old [y = k] h for any function
    h. So EM only says which functions tell most, h_j = p_j / d, and labels say what they are worth:
    w = A⁻¹ mean_new h with A_jk = mean_old [y = k] h_j. Where the probabilities are honest, both
    have the same limit. Replicates draw the units of both samples, numbered by ``unit_new`` and
    ``unit_old``.

    >>> old, labels = np.repeat([[0.9, 0.1], [0.2, 0.8]], 10, axis=0), np.repeat([0, 1], 10)
    >>> labels[[0, 10, 11]] = [1, 0, 0]  # So the probabilities are honest.
    >>> units, random = np.arange(20), np.random.default_rng(0)
    >>> found = em(old[[0, 10, 0]], units[:3], old, labels, units, 10, random)
    >>> (found.weights * found.prior).round(2)
    array([0.79, 0.21])
    """
    known = _known_classes(old, labels, int(unit_old.max()) + 1)
    prior = known.mean(axis=0)
    likely = most_likely(new, old.mean(axis=0))
    # A class that EM does not find may still have one row.
    used = np.maximum(likely, np.minimum(1 / (len(new) * np.maximum(prior, 1e-12)), 1.0))
    h_new, h_old = (p / (p @ used)[:, None] for p in (new, old))
    joint = h_old.T @ known / len(old)
    by_class = joint / joint.max(axis=1, keepdims=True) / prior
    apart = float(np.linalg.svd(by_class, compute_uv=False)[-1])
    if apart < _LEAST_INFORMED:
        raise InputError(_not_apart("the probabilities of the new data"))
    raw = _solved(joint, h_new.mean(axis=0))
    weights = np.maximum(raw, 0.0)
    weights /= float(weights @ prior)
    changes = replicate_means(h_new, unit_new, replicates, random)
    prior_changes = np.empty_like(changes)
    for r, shown in enumerate(changes):
        times = _unit_counts(unit_old, random)[unit_old]
        times /= times.sum()
        changes[r] = _solved((h_old * times[:, None]).T @ known, shown) - raw
        prior_changes[r] = times @ known - prior
    presence = _presence(new, likely, old.mean(axis=0), changes.std(axis=0))
    unseen = 3 / len(new)  # The rule of three.
    return ShiftEstimate(weights, changes, prior, prior_changes, apart, presence, unseen)


def _known_classes(old: np.ndarray, labels: np.ndarray, units: int) -> np.ndarray:
    """Return labels as rows of shares (n, K), with beliefs where no label says anything.

    A class without a label is taken from the probabilities. So is 1 / (units + 1) of each row,
    one unit in all, so that replicates without any example of a class can be solved.
    """
    known = np.zeros_like(old)
    known[np.arange(len(old)), labels] = 1.0
    missing = ~known.any(axis=0)
    known *= 1 - old[:, missing].sum(axis=1, keepdims=True)
    known[:, missing] = old[:, missing]
    return np.asarray((units * known + old) / (units + 1))


def _solved(joint: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """Return w with ``joint`` w = ``shown``."""
    return np.asarray(np.linalg.lstsq(joint, shown, rcond=None)[0])


def _presence(
    new: np.ndarray, weights: np.ndarray, prior: np.ndarray, errors: np.ndarray
) -> np.ndarray:
    """Return by how many standard errors each weight is above 0, by the likelihood near 0.

    There the likelihood is no parabola: a few rows decide about a rare class, and where it is
    absent, an estimate is often several of its standard errors. The root of the likelihood ratio
    (Wilks 1938) against weights without the class counts instead, as errors of the likelihood
    alone; where ``errors`` are larger, because units or the old rows vary, it is as many fewer.
    """
    score = new / (new @ weights)[:, None]
    known = np.sqrt(np.diag(np.linalg.pinv(score.T @ score)))  # What the likelihood alone knows.
    found = np.where(errors > 0, weights / np.where(errors > 0, errors, 1.0), 0.0)
    highest = np.log(new @ weights).sum()
    for k in np.flatnonzero((found > 0) & (found < _SURELY_PRESENT)):
        others = np.delete(np.arange(len(weights)), k)
        without = most_likely(new[:, others], prior[others], _STEPS_WITHOUT)
        ratio = 2 * (highest - np.log(np.maximum(new[:, others] @ without, 1e-300)).sum())
        found[k] = math.sqrt(max(ratio, 0.0)) * min(1.0, known[k] / errors[k])
    return found


def most_likely(new: np.ndarray, prior: np.ndarray, most: int = _MOST_STEPS) -> np.ndarray:
    """Return the weights of EM: w_k ← w_k / prior_k · mean p_k / d raises the likelihood."""
    weights = np.ones(len(prior))
    for _ in range(most):
        better = weights * (new / (new @ weights)[:, None]).mean(axis=0) / prior
        if np.abs(better - weights).max() < _PRECISE * max(1.0, float(better.max())):
            break
        weights = better
    better[better <= _NOT_FOUND] = 0.0
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
    unseen = 3 / len(predicted_new)
    return ShiftEstimate(weights, changes, prior, prior_changes, apart, presence, unseen)


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
