"""Lines of methods, and their ranks."""

import itertools
import math

import pytest

from calibrant import InputError
from calibrant.charts.comparison import rank_chart
from calibrant.plots import Series, series_diagram
from calibrant.plots.drawing import draw_chart
from calibrant.plots.styles import COLOURS, curve_style

pytest.importorskip("matplotlib")


def test_lines_lie_where_their_values_are():
    lines = [
        Series("focal", [1, 2, 3], [0.1, 0.2, 0.3], [0.01, math.nan, 0.02]),
        Series("mixup", [1, 3], [0.3, 0.1], [math.nan, math.nan]),
    ]
    ax = series_diagram(lines, x_label="Depth", y_label="ECE", title="T")
    drawn = [line for line in ax.lines if line.get_marker() == "o"]
    assert [list(line.get_ydata()) for line in drawn] == [[0.1, 0.2, 0.3], [0.3, 0.1]]
    assert [line.get_color() for line in drawn] == list(COLOURS[:2])
    assert {text.get_text() for text in ax.texts} == {"focal", "mixup"}
    assert list(ax.get_xticks()) == [1, 2, 3]
    whisker = ax.containers[0].lines[2][1].get_segments()[0]
    assert whisker[:, 1].tolist() == pytest.approx([0.09, 0.11])


def test_names_at_the_same_height_are_moved_apart():
    lines = [Series(str(k), [0, 1], [0.5, 0.5], [math.nan] * 2) for k in range(6)]
    ax = series_diagram(lines, x_label="x", y_label="y", logarithmic=False)
    heights = sorted(text.xyann[1] for text in ax.texts)
    assert min(b - a for a, b in itertools.pairwise(heights)) > 0.02


def test_a_logarithmic_axis():
    line = Series("a", [0.001, 10.0], [1.0, 2.0], [0.1, 0.1])
    assert series_diagram([line], x_label="λ", y_label="y", logarithmic=True).get_xscale() == "log"


def test_nothing_and_what_cannot_be_drawn():
    ax = series_diagram([Series("a", [], [], [])], x_label="x", y_label="y")
    assert [text.get_text() for text in ax.texts] == ["no values"]
    with pytest.raises(InputError, match="'a': a logarithmic axis needs values above 0, got 0"):
        series_diagram(
            [Series("a", [0, 1], [1, 2], [0, 0])], x_label="x", y_label="y", logarithmic=True
        )
    with pytest.raises(InputError, match="'a': a value is not finite"):
        series_diagram([Series("a", [1.0], [math.nan], [0.0])], x_label="x", y_label="y")


def test_styles_repeat_with_other_dashes():
    styles = [tuple(curve_style(number).values()) for number in range(4 * len(COLOURS))]
    assert len(set(styles)) == len(styles)


def test_ranks_with_the_best_on_top():
    ax = draw_chart(rank_chart({"b": 2.5, "a": 1.5, "c": 2.0}, 0.7))
    assert [label.get_text() for label in ax.get_yticklabels()] == ["b", "c", "a"]
    assert list(ax.lines[0].get_xdata()) == [2.5, 2.0, 1.5]
    band = ax.patches[0]
    assert (band.get_x(), band.get_width()) == pytest.approx((1.5, 0.7))
    assert [text.get_text() for text in draw_chart(rank_chart({}, 1.0)).texts] == ["no methods"]
