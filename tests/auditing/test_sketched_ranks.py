"""An audit of more examples than are sorted: ranks come from a sketch, and the words say so."""

import numpy as np
import pytest

import calibrant.auditing.run as run
from calibrant import Claims
from calibrant.auditing import audit
from calibrant.metrics import METRICS


def test_ranks_of_many_examples_come_from_a_sketch(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    c = rng.uniform(0.3, 1, 20_000)
    claims = Claims.from_top_label(None, c, correct=rng.random(20_000) < c**1.5)
    exact = audit(claims, bootstrap=0)
    monkeypatch.setattr(run, "_SORTED", 10_000)
    sketched = audit(claims, bootstrap=0)
    for measure in exact.measures:
        ranked = METRICS[measure.name].source == ("confidences",)
        assert ("From a sketch" in sketched[measure.name].meaning) == ranked
        within = 1e-3 if ranked else 1e-12
        assert sketched[measure.name].value == pytest.approx(measure.value, abs=within)
    assert sketched.at_risk[-1].coverage == pytest.approx(exact.at_risk[-1].coverage, abs=1e-3)
