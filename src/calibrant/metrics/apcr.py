"""The accuracy–calibration trade-off in one number."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from calibrant.errors import InputError

__all__ = ["apcr"]


def apcr(f1: Any, ece: Any) -> Any:
    """F1² / ECE: high where a tagger is good and its confidences are honest.

    From the paper on noise gradient accumulation for named entity recognition. At ECE = 0 it is
    infinite, with a warning. A model that finds nothing has nothing to trade: at F1 = 0 it is
    undefined, NaN. The arguments are numbers or arrays (bootstrap replicates).

    >>> round(apcr(0.939, 0.012), 1)
    73.5
    >>> apcr(0.0, 0.1)
    nan
    """
    f1, ece = np.broadcast_arrays(_number(f1), _number(ece))
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where(f1 == 0, np.nan, f1**2 / ece)
    if np.isinf(value).any():
        warnings.warn("APCR is infinite: the ECE is 0.", RuntimeWarning, stacklevel=2)
    return float(value) if value.ndim == 0 else value


def _number(value: Any) -> np.ndarray:
    try:
        return np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"apcr takes two numbers or arrays, F1 and ECE, got a {type(value).__name__}: "
            "apcr(entity_f1(predictions), ece(predictions))."
        ) from None
