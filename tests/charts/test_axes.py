"""Axes: round ticks inside, also of equal, tiny and huge values."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.charts.axes import fit_axis, round_steps, value_axis


def test_an_axis_of_ratios():
    axis = fit_axis("x", [0.02, 0.05, 0.2], [0.01, 0.3, math.nan], logarithmic=True)
    assert [words for _, words in axis.ticks] == ["0.02", "0.05", "0.2"]
    assert axis(0.05) - axis(0.02) == pytest.approx(axis(0.125) - axis(0.05))
    assert axis(-0.25) == 0  # The end of an interval, where there is no logarithm.
    assert axis.low < 0.02
    assert axis.high > 0.2
    many = fit_axis("x", [0.011 * 1.2**n for n in range(20)], [math.nan] * 20, logarithmic=True)
    assert [words for _, words in many.ticks] == ["0.01", "0.02", "0.05", "0.1", "0.2"]
    uneven = fit_axis("x", [0.0313, 0.1412], [math.nan] * 2, logarithmic=True)
    assert [words for _, words in uneven.ticks] == ["0.05", "0.1"]


def test_one_wide_interval_does_not_hide_the_points():
    values, halves = [0.50, 0.51, 0.52, 0.40], [0.01, 0.01, 0.01, 5.0]
    axis = fit_axis("x", values, halves)
    assert 0.3 < axis.low < 0.4
    assert 0.53 < axis.high < 0.6


@given(st.floats(-100, 100), st.floats(1e-3, 1000))
def test_steps_are_round_and_inside(low, width):
    steps = round_steps(low, low + width)
    assert 2 <= len(steps) <= 11
    assert all(low - 1e-6 <= step <= low + width + 1e-6 for step in steps)


@given(st.floats(1e-5, 1e3))
def test_an_axis_from_zero_has_few_ticks_and_reaches_the_largest(largest):
    axis = value_axis("ECE", largest)
    values = [value for value, _ in axis.ticks]
    assert values[0] == 0
    assert values[-1] == axis.high >= largest * (1 - 1e-6)
    assert 3 <= len(values) <= 7


@given(st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=5), st.booleans())
def test_any_values_have_an_axis(values, at_values):
    axis = fit_axis("x", values, at_values=at_values)
    assert axis.low < axis.high
    assert all(axis.low <= value <= axis.high for value in values)
    ticks = [value for value, _ in axis.ticks]
    assert ticks == sorted(set(ticks))
    assert ticks
    assert all(0 <= axis(value) <= 1 for value in values)


@pytest.mark.parametrize(
    "values", [[0.0], [1e-300], [0.0, 1e-11], [1.0, 1.0 + 2e-16], [1e17, 1e17]]
)
def test_values_that_are_nearly_equal_have_an_axis(values):
    axis = fit_axis("x", values)
    assert axis.low <= min(values) <= max(values) < axis.high
    assert len(axis.ticks) > 1


def test_ticks_stand_at_the_values_where_these_are_few_and_apart():
    assert [words for _, words in fit_axis("x", [1, 2, 6], at_values=True).ticks] == ["1", "2", "6"]
    close = fit_axis("x", [1, 1.01, 10], at_values=True)
    assert min(b - a for (a, _), (b, _) in pairwise(close.ticks)) >= 1
    many = fit_axis("x", list(range(30)), at_values=True)
    assert len(many.ticks) < 10
    assert many.low < 0  # Lines move aside at 0 too.


def test_an_axis_of_shares_begins_at_0():
    assert fit_axis("ECE", [0.0, 0.01], [0.01, 0.01]).low == 0
    assert fit_axis("ECE", [0.5, 0.6]).low > 0.4
    assert fit_axis("gap", [-0.1, 0.1]).low < -0.1
