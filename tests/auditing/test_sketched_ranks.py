"""An audit of more examples than are sorted: ranks come from a sketch, and the words say so."""

import numpy as np
import pytest

from calibrant import Claims
from calibrant.auditing import audit
from calibrant.metrics import METRICS, Confidences, ConfidenceSketch, aurc, e_aurc
from calibrant.metrics.sketch import Sketched


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


def test_a_smaller_sample_is_sorted() -> None:
    claims = Claims.from_top_label(None, np.linspace(0, 1, 3000), correct=np.ones(3000, bool))
    found = audit(claims, bootstrap=0, sample=1000)
    assert "From a sample of" in found["aurc"].meaning
    assert "From a sample of" not in audit(claims, bootstrap=0)["aurc"].meaning


def test_a_long_stream_keeps_no_confidences() -> None:
    parts = [
        Claims.from_top_label(None, np.full(300_000, 0.1 * k), correct=np.arange(300_000) < k)
        for k in range(1, 8)
    ]
    found = audit(iter(parts), bootstrap=0)
    assert isinstance(found.confidences, ConfidenceSketch)
    assert len(found.confidences) == 2_100_000
    whole = ConfidenceSketch.of(
        Confidences(
            *(np.concatenate([getattr(p, n) for p in parts]) for n in ("confidence", "correct"))
        )
    )
    assert found["aurc"].value == pytest.approx(aurc(whole))
    assert found.confidences.count.tolist() == whole.count.tolist()


@pytest.mark.parametrize("sizes", [(2, 3), (5, 1), (9, 9), (1, 9), (9, 1), (0, 5)])
def test_parts_of_any_size_merge_to_the_whole(sizes: tuple[int, int]) -> None:
    """At most six are kept as they are; more are in a sketch, in both orders of merging."""
    random = np.random.default_rng(1)
    parts = [Confidences(random.random(n), random.random(n) < 0.5) for n in sizes]
    for order in (parts, parts[::-1]):
        held = [Sketched(most=6) for _ in order]
        for sketched, part in zip(held, order, strict=True):
            if len(part):
                sketched.add(part)
        held[0].merge(held[1])
        found, whole = held[0].take(), Confidences.concatenate(order)
        if sum(sizes) <= 6:
            assert isinstance(found, Confidences)
            assert sorted(found.confidence) == sorted(whole.confidence)
        else:
            assert isinstance(found, ConfidenceSketch)
            assert found.count.tolist() == ConfidenceSketch.of(whole).count.tolist()


@pytest.mark.parametrize(("right", "wrong"), [(0, 9), (3, 40_000), (20_000, 3), (200_000, 50_000)])
def test_the_best_ranking_of_many_examples(right: int, wrong: int) -> None:
    """The closed form of a long sum of inverses agrees with the sum."""
    confidence = np.append(np.full(right, 0.4), np.full(wrong, 0.6))
    c = Confidences(confidence, np.arange(right + wrong) < right)
    n, i = right + wrong, np.arange(right + 1, right + wrong + 1)
    best = np.sum((i - right) / i) / n
    worst = (wrong + right * wrong / n) / n
    assert e_aurc(c) == pytest.approx(worst - best, rel=1e-12)
