"""L-BFGS for smooth convex functions, in float64, with NumPy only."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from calibrant.calibrators.products import dot

__all__ = ["Minimum", "minimize"]

Function = Callable[[np.ndarray], tuple[float, np.ndarray]]
Inverse = Callable[[np.ndarray], np.ndarray]

_DECREASE, _CURVATURE = 1e-4, 0.9  # The constants of Wolfe's conditions.
_MOST_HALVINGS = 50


@dataclass(frozen=True)
class Minimum:
    """The end of the search; ``converged``: the gradient is small, or the rest is negligible."""

    x: np.ndarray
    value: float
    gradient: np.ndarray
    evaluations: int
    converged: bool


def minimize(
    function: Function,
    start: np.ndarray,
    *,
    tolerance: float = 1e-7,
    negligible: float = 0.0,
    noise: float = 0.0,
    most_steps: int = 500,
    memory: int = 20,
    curvature: Callable[[np.ndarray], Inverse] | None = None,
    curvatures: int = 1,
) -> Minimum:
    """Minimise a function that returns its value and gradient.

    Nocedal, "Updating quasi-Newton matrices with limited storage", 1980; the line search is that
    of Lewis and Overton (2013): bisection until the weak Wolfe conditions hold. The value never
    rises by more than ``noise``, its rounding, so the result is at least as good as ``start``.

    ``curvature(x)`` multiplies by an approximate inverse of the second derivatives at x; it is
    computed at the first ``curvatures`` points. The default is a scalar. The search ends where the
    largest gradient entry is below ``tolerance``, or after a step that, at the rate of the steps so
    far, leaves less than ``negligible`` above the minimum: that step costs no evaluation.

    >>> def bowl(x):
    ...     return float(((x - 3) ** 2).sum()), 2 * (x - 3)
    >>> minimize(bowl, np.zeros(2)).x
    array([3., 3.])
    """
    x, (value, gradient) = start, function(start)
    pairs: deque[tuple[np.ndarray, np.ndarray]] = deque(maxlen=memory)
    evaluations, inverse, gain = 1, None, np.inf
    for step_number in range(most_steps):
        if np.abs(gradient).max() < tolerance:
            break
        if curvature is not None and step_number < curvatures:
            inverse = curvature(x)
        direction = -_inverse_hessian_times(gradient, pairs, inverse)
        last_gain, gain = gain, -dot(gradient, direction) / 2
        rate = gain / last_gain
        if pairs and 0 <= rate < 0.5 and rate * gain < negligible:
            return Minimum(x + direction, value - gain, gradient, evaluations, True)
        found, count = _line_search(function, x, value, gradient, direction, noise)
        evaluations += count
        if found is None:
            if not pairs and inverse is None:
                break  # Even steepest descent does not lower the value any more: rounding.
            inverse = inverse if pairs else None
            pairs.clear()
            continue
        new_x, value, new_gradient = found
        step, change = new_x - x, new_gradient - gradient
        if dot(step, change) > 1e-14 * _length(step) * _length(change):
            pairs.append((step, change))
        x, gradient = new_x, new_gradient
    return Minimum(x, value, gradient, evaluations, bool(np.abs(gradient).max() < tolerance))


def _inverse_hessian_times(
    gradient: np.ndarray,
    pairs: deque[tuple[np.ndarray, np.ndarray]],
    inverse: Inverse | None,
) -> np.ndarray:
    """Run the two loops over the stored steps s and gradient changes y."""
    q, shares = gradient.copy(), []
    for s, y in reversed(pairs):
        shares.append(dot(s, q) / dot(s, y))
        q -= shares[-1] * y
    if inverse is not None:
        q = inverse(q)
    elif pairs:
        s, y = pairs[-1]
        q *= dot(s, y) / dot(y, y)
    else:
        q /= max(1.0, _length(q))
    for (s, y), share in zip(pairs, reversed(shares), strict=True):
        q += (share - dot(y, q) / dot(s, y)) * s
    return q


def _length(x: np.ndarray) -> float:
    return float(np.sqrt(dot(x, x)))


def _line_search(
    function: Function,
    x: np.ndarray,
    value: float,
    gradient: np.ndarray,
    direction: np.ndarray,
    noise: float,
) -> tuple[tuple[np.ndarray, float, np.ndarray] | None, int]:
    """Return a point along ``direction`` with the weak Wolfe conditions, or None, and the count."""
    slope = dot(gradient, direction)
    low, high, length = 0.0, np.inf, 1.0
    # Differences of the value below its rounding are noise; the slope then decides.
    noise += 1e-15 * abs(value)
    for count in range(1, _MOST_HALVINGS + 1):
        new_x = x + length * direction
        new_value, new_gradient = function(new_x)
        if not new_value <= value + _DECREASE * length * slope + noise:
            high = length
        elif dot(new_gradient, direction) < _CURVATURE * slope:
            low = length
        else:
            return (new_x, new_value, new_gradient), count
        length = (low + high) / 2 if high < np.inf else 2 * length
    return None, _MOST_HALVINGS
