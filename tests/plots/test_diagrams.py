"""The diagrams show the numbers of the state, on the axes given, in every file format."""

import subprocess
import sys
import threading
from io import BytesIO

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.image import imread

from calibrant import InputError, MissingExtraError, Predictions
from calibrant.charts.chart import spaced
from calibrant.charts.curve import class_curve, reliability_curve
from calibrant.metrics import (
    CalibrationState,
    Confidences,
    accumulate,
    accuracy,
    confidences,
    mean_confidence,
)
from calibrant.plots import (
    Point,
    classwise_grid,
    confidence_histogram,
    reliability_diagram,
    risk_coverage,
    trade_off,
)

DIAGRAMS = {
    "reliability": lambda p, **kw: reliability_diagram(accumulate(p), **kw),
    "histogram": lambda p, **kw: confidence_histogram(accumulate(p), **kw),
    "risk": lambda p, **kw: risk_coverage(confidences(p), **kw),
}
one = Predictions.from_probabilities([[0.9, 0.1]], [0])


def bars(ax: Axes) -> dict[str, BarContainer]:
    return {c.get_label(): c for c in ax.containers if isinstance(c, BarContainer)}


def heights(container: BarContainer) -> list[float]:
    return [patch.get_height() for patch in container]


def image_of(figure: Figure) -> np.ndarray:
    file = BytesIO()
    figure.savefig(file, format="png")
    file.seek(0)
    return imread(file)


def test_reliability_bars_are_the_numbers_of_the_state(overconfident):
    state = accumulate(overconfident)
    curve = reliability_curve(state)
    ax = reliability_diagram(state)
    drawn = bars(ax)
    b = curve.filled
    np.testing.assert_allclose(heights(drawn["Accuracy"]), curve.accuracy[b])
    over, under = b[curve.gap[b] > 0], b[curve.gap[b] <= 0]
    assert len(over) > 5
    np.testing.assert_allclose(heights(drawn["Overconfident"]), curve.gap[over])
    assert not len(under)  # Then the legend does not name them either.
    assert "Underconfident" not in drawn
    tops = [patch.get_y() + patch.get_height() for patch in drawn["Overconfident"]]
    np.testing.assert_allclose(tops, curve.confidence[over])
    whiskers = ax.lines[0].get_ydata().reshape(-1, 3)
    np.testing.assert_allclose(whiskers[:, :2], np.stack([curve.low, curve.high], 1)[b])
    assert np.isnan(whiskers[:, 2]).all()
    assert ax.texts[-1].get_text().startswith("ECE 0.2")
    assert sum(patch.get_width() > 0 for patch in drawn["Accuracy"]) == len(b)


def test_reliability_counts_and_legend_name_what_is_there(overconfident):
    state = accumulate(overconfident, bins=10)
    texts = [t.get_text() for t in reliability_diagram(state).texts[:-1]]
    assert len(texts) == len(reliability_curve(state).filled)
    legend = reliability_diagram(accumulate(one), level=0.9).get_legend()
    entries = [t.get_text() for t in legend.get_texts()]
    assert entries == ["Accuracy", "Underconfident", "90 % interval", "Perfect"]
    assert reliability_diagram(state, legend=False).get_legend() is None
    assert len(reliability_diagram(state, counts=False).texts) == 1


def test_histogram_draws_shares_mean_confidence_and_accuracy(overconfident):
    state = accumulate(overconfident)
    ax = confidence_histogram(state)
    container = ax.containers[0]
    np.testing.assert_allclose(heights(container), 100 * state.top_count / state.n)
    assert sum(heights(container)) == pytest.approx(100)
    lines = [line.get_xdata()[0] for line in ax.lines]
    np.testing.assert_allclose(lines, [accuracy(state), mean_confidence(state)])


def test_classwise_grid_draws_the_worst_classes_with_their_names(overconfident):
    state = accumulate(overconfident)
    names = [f"${k}_" for k in range(10)]  # TeX would choke on these.
    figure = classwise_grid(state, names, most=4, columns=2)
    assert len(figure.axes) == 4
    for ax in figure.axes:
        curve = class_curve(state, names.index(ax.get_title(loc="left")))
        np.testing.assert_allclose(
            heights(ax.containers[0]), curve.accuracy[curve.filled], atol=1e-12
        )
    assert image_of(figure).std() > 0.05
    with pytest.raises(InputError, match="expects 10 label names, got 2"):
        classwise_grid(state, ["a", "b"])


def test_risk_coverage_draws_the_curve_and_the_error():
    ax = risk_coverage(Confidences([0.9, 0.8, 0.7, 0.6], [True, True, False, True]))
    ideal, error, by_confidence = ax.lines
    np.testing.assert_allclose(by_confidence.get_xdata(), [25, 50, 75, 100])
    np.testing.assert_allclose(by_confidence.get_ydata(), [0, 0, 100 / 3, 25])
    assert error.get_ydata()[0] == 25
    assert ideal.get_ydata()[-1] == pytest.approx(25)
    assert max(ideal.get_ydata()[ideal.get_xdata() <= 75]) == 0


@pytest.mark.parametrize("draw", DIAGRAMS.values(), ids=DIAGRAMS)
def test_axes_given_are_drawn_on_and_returned(draw, overconfident):
    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert draw(overconfident, ax=left, title="On the left") is left
    assert left.get_title(loc="left") == "On the left"
    assert left.lines
    assert not right.lines
    assert figure.axes == [left, right]


@pytest.mark.parametrize("draw", DIAGRAMS.values(), ids=DIAGRAMS)
@pytest.mark.parametrize("n", [0, 1])
def test_one_example_and_none(draw, n):
    ax = draw(one[:n])
    assert image_of(ax.figure).std() > 0.01
    assert any(t.get_text() == "no examples" for t in ax.texts) == (n == 0)


def test_classwise_grid_of_one_example_and_none():
    assert len(classwise_grid(accumulate(one)).axes) == 1
    (ax,) = classwise_grid(CalibrationState.empty(3)).axes
    assert ax.texts[0].get_text() == "no examples"


@pytest.mark.parametrize(
    ("suffix", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_files_are_valid(overconfident, tmp_path, suffix, magic):
    state = accumulate(overconfident)
    figures = [draw(overconfident).figure for draw in DIAGRAMS.values()] + [classwise_grid(state)]
    for number, figure in enumerate(figures):
        path = tmp_path / f"{number}.{suffix}"
        figure.savefig(path)
        content = path.read_bytes()
        assert content.startswith(magic)
        assert len(content) > 3000


def test_many_bins_draw_without_a_crowd_of_numbers(overconfident):
    state = accumulate(overconfident, bins=100)
    assert len(reliability_diagram(state).texts) == 1


def test_threads_draw_what_one_alone_draws(overconfident):
    state = accumulate(overconfident)
    expected = image_of(reliability_diagram(state).figure)
    images: list[np.ndarray] = []
    draw = [
        threading.Thread(target=lambda: images.append(image_of(reliability_diagram(state).figure)))
        for _ in range(4)
    ]
    for thread in draw:
        thread.start()
    for thread in draw:
        thread.join()
    assert len(images) == 4
    for image in images:
        np.testing.assert_array_equal(image, expected)


def test_drawing_leaves_pyplot_alone_and_importing_leaves_matplotlib_alone():
    code = (
        "import sys, calibrant.plots as p, calibrant.metrics as m\n"
        "assert 'matplotlib' not in sys.modules\n"
        "ax = p.reliability_diagram(m.CalibrationState.empty(2)); ax.figure.canvas.draw()\n"
        "assert 'matplotlib.figure' in sys.modules and 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'calibrant\[plots\]'"):
        reliability_diagram(accumulate(one))


def test_trade_off_draws_every_point_with_its_label_and_interval():
    points = [
        Point("one", 0.02, 0.8, 0.01, 0.05),
        Point("$two", 0.03, 0.8),
        Point("three", 0.0, 0.9),
    ]
    ax = trade_off(points, title="Trade-off")
    dots = [line.get_xydata()[0].tolist() for line in ax.lines if line.get_marker() == "o"]
    np.testing.assert_allclose(dots, [[2, 80], [3, 80], [0, 90]])
    labels = {text.get_text(): text for text in ax.texts}
    assert set(labels) == {"one", "$two", "three"}
    np.testing.assert_allclose(labels["$two"].xy, (3, 80))
    heights = sorted(text.get_position()[1] for text in ax.texts)
    assert np.diff(heights).min() > 0.03
    np.testing.assert_allclose(ax.containers[0].lines[2][0].get_segments(), [[[1, 80], [3, 80]]])
    assert ax.get_xlim()[0] >= 0
    assert image_of(ax.get_figure()).std() > 0


def test_trade_off_of_nothing_and_of_no_number():
    assert trade_off([]).texts[0].get_text() == "no values"
    with pytest.raises(InputError, match=r"cannot draw 'bad': ECE nan, F1 0\.8"):
        trade_off([Point("bad", float("nan"), 0.8)])


def test_labels_are_spaced_and_stay_inside():
    assert spaced([], 0.1) == []
    np.testing.assert_allclose(spaced([0.5, 0.5, 0.5], 0.1), [0.5, 0.6, 0.7])
    np.testing.assert_allclose(spaced([0.9, 0.95, 1.0], 0.2), [0.6, 0.8, 1.0])
