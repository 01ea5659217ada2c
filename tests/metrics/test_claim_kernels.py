"""The compiled passes over claims equal NumPy's: counts to the bit, sums to float64 rounding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from calibrant import Claims, audit
from calibrant.auditing.collect import Collector
from calibrant.auditing.groups import LabelSums
from calibrant.metrics import (
    Bins,
    CalibrationState,
    Confidences,
    ConfidenceSketch,
    accumulate,
    assign_blocks,
    kernel_dispatch,
)
from calibrant.metrics.confidences import confidences
from calibrant.metrics.sketch import Sketched

pytest.importorskip("numba")

EDGES = [0.0, 1.0, 0.2, 0.4, 0.6, 0.8, 1 - 2**-24, 1 - 2**-53, 5e-324, 1e-200, -1e-7, 1 + 1e-7]


def drawn(rows: int, dtype: type = np.float64, *, truth: bool = False) -> Claims:
    """Claims of random confidences with all edges among them."""
    random = np.random.default_rng(rows)
    confidence = random.random(rows)
    confidence[: len(EDGES)] = EDGES[:rows]
    about = random.integers(0, 7, rows)
    labels = np.where(random.random(rows) < confidence, about, (about + 1) % 9)
    if truth:
        return Claims.from_top_label(about, confidence.astype(dtype), labels)
    return Claims.from_top_label(about, confidence.astype(dtype), correct=labels == about)


def by_both(monkeypatch, work):
    """What NumPy gives, and what the kernels give."""
    monkeypatch.setenv("CALIBRANT_KERNELS", "numpy")
    reference = work()
    monkeypatch.setenv("CALIBRANT_KERNELS", "numba")
    return reference, work()


def assert_equal_states(reference: CalibrationState, ours: CalibrationState) -> None:
    for name in CalibrationState.SUMS:
        one, other = getattr(ours, name), getattr(reference, name)
        assert (one.shape, one.dtype) == (other.shape, other.dtype), name
        if one.dtype.kind == "i":
            np.testing.assert_array_equal(one, other, err_msg=name)
        else:
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("truth", [True, False])
@pytest.mark.parametrize("blocks", [1, 5])
def test_labels_of_32_bits_give_the_sums_of_64(truth, blocks):
    claims = drawn(5000, truth=truth)
    short = {
        name: None if codes is None else codes.astype(np.int32)
        for name, codes in (("about", claims.about), ("truth", claims.truth))
    }
    block = np.arange(5000) % 5 if blocks > 1 else None
    tables = []
    for given in (claims, replace(claims, **short)):
        sums = LabelSums(blocks)
        for _ in range(2):
            sums.add(given, block)
        tables.append(sums._tables)
    np.testing.assert_array_equal(*tables)


@pytest.mark.parametrize("closed", ["right", "left"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("rows", [0, 1, 13, 255, 256, 257, 4097])
def test_states(monkeypatch, rows, dtype, closed):
    claims, bins = drawn(rows, dtype), Bins(5, closed)
    assert_equal_states(*by_both(monkeypatch, lambda: accumulate(claims, bins)))
    block = np.arange(rows) % 3
    options = {"block": block, "blocks": 4}
    assert_equal_states(*by_both(monkeypatch, lambda: accumulate(claims, bins, **options)))


def test_a_certain_mistake_costs_infinitely_much(monkeypatch):
    claims = Claims.from_top_label(None, [1.0, 0.5], correct=[False, True])
    for state in by_both(monkeypatch, lambda: accumulate(claims)):
        assert state.nll == np.inf


def test_products_of_many_chances_do_not_underflow(monkeypatch):
    claims = Claims.from_top_label(None, np.full(5000, 1e-9), correct=np.ones(5000, bool))
    reference, ours = by_both(monkeypatch, lambda: accumulate(claims))
    assert ours.nll == pytest.approx(reference.nll, rel=1e-12)
    assert ours.nll == pytest.approx(5000 * 9 * np.log(10), rel=1e-12)


@pytest.mark.parametrize("start", [0, 7, 10**12])
@pytest.mark.parametrize("blocks", [1, 10, 1000])
def test_blocks_of_rows(monkeypatch, start, blocks):
    claims = drawn(3000)
    work = lambda: assign_blocks(claims, None, blocks, start=start)  # noqa: E731
    np.testing.assert_array_equal(*by_both(monkeypatch, work))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("rows", [1, 255, 256, 257, 4999])
def test_sketches(monkeypatch, rows, dtype):
    claims = drawn(5000, dtype)[:rows]
    claims = claims[(claims.confidence >= 0) & (claims.confidence <= 1)]
    reference, ours = by_both(monkeypatch, lambda: ConfidenceSketch.of(confidences(claims)))
    np.testing.assert_array_equal(ours.count, reference.count)
    np.testing.assert_array_equal(ours.correct, reference.correct)
    np.testing.assert_allclose(ours.confidence, reference.confidence, rtol=1e-12)


def test_every_confidence_has_the_bin_of_its_log_odds(monkeypatch):
    """The compiled pass has a logarithm of its own; bins lie close to 0, to 1 and around ½."""
    random = np.random.default_rng(0)
    near = np.exp(-40 * random.random(30_000))
    apart = near[near > 1e-13]  # At ½ ± 1e-15 the rounding of a logarithm decides on the side.
    ends = [1 - 2.0**-47, 1 - 2.0**-46, 0.5, 2**-53, 1e-300, 0.0, 1.0]
    c = np.concatenate([near, 1 - near, random.random(30_000), 0.5 + apart, 0.5 - apart, ends])
    state = Confidences(c[(c >= 0) & (c <= 1)], np.ones(((c >= 0) & (c <= 1)).sum(), bool))
    reference, ours = by_both(monkeypatch, lambda: ConfidenceSketch.of(state))
    np.testing.assert_array_equal(ours.count, reference.count)


@pytest.mark.parametrize("kernels", ["numpy", "numba"])
def test_a_long_stream_may_hold_confidences_that_rounding_puts_above_1(monkeypatch, kernels):
    """A float16 softmax gives 1.001; the first rows are kept, the others go to the sketch."""
    monkeypatch.setenv("CALIBRANT_KERNELS", kernels)
    part = Claims.from_top_label(None, np.array([1.0, 1.001, 0.5], np.float16), correct=[1, 1, 0])
    kept = Sketched(most=3)
    collector = Collector(Bins(5), sample=kept)
    for _ in range(3):
        collector.add(part)
    assert kept.take().count[-1] == 6
    assert kept.held == len(kept.take()) == 9


@pytest.mark.parametrize("truth", [True, False])
def test_sums_of_labels(monkeypatch, truth):
    claims = drawn(5000, np.float32, truth=truth)
    block = assign_blocks(claims, None, 50)

    def work() -> CalibrationState:
        sums = LabelSums(50)
        for rows in (slice(0, 1), slice(1, 4000), slice(4000, None)):
            sums.add(claims[rows], block[rows])
        return sums.into(accumulate(claims, block=block, blocks=50))

    assert_equal_states(*by_both(monkeypatch, work))


@pytest.mark.parametrize("rows", [1, 99, 100, 101, 12_345])
def test_an_audit_is_the_same(monkeypatch, rows):
    claims = drawn(12_345, truth=True)[20:]  # Without a certain mistake.

    def work() -> list[tuple[str, float, float | None]]:
        found = audit(claims.chunks(rows) if rows > 1 else claims, bootstrap=50)
        return [(m.name, m.value, m.low) for m in found.measures]

    reference, ours = by_both(monkeypatch, work)
    assert [m[0] for m in reference] == [m[0] for m in ours]
    for (_, *one), (_, *other) in zip(ours, reference, strict=True):
        numbers = [number for number in one if number is not None]
        others = [number for number in other if number is not None]  # Some have no interval.
        assert numbers == pytest.approx(others, rel=1e-10, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("kernels", ["numpy", "numba"])
def test_an_audit_without_intervals_needs_no_blocks(monkeypatch, kernels):
    """Its numbers are those of an audit with intervals, also where columns name subgroups."""
    monkeypatch.setenv("CALIBRANT_KERNELS", kernels)
    claims = drawn(3000, truth=True)[20:]
    site = np.where(np.arange(len(claims)) % 3 == 0, "A", "B")
    claims = replace(claims, groups={"site": site})
    few, many = (audit(claims.chunks(700), bootstrap=b, per="site") for b in (0, 50))
    for one, other in zip(few.measures, many.measures, strict=True):
        assert one.name == other.name
        assert one.value == pytest.approx(other.value, rel=1e-12, nan_ok=True)
    assert few.findings == many.findings
    assert few.mistakes == many.mistakes
    for one, other in zip(few.per[0].rows, many.per[0].rows, strict=True):
        assert (one.name, one.n, one.ece) == (other.name, other.n, pytest.approx(other.ece))
        assert one.p_value == pytest.approx(other.p_value)


def test_a_second_pass_over_the_same_rows_does_not_load_the_kernels(monkeypatch):
    """Loading numba takes longer than an audit of a million rows by NumPy."""
    monkeypatch.setenv("CALIBRANT_KERNELS", "auto")
    monkeypatch.setattr(kernel_dispatch, "_seen", 0)
    rows = kernel_dispatch._WORTH_LOADING
    assert kernel_dispatch.claim_kernels(rows, again=True) is None
    assert kernel_dispatch._seen == 0
    assert kernel_dispatch.claim_kernels(rows) is not None
    assert kernel_dispatch.claim_kernels(rows, again=True) is not None
