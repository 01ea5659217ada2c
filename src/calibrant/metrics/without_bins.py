"""Calibration errors without bins: smoothed by a kernel, or cumulative (Kolmogorov–Smirnov)."""

from __future__ import annotations

import numpy as np

from calibrant.arguments import takes_arrays
from calibrant.metrics.sorted_confidences import ConfidenceSteps, StepSource, confidence_steps

__all__ = ["ks_error", "smooth_ece"]

# Intervals of the grid on [0, 1]. Far finer than any bandwidth that data calls for: for honest
# confidences the bandwidth shrinks as n^(−1/3) and is still 0.001 at n = 10⁹.
_GRID = 1 << 13
_CHUNK = 1 << 18  # Steps put on the grid at a time.
_BANDWIDTH = 2.0**-24  # The bandwidth is found to this width, below the error of the grid.


@takes_arrays
def smooth_ece(source: StepSource) -> float:
    """Smooth ECE: the σ with ∫₀¹ abs((1/n) Σ_i (a_i − c_i) K_σ(t, c_i)) dt = σ.

    Błasiok & Nakkiran 2023. K_σ is the Gaussian reflected at 0 and 1. The integral falls as σ
    grows, so there is one such σ and no bandwidth to choose. Unlike binned errors it is continuous
    in the confidences.

    The reflected Gaussian is the heat kernel of [0, 1], diagonal in cosines: the residuals are put
    on a fine grid once, and each trial σ costs two Fourier transforms of the grid for any n.

    >>> from calibrant import Predictions
    >>> p = Predictions.from_probabilities([[0.9, 0.1]] * 10, [0] * 6 + [1] * 4)
    >>> round(smooth_ece(p), 3)
    0.3
    """
    s = confidence_steps(source)
    if not s.n:
        return float("nan")
    return _fixed_point(_spectrum(s))


def _spectrum(s: ConfidenceSteps) -> np.ndarray:
    """Return the cosine coefficients of the residuals, each split between two grid neighbours."""
    mass = np.zeros(_GRID + 1)
    for start in range(0, len(s.confidence), _CHUNK):
        part = slice(start, start + _CHUNK)
        place = np.clip(s.confidence[part], 0, 1) * _GRID
        left = np.minimum(place.astype(np.int64), _GRID - 1)
        residual = (s.correct[part] - s.count[part] * s.confidence[part]) / s.n
        share = residual * (place - left)
        mass += np.bincount(left, residual - share, minlength=_GRID + 1)
        mass[1:] += np.bincount(left, share, minlength=_GRID)
    mass[[0, -1]] *= 2  # The mirror image of an end lies on the end itself.
    return np.asarray(np.fft.rfft(np.concatenate([mass, mass[-2:0:-1]])).real)


def _smoothed(spectrum: np.ndarray, sigma: float) -> float:
    """Return ∫ abs(smoothed residual): the heat kernel damps cosine k by exp(−(π k σ)² / 2)."""
    damping = np.exp(-0.5 * (np.pi * sigma * np.arange(len(spectrum))) ** 2)
    density = np.abs(np.fft.irfft(spectrum * damping)[: _GRID + 1])
    return float(density.sum() - 0.5 * (density[0] + density[-1]))


def _fixed_point(spectrum: np.ndarray) -> float:
    """Bisect, helped by the value itself: S falls, so σ = S(σ) lies between any t and S(t)."""
    low = _smoothed(spectrum, 1.0)
    high = max(low, _smoothed(spectrum, low))
    while high - low > _BANDWIDTH:
        middle = (low + high) / 2
        value = _smoothed(spectrum, middle)
        low, high = max(low, min(middle, value)), min(high, max(middle, value))
    return (low + high) / 2


@takes_arrays
def ks_error(source: StepSource) -> float:
    """KS calibration error: max over t of abs((1/n) Σ_{i: c_i ≤ t} (a_i − c_i)).

    Gupta et al. 2021. It is the largest distance between the cumulative confidence and cumulative
    correctness along the confidence; t runs over the distinct confidences, so ties stay together.

    >>> from calibrant import Predictions
    >>> p = Predictions.from_probabilities([[0.9, 0.1], [0.3, 0.7]], [0, 0])
    >>> round(ks_error(p), 3)
    0.35
    """
    s = confidence_steps(source)
    if not s.n:
        return float("nan")
    return float(np.abs(np.cumsum(s.correct - s.count * s.confidence)).max() / s.n)
