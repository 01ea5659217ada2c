"""Scores that differ by rounding alone are one point."""

import math

import numpy as np
import pytest

from calibrant.calibrators.histogram import equal_mass_edges
from calibrant.calibrators.isotonic import _IsotonicCurve
from calibrant.calibrators.ties import by_score, tied_runs, tolerance


def loop_runs(ordered):
    """Starts of the runs, one score after the other; distances in tolerances."""
    starts, along = [0], 0.0
    part = 0
    for i in range(1, len(ordered)):
        low, gap = ordered[i - 1], ordered[i] - ordered[i - 1]
        z = math.log(low) - math.log1p(-low)
        distance = gap / (2e-6 * low * (1 - low) * max(1, abs(z)))
        along += distance
        if distance > 1:
            along, part = 0.0, 0
            starts.append(i)
        elif math.floor(along / 2) != part:
            part = math.floor(along / 2)
            starts.append(i)
    return starts


@pytest.mark.parametrize("spread", [1e-8, 3e-7, 1e-5, 1e-3, 3.0])
def test_runs_equal_a_loop(spread):
    rng = np.random.default_rng(0)
    z = np.concatenate([centre + spread * rng.normal(size=60) for centre in (-6, -0.5, 0.2, 4)])
    ordered = np.sort(1 / (1 + np.exp(-z)))
    ordered[5:8] = ordered[5]  # Exact ties too.
    ordered.sort()
    assert tied_runs(ordered).tolist() == loop_runs(ordered)


def test_a_dense_sample_is_no_chain():
    ordered = np.linspace(0.3, 0.7, 2_000_001)  # Neighbours are 2e-7 apart, all within tolerance.
    starts = tied_runs(ordered)
    ends = ordered[np.append(starts[1:], len(ordered)) - 1]
    assert (ends - ordered[starts] <= 2 * tolerance(ends, float32=False) * 1.01).all()
    assert 300_000 < len(starts) < 1_000_000


def test_zeros_ones_and_the_smallest_numbers_stay_apart():
    ordered = np.array([0.0, 0.0, 1e-300, 1e-12, 1.1e-12, 0.1, 1 - 1e-12, 1 - 1e-15, 1.0, 1.0])
    assert tied_runs(ordered).tolist() == [0, 2, 3, 4, 5, 6, 7, 8]
    assert tied_runs(np.ones(1)).tolist() == [0]


def test_float32_numbers_beside_each_other_are_one():
    near = np.float32(0.9999) + np.array([0, 6e-8], np.float32)
    assert near[0] < near[1]
    assert len(tied_runs(near.astype(np.float64))) == 1
    assert len(tied_runs(np.append(near, 0.99999))) == 3  # Not all are float32 numbers.


def test_the_points_by_hand_and_in_any_order():
    scores = np.array([0.2, 0.6, 0.6 + 2e-8, 0.6 + 4e-8])
    happened, weights = np.array([True, True, False, True]), np.array([1.0, 2, 1, 1])
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        points = by_score(scores[order], happened[order], weights[order])
        assert points.low.tolist() == [0.2, 0.6]
        assert points.high.tolist() == [0.2, 0.6 + 4e-8]
        np.testing.assert_allclose(points.middle, [0.2, 0.6 + 1.5e-8], rtol=0, atol=1e-15)
        assert points.weight.tolist() == [1, 4]
        assert points.hits.tolist() == [1, 3]
    repeated = by_score(np.repeat(scores, [1, 2, 1, 1]), np.repeat(happened, [1, 2, 1, 1]))
    for one, two in zip(points, repeated, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-15)


def test_blocks_and_edges_lie_between_the_runs():
    scores = np.concatenate([0.4 + 1e-8 * np.arange(6), 0.7 + 1e-8 * np.arange(6)])
    happened = np.arange(12) % 3 > (np.arange(12) < 6)  # A third, then two thirds.
    curve = _IsotonicCurve(0.0).fit(scores, happened)
    assert curve["nodes_"].tolist() == scores[[0, 5, 6, 11]].tolist()
    np.testing.assert_allclose(curve["values_"], [1 / 3, 1 / 3, 2 / 3, 2 / 3])
    middle = (scores[5] + scores[6]) / 2
    for weights in (None, np.ones(12)):
        assert equal_mass_edges(scores, 4, weights).tolist() == pytest.approx([middle], abs=1e-12)
