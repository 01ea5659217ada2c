"""log Γ for arrays, which NumPy lacks."""

from __future__ import annotations

import numpy as np

__all__ = ["log_gamma"]


def log_gamma(x: np.ndarray) -> np.ndarray:
    """Return log Γ(x) for x > 0, to about 1e-14 relative: Stirling's series after a shift by 8.

    >>> log_gamma(np.array([1.0, 5.0])).round(12) + 0.0
    array([0.        , 3.17805383])
    """
    x = np.asarray(x, np.float64)
    product = np.ones_like(x)
    for shift in range(8):  # Γ(x) = Γ(x + 8) / (x (x + 1) … (x + 7))
        product = product * np.where(x < 8, x + shift, 1.0)
    y = np.where(x < 8, x + 8, x)
    inverse = 1 / y**2
    series = (1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse * (1 / 1680)))) / y
    # The next terms of Stirling's series, 1/1188 y⁻⁹ and less, are below 1e-11 of log Γ at y = 8.
    series = series + inverse**4 / y * (1 / 1188 - inverse * (691 / 360360))
    result: np.ndarray = (
        (y - 0.5) * np.log(y) - y + 0.5 * np.log(2 * np.pi) + series - np.log(product)
    )
    return result
