"""Every chart is drawn by both renderers, also at its edges; a new chart is found automatically."""

import inspect
import math
import pkgutil
import re
from html.parser import HTMLParser
from importlib import import_module, resources
from itertools import pairwise
from typing import get_args

import numpy as np
import pytest

import calibrant.charts
from calibrant import Predictions
from calibrant.charts.chart import Bars, Chart, Curve, Dots, Line, Mark, Place, Texts
from calibrant.charts.comparison import curve_chart
from calibrant.charts.curve import thinned_curve
from calibrant.metrics import accumulate
from calibrant.report import svg

drawing = pytest.importorskip("calibrant.plots.drawing")
styles = pytest.importorskip("calibrant.plots.styles")
pytest.importorskip("matplotlib")


def random_predictions(n, classes, stretch):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, n)
    return Predictions.from_logits(
        stretch * (rng.normal(size=(n, classes)) + 2 * np.eye(classes)[labels]), labels
    )


SOURCES = {
    "overconfident": random_predictions(500, 10, 4.5),
    "underconfident": random_predictions(500, 10, 0.5),
    "one": Predictions.from_probabilities([[0.9, 0.1]], [0]),
    "wrong": Predictions.from_probabilities([[0.9, 0.1]], [1]),
    "certain": Predictions.from_probabilities([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], [0, 0, 0]),
    "uniform": Predictions.from_probabilities(np.full((4, 4), 0.25), [0, 1, 2, 3]),
}
STATES = {name: accumulate(source) for name, source in SOURCES.items()}
EMPTY = {"none": accumulate(SOURCES["one"][:0])}
POINTS = [Curve(f"$m{n} <b>", (Place(n / 100, n / 50, 0.01, math.nan),)) for n in range(3)]
LINES = [
    Curve(f"method {n}", tuple(Place(x, n + x, math.nan, 0.5) for x in (1, 2, 5))) for n in range(9)
]

# Chart → what it is made of, by name.
SAMPLES = {
    "reliability_chart": {name: (state,) for name, state in (STATES | EMPTY).items()}
    | {"many bins": (accumulate(SOURCES["overconfident"], bins=100),)},
    "class_chart": {name: (state, 0) for name, state in STATES.items()},
    "histogram_chart": {name: (state,) for name, state in (STATES | EMPTY).items()},
    "risk_chart": {
        name: (thinned_curve(source),)
        for name, source in (SOURCES | {"none": SOURCES["one"][:0]}).items()
    },
    "image_error_chart": {"some": ([0.1, 0.2, 0.35],), "zero": ([0.0],), "none": ([],)},
    "curve_chart": {
        "points": (POINTS, "ECE", "F1"),
        "lines": (LINES[:3], "Depth", "ECE"),
        "many lines": (LINES, "Depth", "ECE"),
        "without places": ([Curve("a", ())], "x", "y"),
        "one point": ([Curve("a", (Place(1.0, 0.0),))], "x", "y"),
    },
    "stream_chart": {
        "some": (["1", "2"], [(0.9, 0.8, 0.95), (0.85, 0.8, 0.9)]),
        "one without interval": (["2024-05-01"], [(0.9, np.nan, np.nan)]),
        "none": (["1"], [(np.nan, np.nan, np.nan)]),
    },
    "rank_chart": {
        "four": ({"$a": 1.0, "b <b>": 2.5, "c": 2.5, "d" * 70: 4.0}, 1.2),
        "one": ({"a": 1.0}, 0.5),
        "none": ({}, 1.0),
    },
}


def chart_functions():
    """Every function of the package that is named as a chart."""
    modules = [
        import_module(f"calibrant.charts.{module.name}")
        for module in pkgutil.iter_modules(calibrant.charts.__path__)
    ]
    return {
        name: function
        for module in modules
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if name.endswith("_chart")
    }


CASES = [
    pytest.param(chart_functions()[name], arguments, id=f"{name}-{sample}")
    for name, samples in SAMPLES.items()
    for sample, arguments in samples.items()
]


def test_every_chart_has_samples():
    assert set(chart_functions()) == set(SAMPLES)


def test_every_mark_and_shape_is_known_to_both_renderers():
    assert set(get_args(Mark)) == set(drawing.DRAWERS) == set(svg.DRAWERS)
    assert set(drawing.SIZES) == set(svg.SIZES)


class DrawnTexts(HTMLParser):
    """The texts of a drawing with their attributes."""

    def __init__(self, page):
        super().__init__()
        self.texts, self.open, self.tips = [], None, []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.open = dict(attributes) if tag == "text" else None
        if "data-tip" in dict(attributes):
            self.tips.append(dict(attributes)["data-tip"])

    def handle_data(self, data):
        if self.open is not None:
            self.texts.append((self.open, data))
            self.open = None


@pytest.mark.parametrize(("make", "arguments"), CASES)
def test_both_renderers_draw_it(make, arguments):
    chart = make(*arguments)
    assert isinstance(chart, Chart)
    assert chart.description or chart.empty
    page = svg.draw_svg(chart, "A <label>")
    assert not re.search(r"\bnan\b|\binf\b|<b>|<label>", page.replace("&lt;", ""))
    width, height = map(float, re.search(r'viewBox="0 0 (\S+) (\S+)"', page).groups())
    for place, words in DrawnTexts(page).texts:
        if "x" not in place:
            continue  # The turned name of the y axis.
        anchor = {"mid": 0.5, "end": 1.0}.get(place["class"].split()[-1], 0.0)
        letters = 5.2 * len(words)
        left = float(place["x"]) - anchor * letters
        assert -2 <= left <= left + letters <= width + 2, words
        assert 6 <= float(place["y"]) <= height, words
    ax = drawing.draw_chart(chart)
    ax.figure.draw_without_rendering()
    frame = ax.figure.bbox
    texts = [*ax.texts, *ax.get_xticklabels(), *ax.get_yticklabels(), ax.xaxis.label]
    for text in texts:
        box = text.get_window_extent()
        if text.get_text():
            assert frame.x0 - 2 <= box.x0 <= box.x1 <= frame.x1 + 2, text.get_text()
            assert frame.y0 - 2 <= box.y0 <= box.y1 <= frame.y1 + 2, text.get_text()
    assert ax.get_xlim() == (chart.x.low, chart.x.high)
    assert ax.get_ylim() == (chart.y.low, chart.y.high)


@pytest.mark.parametrize(("make", "arguments"), CASES)
def test_every_role_has_a_look_in_both(make, arguments):
    chart = make(*arguments)
    css = resources.files("calibrant.report").joinpath("style.css").read_text("utf-8")
    shapes = {Bars: "rect", Line: "path", Dots: "circle", Texts: "svg "}
    for mark in chart.marks:
        if type(mark) in shapes:
            first, *others = mark.role.split()
            assert mark.role in styles.STYLES
            for name in others or [first]:
                assert re.search(rf"{shapes[type(mark)]}[\w.-]*\.{name}\b", css), mark.role
    for role, _ in chart.keys:
        assert any(getattr(mark, "role", None) == role for mark in chart.marks)
        assert re.search(rf"\.swatch[^{{]*\.{role.split()[0]}\b", css), role


def test_tips_are_where_the_values_are():
    """Every bin, method and image shows its numbers on hover; a chart of nothing has no tips."""
    for name, samples in SAMPLES.items():
        for sample, arguments in samples.items():
            chart = chart_functions()[name](*arguments)
            tips = DrawnTexts(svg.draw_svg(chart, "x")).tips
            assert tips or chart.empty, (name, sample)


def test_names_of_curves_are_written_in_full():
    ends = ["margin_smoothing (class mean true, margin 0)", f"{'a' * 60} 0.1", f"{'a' * 60} 0.2"]
    lines = tuple(Curve(name, (Place(0.0, n), Place(1.0, n))) for n, name in enumerate(ends))
    page = svg.draw_svg(curve_chart(lines, "x", "y"), "F")
    names = re.findall(r'<text x="([\d.]+)"[^>]*class="name[^>]*>([^<]*)<', page)
    assert len({name for _, name in names}) == 3
    assert ends[0] in {name for _, name in names}
    assert [name[-3:] for _, name in names[-2:]] == ["0.1", "0.2"]
    width = float(re.search(r'viewBox="0 0 ([\d.]+)', page)[1])
    assert all(float(x) + 6 * len(name) <= width for x, name in names)


def test_a_long_legend_fits_the_picture():
    curves = tuple(Curve(f"method {n}", (Place(n, n),)) for n in range(40))
    drawn = drawing.draw_charts([curve_chart(curves, "x", "y")], "T")
    (legend,) = drawn.legends
    box = legend.get_window_extent()
    assert len(legend.get_texts()) == 40
    assert 0 <= box.y0 < box.y1 <= drawn.bbox.height


def test_many_methods_stay_apart():
    def panel(count, places):
        lines = [
            Curve(f"m{n}", tuple(Place(x, n + x, math.nan, 0.5) for x in range(places)))
            for n in range(count)
        ]
        return curve_chart(lines, "x", "y")

    few, many = svg.draw_svg(panel(5, 3), "F"), svg.draw_svg(panel(23, 3), "F")
    assert few.count('class="whisker') == 15
    assert many.count('class="whisker') == 0  # They would cover each other.
    assert few.count('class="leader"') == 5
    assert many.count('class="leader"') == 0
    looks = re.findall(r'<path d="M[\d.,]+(m[^"]*)" class="key (s\d)"', many)
    assert len(set(looks)) == len(looks) == 23  # Colours repeat with another shape.
    heights = sorted(float(y) for y in re.findall(r'y="([\d.]+)" class="name', many))
    assert min(b - a for a, b in pairwise(heights)) > 12
    assert [curve.aside for curve in panel(5, 3).curves] == [-2, -1, 0, 1, 2]
    assert {curve.aside for chart in (panel(23, 3), panel(5, 1)) for curve in chart.curves} == {0}
