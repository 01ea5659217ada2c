"""Fit what :class:`~calibrant.calibrators.ShiftAware` learns.

First the temperature of clean rows, then the two curves of the confidence and the gate between
them, then how the other classes share what the confidence leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from calibrant.calibrators.backend import sigmoid
from calibrant.calibrators.faultless import stopped
from calibrant.calibrators.minimize import minimize
from calibrant.calibrators.newton import best_inverse_temperature

__all__ = ["clean_temperature", "fit_experts", "fit_shares"]

_WORK = 4_000_000  # Rows times steps; then the least and the most steps.
_STEPS = (80, 400)
_TOLERANCE = 1e-8
_MOST_LOG_ODDS = 30.0
_RIDGE = 0.5  # Of values, relative to the penalty on their bends.
_APART = 1e-6  # The least distance of knots, relative to their range.
_SCORES = 1 << 22  # Scores of wrong rows that the shares are fitted on.
_MOST_TEMPERATURE = 16.0  # And its inverse the least: scores without information have no optimum.
_START = 1.0  # The first distance of the two curves: equal curves would stay equal.


class _Basis(NamedTuple):
    """Knots of piecewise linear functions, and the share of each knot in each row's value."""

    nodes: list[np.ndarray]
    hats: np.ndarray

    @property
    def sizes(self) -> list[int]:
        """How many knots each function has."""
        return [len(nodes) for nodes in self.nodes]


def clean_temperature(logits: np.ndarray, labels: np.ndarray) -> float:
    """Return the temperature with the least NLL, from 1/16 to 16.

    >>> clean_temperature(np.array([[2.0, 0.0]] * 4), np.array([0, 0, 0, 1]))
    1.8204784...
    """
    best = stopped(best_inverse_temperature(logits, labels), logits, labels)
    beta = 1.0 if best.at.spread == 0 else best.beta
    return float(np.clip(1 / beta, 1 / _MOST_TEMPERATURE, _MOST_TEMPERATURE))


def fit_experts(
    log_odds: np.ndarray,
    signals: np.ndarray,
    right: np.ndarray,
    weight: np.ndarray,
    penalty: float,
) -> dict[str, np.ndarray]:
    """Minimise the weighted NLL of being right, penalised for bends, from f = z on.

    ``penalty`` is in units of examples: it fades as these become many. A few rows of high weight
    are few examples (:func:`_example_count`).
    """
    wrong = right < 0.5
    z = np.clip(log_odds, -_MOST_LOG_ODDS, _MOST_LOG_ODDS)
    basis = _basis([_signal_knots(column, wrong) for column in signals.T], signals)
    curve = _basis([_log_odds_knots(z, wrong)], z[:, None])
    share = penalty / _example_count(weight)
    problem = _Problem(basis, curve, right, weight / weight.sum(), share)
    steps = int(np.clip(_WORK // len(right), *_STEPS))
    found = minimize(problem, problem.start, tolerance=_TOLERANCE, most_steps=steps)
    values, curves = problem.unpacked(found.x)
    functions = [np.split(column, np.cumsum(basis.sizes)[:-1]) for column in values.T]
    nodes, intercepts, slopes = _as_lines(basis.nodes, functions)
    z_nodes, z_intercepts, z_slopes = _as_lines(curve.nodes, [[row] for row in curves])
    return {
        "nodes_": nodes,
        "intercepts_": intercepts,
        "slopes_": slopes,
        "log_odds_nodes_": z_nodes,
        "log_odds_intercepts_": z_intercepts,
        "log_odds_slopes_": z_slopes,
    }


def fit_shares(
    logits: np.ndarray,
    labels: np.ndarray,
    gate: np.ndarray,
    weight: np.ndarray,
    penalty: float,
) -> np.ndarray:
    """Return e₁ and e₂ of the shares of the other classes, which are ∝ p_k^((1 − π) e₁ + π e₂).

    The rows are those whose predicted class is wrong, and ``gate`` is their π. The exponents
    minimise the weighted NLL of the true class among the others; 1 keeps the shares of the scores.
    """
    stride = -(-logits.size // _SCORES) or 1
    logits, labels, gate, weight = (x[::stride] for x in (logits, labels, gate, weight))
    count, classes = logits.shape
    if classes == 2 or not count:
        return np.ones(2)
    below = np.maximum(logits - logits.max(1, keepdims=True), -_MOST_LOG_ODDS)
    true = below[np.arange(count), labels]
    is_other = np.arange(classes) != logits.argmax(1)[:, None]
    below = below[is_other].reshape(count, classes - 1)
    pull = _RIDGE * penalty / _example_count(weight)
    parts, weight = np.stack([1 - gate, gate], 1), weight / weight.sum()

    def loss(e: np.ndarray) -> tuple[float, np.ndarray]:
        power = parts @ e
        scaled = power[:, None] * below
        highest = scaled.max(1)
        shares = np.exp(scaled - highest[:, None])
        total = shares.sum(1)
        nll = np.log(total) + highest - power * true
        mean = (shares * below).sum(1) / total
        gradient = parts.T @ (weight * (mean - true)) + 2 * pull * (e - 1)
        return float(weight @ nll + pull * ((e - 1) ** 2).sum()), gradient

    found = minimize(loss, np.ones(2), tolerance=_TOLERANCE)
    return np.asarray(np.maximum(found.x, 0.0))


def _example_count(weight: np.ndarray) -> float:
    """Return how many equal examples have a mean as uncertain as that with weights (Kish 1965).

    >>> _example_count(np.array([1.0, 1.0])), _example_count(np.array([100.0, 1.0, 1.0]))
    (2.0, 1.0401...)
    """
    return float(weight.sum() ** 2 / (weight**2).sum())


class _Problem:
    """The penalised loss as a function of one vector of parameters, with its gradient.

    The parameters are values (knots, 3) of a₁, a₂ and the gate; then, for g₁ and g₂, the value at
    the first knot and the logarithm of each slope.
    """

    def __init__(
        self, basis: _Basis, curve: _Basis, right: np.ndarray, weight: np.ndarray, penalty: float
    ) -> None:
        self.basis, self.curve, self.penalty = basis, curve, penalty
        self.right, self.weight = right, weight
        self.gaps = np.diff(curve.nodes[0])
        self.bends = _bends(basis.sizes)

    @property
    def start(self) -> np.ndarray:
        """Return two curves, one on each side of the raw confidence."""
        first, slopes = self.curve.nodes[0][0], np.zeros(len(self.gaps))
        curves = [np.append(first + shift, slopes) for shift in (_START, -_START)]
        return np.concatenate([np.zeros(3 * self.basis.hats.shape[1]), *curves])

    def unpacked(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the values (knots, 3) of the signals' functions, and those of g₁ and g₂."""
        values, rest = self._split(x)
        return values, rest[:, :1] + self._rise(rest)

    def _split(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        width = self.basis.hats.shape[1]
        return x[: 3 * width].reshape(width, 3), x[3 * width :].reshape(2, -1)

    def _rise(self, rest: np.ndarray) -> np.ndarray:
        steps = np.exp(np.clip(rest[:, 1:], -9, 9)) * self.gaps
        return np.concatenate([np.zeros((2, 1)), np.cumsum(steps, axis=1)], axis=1)

    def __call__(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        values, rest = self._split(x)
        a1, a2, gate = (self.basis.hats @ values).T
        g1, g2 = (self.curve.hats @ (rest[:, :1] + self._rise(rest)).T).T
        share = sigmoid(gate)
        f1, f2 = a1 + g1, a2 + g2
        f = f1 + share * (f2 - f1)
        loss = self.weight @ (np.logaddexp(0, f) - self.right * f)
        r = self.weight * (sigmoid(f) - self.right)
        each = np.stack([(1 - share) * r, share * r], axis=1)
        by_gate = (share * (1 - share) * (f2 - f1) * r)[:, None]
        gradient = self.basis.hats.T @ np.concatenate([each, by_gate], axis=1)
        by_curve = self._curve_gradient(rest, (self.curve.hats.T @ each).T)
        bent, bend_gradient = self._bending(values)
        moved = rest - self._split(self.start)[1]
        loss += self.penalty * (bent + _RIDGE * float((moved**2).sum()))
        gradient += self.penalty * bend_gradient
        by_curve += 2 * _RIDGE * self.penalty * moved
        return float(loss), np.concatenate([gradient.ravel(), by_curve.ravel()])

    def _curve_gradient(self, rest: np.ndarray, by_value: np.ndarray) -> np.ndarray:
        """Chain the gradient at the knots to the first value and the logarithms of slopes."""
        steps = np.exp(np.clip(rest[:, 1:], -9, 9)) * self.gaps
        after = np.cumsum(by_value[:, ::-1], axis=1)[:, ::-1]  # Of this knot and all behind it.
        return np.concatenate([after[:, :1], after[:, 1:] * steps], axis=1)

    def _bending(self, values: np.ndarray) -> tuple[float, np.ndarray]:
        """Σ second differences² + ridge Σ values², and its gradient."""
        pull = self.bends @ values + _RIDGE * values
        return float((values * pull).sum()), 2 * pull


def _bends(sizes: Sequence[int]) -> np.ndarray:
    """Return D'D of the second differences D of each function, as one block matrix."""
    matrix, at = np.zeros((sum(sizes), sum(sizes))), 0
    for size in sizes:
        if size > 2:
            second = np.diff(np.eye(size), n=2, axis=0)
            matrix[at : at + size, at : at + size] = second.T @ second
        at += size
    return matrix


def _basis(nodes: list[np.ndarray], columns: np.ndarray) -> _Basis:
    hats = [_hats(column, row) for column, row in zip(columns.T, nodes, strict=True)]
    return _Basis(nodes, np.concatenate(hats, axis=1))


def _hats(column: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Return (n, knots): the share of each knot in the value of a line through them."""
    units = np.eye(len(nodes))
    return np.stack([np.interp(column, nodes, unit) for unit in units], axis=1)


def _signal_knots(column: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    """Return up to eight knots: quantiles of all rows, and of wrong ones, where more depends."""
    places = np.quantile(column, np.linspace(0.005, 0.995, 4))
    hard = np.quantile(column[wrong], np.linspace(0.01, 0.99, 4)) if wrong.any() else places
    return _distinct(np.append(places, hard))


def _log_odds_knots(z: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    hard = np.quantile(z[wrong], np.linspace(0.02, 0.98, 8)) if wrong.any() else z[:1]
    return _distinct(np.concatenate([[z.min()], hard, np.quantile(z, [0.3, 0.55, 0.8, 0.995])]))


def _distinct(places: np.ndarray) -> np.ndarray:
    """Return places in ascending order, at least two, none too near to the one before."""
    ordered = np.unique(places)
    least = _APART * max(ordered[-1] - ordered[0], 1.0)
    kept = ordered[np.append(True, np.diff(ordered) > least)]
    return kept if len(kept) > 1 else np.array([kept[0], kept[0] + 1.0])


def _as_lines(
    nodes: list[np.ndarray], functions: Sequence[Sequence[np.ndarray]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return nodes (S, m), and intercept and slope of each segment, (functions, S, m + 1).

    Functions are constant beyond the outer nodes; a shorter list repeats its last node.
    """
    most = max(map(len, nodes))
    intercepts = np.zeros((len(functions), len(nodes), most + 1))
    slopes = np.zeros_like(intercepts)
    for k, function in enumerate(functions):
        for i, (places, values) in enumerate(zip(nodes, function, strict=True)):
            slope = np.concatenate([[0], np.diff(values) / np.diff(places), [0]])
            at = np.append(places, places[-1])
            intercept = np.append(values, values[-1]) - slope * at
            slopes[k, i, : len(slope)] = slope
            intercepts[k, i] = np.pad(intercept, (0, most + 1 - len(slope)), mode="edge")
    padded = [np.pad(places, (0, most - len(places)), mode="edge") for places in nodes]
    return np.stack(padded), intercepts, slopes
