"""An audit of more examples than are sorted: ranks come from a sketch, and the words say so."""

import numpy as np
import pytest

from calibrant import Claims
from calibrant.auditing import audit
from calibrant.metrics import METRICS


def test_ranks_of_more_than_a_million_examples_come_from_a_sketch() -> None:
    """One example more makes the difference between sorting and a sketch, and no other."""
    rng = np.random.default_rng(0)
    c = rng.uniform(0.3, 1, 1_000_001)
    claims = Claims.from_top_label(None, c, correct=rng.random(len(c)) < c**1.5)
    exact, sketched = (audit(claims[:n], bootstrap=0) for n in (1_000_000, 1_000_001))
    for measure in exact.measures:
        ranked = METRICS[measure.name].source == ("confidences",)
        assert ("From a sketch" in sketched[measure.name].meaning) == ranked
        within = 1e-3 if ranked else 1e-5
        assert sketched[measure.name].value == pytest.approx(measure.value, abs=within)
    assert sketched.at_risk[-1].coverage == pytest.approx(exact.at_risk[-1].coverage, abs=1e-3)
