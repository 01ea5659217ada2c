"""Score and ECE against the strength of corruptions."""

import math

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from calibrant.plots import shift_diagram


def numbers(accuracy, ece):
    return {"accuracy": accuracy, "ece": ece}


def results(**shift):
    part = {"test": numbers(0.9, 0.05), "shift": shift}
    cooled = {"test": numbers(0.9, 0.02), "shift": {n: numbers(0.5, 0.1) for n in shift}}
    return {"identity": part, "temperature": cooled}


def curves(ax):
    return [line.get_xydata().tolist() for line in ax.lines if line.get_marker() != "None"]


def test_every_kind_is_a_line_from_the_test_as_it_is():
    found = results(
        **{
            "typos-5": numbers(0.5, 0.3),
            "typos-1": numbers(0.8, 0.1),
            "dropped-words-2": numbers(0.7, 0.2),
            "wnut17": numbers(0.3, 0.4),
        }
    )
    figure = shift_diagram(found, score_name="Accuracy")
    score, raw, cooled = figure.axes
    assert curves(score) == [[[0, 0.9], [1, 0.8], [5, 0.5]], [[0, 0.9], [2, 0.7]]]
    assert curves(raw) == [[[0, 0.05], [1, 0.1], [5, 0.3]], [[0, 0.05], [2, 0.2]]]
    assert curves(cooled) == [[[0, 0.02], [1, 0.1], [5, 0.1]], [[0, 0.02], [2, 0.1]]]
    assert raw.get_ylim() == cooled.get_ylim() == (0, 0.3)
    assert {text.get_text() for text in score.texts} == {"typos", "dropped-words"}
    figure.canvas.draw()
    assert np.asarray(figure.canvas.buffer_rgba()).std() > 0


def test_what_is_no_number_is_left_out():
    found = results(**{"typos-1": numbers(0.8, math.nan), "typos-2": numbers(0.7, 0.2)})
    _, raw, _ = shift_diagram(found).axes
    assert curves(raw) == [[[0, 0.05], [2, 0.2]]]


def test_nothing_to_draw():
    assert shift_diagram(results()).axes[0].texts[0].get_text() == "no values"


def test_the_map_that_is_asked_for():
    found = results(**{"typos-2": numbers(0.7, 0.2)})
    figure = shift_diagram({**found, "isotonic": found["identity"]}, mapped="isotonic")
    _, raw, mapped = figure.axes
    assert mapped.get_title(loc="left") == "ECE with isotonic"
    assert curves(mapped) == curves(raw)
