"""Guarantees refuse sample weights."""

import numpy as np
import pytest

import calibrant
from calibrant import InputError, Predictions


def test_a_guarantee_refuses_weights() -> None:
    p = Predictions.from_probabilities(np.full(200, 0.9), np.ones(200, int), weights=np.ones(200))
    with pytest.raises(InputError, match="guarantee takes no sample weights: its bounds"):
        calibrant.guarantee(p, target_risk=0.1)
