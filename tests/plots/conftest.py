import numpy as np
import pytest

from calibrant import Predictions


@pytest.fixture(scope="session")
def overconfident():
    """2,000 predictions of 10 classes whose logits are stretched 2.5 times."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, 2000)
    logits = rng.normal(size=(2000, 10))
    logits[np.arange(2000), labels] += 1.8
    return Predictions.from_logits(4.5 * logits, labels)
