"""Find pixels near a border of their mask, where models err and calibration is hard."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.arguments import check_whole
from calibrant.arrays import to_numpy
from calibrant.errors import InputError

__all__ = ["near_border"]


def near_border(mask: np.ndarray, width: int = 3) -> np.ndarray:
    """Return True where another label lies within ``width`` pixels, diagonals included.

    ``mask`` has shape (…, height, width). Ignored pixels (−100) are a label too: the void band
    along an object is where its border is. The edge of the image is no border.

    >>> near_border(np.array([[0, 0, 0, 0, 1, 1]]), width=1)
    array([[False, False, False,  True,  True, False]])
    """
    mask = _as_mask(mask)
    if mask.ndim < 2 or mask.dtype.kind not in "iu":
        raise InputError(
            "near_border expects a mask (…, height, width) of class numbers, got "
            f"{mask.dtype} {mask.shape}."
        )
    check_whole("near_border", "a whole number of pixels ≥ 0", width, 0)
    low, high = mask, mask
    for axis in (-2, -1):
        low, high = _extreme(np.minimum, low, width, axis), _extreme(np.maximum, high, width, axis)
    return np.asarray(low != high)


def _extreme(choose: np.ufunc, values: np.ndarray, width: int, axis: int) -> np.ndarray:
    """Return the least or largest value within ``width`` places along an axis."""
    values = np.moveaxis(values, axis, -1)
    found = values.copy()
    for shift in range(1, min(width, values.shape[-1] - 1) + 1):
        choose(found[..., shift:], values[..., :-shift], out=found[..., shift:])
        choose(found[..., :-shift], values[..., shift:], out=found[..., :-shift])
    return np.moveaxis(found, -1, axis)


def _as_mask(mask: Any) -> np.ndarray:
    try:
        return to_numpy(mask)
    except (TypeError, ValueError):
        raise InputError(f"near_border expects a mask, got a {type(mask).__name__}.") from None
