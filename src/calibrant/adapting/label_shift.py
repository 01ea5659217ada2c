"""Class frequencies of a new, unlabelled data set, if nothing else has changed (label shift).

The odds of two classes at an example change by the same factor for all examples: p'_k ∝ w_k p_k,
with w_k the new share of class k over its old one. EM (Saerens, Latinne, Decaestecker 2002) finds
the weights under which the new data are most likely, from honest probabilities. BBSE (Lipton, Wang,
Smola 2018) solves C w = μ, with C the confusion matrix on labelled data and μ the predicted shares
of the new data; it needs no honest probabilities, but a confusion matrix that can be inverted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from calibrant.errors import InputError

__all__ = ["ShiftEstimate", "bbse", "effective_size", "em"]

_MOST_STEPS = 10_000
_PRECISE = 1e-10
_LEAST_APART = 1e-3  # Smallest singular value of the shares of predictions by true class.
_LEAST_INFORMED = 1e-7  # Of the information matrix of the weights, relative to its largest.


class ShiftEstimate(NamedTuple):
    """Weights (K,), and what they would be in bootstrap replicates, as differences (R, K).

    ``prior_changes`` are those of the old shares. ``apart`` says how well the classes can be
    distinguished, from 0 (not at all) to 1.
    """

    weights: np.ndarray
    changes: np.ndarray
    prior_changes: np.ndarray
    apart: float


def em(
    new: np.ndarray, prior: np.ndarray, unit_new: np.ndarray, old: np.ndarray, unit_old: np.ndarray,
    replicates: int, random: np.random.Generator,
) -> ShiftEstimate:  # fmt: skip
    """Return the weights that make honest probabilities ``new`` (n, K) most likely.

    ``prior`` are the old shares of the classes, the means of ``old``: so data like the old ones
    have weights of 1. ``unit_new`` and ``unit_old`` number the units of the rows, which replicates
    draw. A replicate takes one step of Newton from the optimum, where Σ_i p_ik / (n d_i) = prior_k
    with d_i = Σ_k w_k p_ik.

    >>> p = np.array([[0.9, 0.1], [0.2, 0.8], [0.9, 0.1]])
    >>> old, units = np.array([[0.9, 0.1], [0.2, 0.8]]), np.arange(3)
    >>> found = em(p, old.mean(axis=0), units, old, units[:2], 10, np.random.default_rng(0))
    >>> (found.weights * old.mean(axis=0)).round(2)
    array([0.79, 0.21])
    """
    weights = _fixed_point(new, prior)
    inside = weights > 1e-9
    score = new[:, inside] / (new @ weights)[:, None]
    information = score.T @ score / len(new)
    scaled = information * np.outer(prior[inside], prior[inside])
    values = np.linalg.eigvalsh(scaled)
    apart = float(values[0] / values[-1])
    if apart < _LEAST_INFORMED:
        raise InputError(_not_apart("the probabilities of the new data"))
    drawn = _replicate_means(score, unit_new, replicates, random) - score.mean(axis=0)
    prior_changes = _replicate_means(old, unit_old, replicates, random) - old.mean(axis=0)
    step = np.linalg.solve(information, (drawn - prior_changes[:, inside]).T).T
    changes = np.zeros((replicates, len(prior)))
    changes[:, inside] = step
    return ShiftEstimate(weights, changes, prior_changes, apart)


def _fixed_point(new: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Iterate w_k ← w_k / prior_k · mean of p_ik / d_i: each step raises the likelihood."""
    weights = np.ones(len(prior))
    for _ in range(_MOST_STEPS):
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

    def solved(weight_new: np.ndarray | None, weight_old: np.ndarray | None) -> np.ndarray:
        joint = np.bincount(cell, weight_old, minlength=classes**2).reshape(classes, classes)
        shares = np.bincount(predicted_new, weight_new, minlength=classes)
        found = np.linalg.lstsq(joint / joint.sum(), shares / shares.sum(), rcond=None)[0]
        found = np.maximum(found, 0)
        return np.asarray(found / max(float(found @ joint.sum(axis=0) / joint.sum()), 1e-12))

    joint = np.bincount(cell, minlength=classes**2).reshape(classes, classes)
    by_class = joint / np.maximum(joint.sum(axis=0), 1)
    apart = float(np.linalg.svd(by_class, compute_uv=False)[-1])
    if apart < _LEAST_APART:
        raise InputError(_not_apart("the confusion matrix of the validation data"))
    weights, prior = solved(None, None), joint.sum(axis=0) / len(labels)
    changes, prior_changes = np.zeros((replicates, classes)), np.zeros((replicates, classes))
    for r in range(replicates):
        old, new = (_unit_counts(unit, random)[unit] for unit in (unit_old, unit_new))
        changes[r] = solved(new, old) - weights
        drawn = np.bincount(labels, old, minlength=classes)
        prior_changes[r] = drawn / drawn.sum() - prior
    return ShiftEstimate(weights, changes, prior_changes, apart)


def _not_apart(what: str) -> str:
    return (
        f"Some classes cannot be distinguished by {what} (it cannot be inverted), so their "
        "frequencies cannot be estimated; merge them, or use --method set-level."
    )


def _unit_counts(unit: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return how often each unit is drawn in a bootstrap replicate."""
    units = int(unit.max()) + 1
    return np.bincount(random.integers(0, units, units), minlength=units).astype(np.float64)


def _replicate_means(
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
