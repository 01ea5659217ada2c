"""What notebooks and the prompt show of audits, comparisons, states and fitted calibrators."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calibrant import Predictions, Temperature, accumulate, audit, compare
from calibrant.calibrators import Isotonic
from calibrant.cli import main


def drawn(seed: int) -> Predictions:
    random = np.random.default_rng(seed)
    labels = random.integers(0, 3, 300)
    logits = 3 * (random.normal(size=(300, 3)) + np.eye(3)[labels])
    return Predictions.from_logits(logits, labels, label_names=["<b>", "b", "c"])


def test_tables_of_html_are_escaped() -> None:
    p = drawn(0)
    found = audit(p, bootstrap=0)
    compared = compare(p, drawn(1), ["temperature"], bootstrap=100)
    state = accumulate(p, block=np.zeros(300, int), blocks=2)
    for thing in (found, compared, state):
        html = thing._repr_html_()
        assert html.count("<table>") == html.count("</table>") == 1
        assert "<b>" not in html
    assert "temperature *" in compared._repr_html_()
    assert repr(state) == (
        "<CalibrationState of 300 examples, 3 classes, Bins(count=15, closed='right'), 2 states>"
    )


def test_a_fitted_map_shows_what_it_learned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    p = drawn(0)
    assert "temperature_=" in repr(Temperature().fit(p))
    assert "nodes_=array of shape" in Isotonic().fit(p).describe()
    p.write(tmp_path / "p.npz")
    assert main(["fit", str(tmp_path / "p.npz"), "-o", str(tmp_path / "m.json")]) == 0
    assert "Learned: temperature_=" in capsys.readouterr().out
