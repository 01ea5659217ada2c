"""The same numbers as other libraries: recorded from MAPIE 1.6.0 and TorchCP on these scores."""

import numpy as np
import pytest

from calibrant import Predictions, guarantee
from calibrant.policies.p_values import binomial_tail

LAC = [29, 28, 37, 35, 37, 33, 39, 31, 36, 36]  # MAPIE and TorchCP: sets that hold each class
LAC_EACH_CLASS = [49, 88, 37, 44, 82, 71, 34, 40, 46, 41]  # TorchCP
APS = 367  # MAPIE with include_last_label=True: all classes of all sets


def ten_classes(random, n):
    logits = 2 * random.normal(size=(n, 10))
    labels = (logits + random.gumbel(size=logits.shape)).argmax(axis=1)
    scores = np.exp(logits)
    return Predictions.from_probabilities(scores / scores.sum(axis=1, keepdims=True), labels)


@pytest.fixture
def splits():
    random = np.random.default_rng(42)
    return ten_classes(random, 200), ten_classes(random, 100)


def test_lac(splits):
    valid, test = splits
    assert guarantee(valid, coverage=0.9).sets(test).sum(axis=0).tolist() == LAC


def test_lac_of_each_class(splits):
    valid, test = splits
    sets = guarantee(valid, coverage=0.9, per="type").sets(test)
    assert sets.sum(axis=0).tolist() == LAC_EACH_CLASS


def test_aps_is_smaller(splits):
    valid, test = splits
    assert guarantee(valid, coverage=0.9, score="aps").sets(test).sum() <= APS


@pytest.mark.parametrize(
    ("wrong", "n", "risk", "recorded"),
    [
        (0, 45, 0.05, 0.09944025698709247),
        (3, 100, 0.1, 0.00783648712118442),
        (12, 400, 0.05, 0.035505904177617606),
        (30, 1000, 0.04, 0.057988376962281166),
    ],
)
def test_p_values_of_the_controller(wrong, n, risk, recorded):
    assert binomial_tail(wrong, n, risk) == pytest.approx(recorded, rel=1e-9)
