"""The compiled kernels equal the NumPy code: counts to the bit, sums to float64 rounding."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from calibrant import InputError, MissingExtraError, Predictions
from calibrant.metrics import Bins, CalibrationState, accumulate, kernel_dispatch, top_label
from calibrant.metrics.top_bins import TopBins, top_bins
from calibrant.validation import RANGE_TOLERANCE, SUM_TOLERANCE

pytest.importorskip("numba")


@pytest.fixture
def use(monkeypatch):
    """Choose numpy or numba for what follows."""
    return lambda choice: monkeypatch.setenv("CALIBRANT_KERNELS", choice)


def assert_equal(ours: CalibrationState, reference: CalibrationState) -> None:
    assert (ours.bins, ours.classes, ours.ignored) == (
        reference.bins,
        reference.classes,
        reference.ignored,
    )
    for name in CalibrationState.SUMS:
        one, other = getattr(ours, name), getattr(reference, name)
        assert one.shape == other.shape, name
        assert one.dtype == other.dtype, name
        if one.dtype.kind == "i":
            np.testing.assert_array_equal(one, other, err_msg=name)
        else:
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12, err_msg=name)


def both(use, predictions, *args, **options) -> CalibrationState:
    """The state by the kernel, after comparison with that by NumPy."""
    use("numpy")
    reference = accumulate(predictions, *args, **options)
    use("numba")
    ours = accumulate(predictions, *args, **options)
    assert_equal(ours, reference)
    if "block" not in options:
        bins = {name: value for name, value in options.items() if name != "classwise"}
        assert_equal_tops(top_bins(predictions, *args, **bins), reference)
        make = getattr(TopBins, f"from_{predictions.kind}")
        from_arrays = make(predictions.scores, predictions.labels, *args, **bins)
        assert_equal_tops(from_arrays, reference)
    return ours


def assert_equal_tops(ours: TopBins, reference: CalibrationState) -> None:
    """What ECE needs is found in another way; exponentials of float32 logits in float32."""
    for name in ("n", "correct", "top_count", "top_correct"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(reference, name), name)
    np.testing.assert_allclose(ours.top_confidence, reference.top_confidence, 3e-7, 1e-12)


def logits_and_labels(n, classes, seed=0, spread=3.0):
    generator = np.random.default_rng(seed)
    return generator.normal(size=(n, classes)) * spread, generator.integers(0, classes, n)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">f4"])
@pytest.mark.parametrize("classes", [2, 3, 10, 24, 25, 100, 1000])
@pytest.mark.parametrize("kind", ["logits", "probabilities"])
def test_equals_numpy(use, kind, classes, dtype):
    logits, labels = logits_and_labels(300, classes)
    p = Predictions.from_logits(logits, labels)
    scores = logits if kind == "logits" else p.probabilities()
    p = p.with_scores(scores.astype(dtype), kind)
    for closed in ("right", "left"):
        both(use, p, 15, closed=closed)
        both(use, p, 10, closed=closed, classwise=False)


@pytest.mark.parametrize("classes", [3, 40])
@pytest.mark.parametrize("kind", ["logits", "probabilities"])
@pytest.mark.parametrize("classwise", [True, False])
def test_blocks(use, kind, classes, classwise):
    logits, labels = logits_and_labels(1000, classes)
    p = Predictions.from_logits(logits.astype(np.float32), labels)
    p = p if kind == "logits" else p.with_scores(p.probabilities(), kind)
    block = np.random.default_rng(1).integers(0, 7, 1000)
    state = both(use, p, block=block, blocks=9, classwise=classwise)
    assert state.n.tolist() == np.bincount(block, minlength=9).tolist()
    assert_equal(state.total(), accumulate(p, classwise=classwise))


@pytest.mark.parametrize("block", [[0, 1], [0, 1, 3], [0, -1, 2]])
def test_wrong_blocks(block):
    p = Predictions.from_logits(np.zeros((3, 2)), [0, 1, 0])
    with pytest.raises(InputError, match=r"block number in 0..2 for each of 3 examples"):
        accumulate(p, block=np.array(block), blocks=3)


@pytest.mark.parametrize("classes", [4, 30])
def test_layouts(use, classes):
    logits, labels = logits_and_labels(400, 2 * classes)
    labels = np.where(np.arange(400) % 5 == 0, -100, labels % classes)
    for scores in (
        np.asfortranarray(logits[:, :classes]),
        logits[:, ::2],
        logits[::-1, classes:],
        np.broadcast_to(logits[:1, :classes], (400, classes)),
    ):
        assert both(use, Predictions.from_logits(scores, labels)).ignored == 80
    backwards = Predictions.from_logits(logits[:, :classes], labels[::-1])[::-2]
    both(use, backwards)


def test_one_compilation_for_all_layouts(use):
    """Memory that may not be written, as arrow's, or is not aligned, compiles nothing new."""
    from calibrant.metrics.kernels.rows import add_rows

    logits, labels = logits_and_labels(100, 3)
    both(use, Predictions.from_logits(logits, labels))
    compiled_for = len(add_rows.signatures)
    bytes_ = np.frombuffer(b"x" + logits.tobytes(), np.uint8)[1:]
    unaligned = bytes_.view(np.float64).reshape(logits.shape)
    assert not unaligned.flags.aligned
    assert not unaligned.flags.writeable
    both(use, Predictions.from_logits(unaligned, labels.astype(np.int32)))
    both(use, Predictions.from_logits(logits.T.copy().T, labels)[::2])
    assert len(add_rows.signatures) == compiled_for


def test_empty(use):
    for classes in (2, 50):
        assert both(use, Predictions.from_logits(np.empty((0, classes)), [])).n == 0


@pytest.mark.parametrize("classes", [5, 40])
def test_uniform_logits_are_exact(use, classes):
    for dtype in (np.float16, np.float32, np.float64):
        p = Predictions.from_logits(np.full((7, classes), 3.7, dtype), [classes - 1] * 7)
        state = both(use, p, bins=classes)
        assert state.top_count[0] == 7  # (0, 1/K] holds 1/K itself.
        assert state.class_count[:, 0].tolist() == [7] * classes
        assert state.predicted_count[0] == 7  # The first of equal maxima.
        left = both(use, p, bins=classes, closed="left")
        assert left.top_count[1] == 7


@pytest.mark.parametrize("classes", [2, 40])
def test_saturated_logits_are_exact(use, classes):
    logits = np.zeros((3, classes))
    logits[:, 1] = [40.0, 1e4, 1e300]
    state = both(use, Predictions.from_logits(logits, [1, 0, 1]))
    assert state.top_confidence[-1] == 3.0
    assert state.class_confidence[0, 0] == pytest.approx(0, abs=1e-17)
    assert state.nll == pytest.approx(1e4, abs=1e-9)


def test_probabilities_at_the_edges(use):
    for dtype in (np.float16, np.float32, np.float64):
        for bins in (1, 2, 3, 7, 10, 15, 100):
            edges = Bins(bins).edges(dtype).astype(np.float64)
            values = np.concatenate([edges, np.nextafter(edges, 0), np.nextafter(edges, 1)])
            scores = np.stack([values, 1 - values], axis=1).clip(0, 1).astype(dtype)
            p = Predictions.from_probabilities(scores, np.arange(len(values)) % 2)
            for closed in ("right", "left"):
                both(use, p, bins, closed=closed)


def test_zero_negative_and_tiny_probability_of_the_label(use):
    p = Predictions.from_probabilities([[1.0, 0.0], [0.5, 0.5]], [1, 0])
    assert both(use, p).nll == np.inf
    assert both(use, Predictions.from_probabilities([[1.0005, -0.0005]], [1])).nll == np.inf
    assert both(use, Predictions.from_probabilities([[1.0, 5e-324]], [1])).nll == pytest.approx(
        744.4400719213812
    )


@pytest.mark.parametrize("classes", [2, 10, 40, 600])
def test_two_equal_maxima_as_high_as_validation_allows(use, classes):
    """Sums may miss 1 and values go below 0 by a tolerance, so both maxima can exceed one half."""
    scores = np.full((2, classes), -0.99 * RANGE_TOLERANCE)
    scores[:, [0, classes - 1]] = (1 + 0.99 * (SUM_TOLERANCE + RANGE_TOLERANCE * (classes - 2))) / 2
    p = Predictions.from_probabilities(scores, [0, classes - 1])
    assert both(use, p).correct == 1
    logits = Predictions.from_logits(np.where(scores > 0, 50.0, 0.0), [0, classes - 1])
    assert both(use, logits).correct == 1


@settings(deadline=None, max_examples=60)
@given(
    data=st.data(), classes=st.sampled_from([2, 5, 30]), closed=st.sampled_from(["right", "left"])
)
def test_any_probabilities(data, classes, closed):
    """Sixteenths and thirds make ties and edge values likely."""
    n = data.draw(st.integers(0, 20))
    weights = data.draw(hnp.arrays(np.int64, (n, classes), elements=st.integers(0, 3)))
    weights[:, 0] += weights.sum(axis=1) == 0
    scores = weights / weights.sum(axis=1, keepdims=True)
    labels = data.draw(hnp.arrays(np.int64, n, elements=st.integers(0, classes - 1)))
    dtype = data.draw(st.sampled_from([np.float16, np.float32, np.float64]))
    bins = data.draw(st.integers(1, 20))
    with pytest.MonkeyPatch.context() as patch:
        p = Predictions.from_probabilities(scores.astype(dtype), labels)
        both(lambda c: patch.setenv("CALIBRANT_KERNELS", c), p, bins, closed=closed)


@settings(deadline=None, max_examples=60)
@given(data=st.data(), classes=st.sampled_from([2, 5, 30]))
def test_any_logits(data, classes):
    n = data.draw(st.integers(0, 20))
    values = st.one_of(
        st.sampled_from([0.0, -0.0, 1.0, -1.0, 20.0]), st.floats(-1e3, 1e3, width=32)
    )
    logits = data.draw(hnp.arrays(np.float32, (n, classes), elements=values))
    labels = data.draw(hnp.arrays(np.int64, n, elements=st.integers(0, classes - 1)))
    with pytest.MonkeyPatch.context() as patch:
        p = Predictions.from_logits(logits, labels)
        both(lambda c: patch.setenv("CALIBRANT_KERNELS", c), p, 15)


def test_rows_do_not_depend_on_their_neighbours(use):
    """The state of a permutation in pieces has the counts of the whole."""
    use("numba")
    logits, labels = logits_and_labels(5000, 10)
    p = Predictions.from_logits(logits.astype(np.float32), labels)
    order = np.random.default_rng(2).permutation(5000)
    pieces = sum(accumulate(p[order][i : i + 37]) for i in range(0, 5000, 37))
    assert_equal(pieces, accumulate(p))


def test_any_number_of_threads_gives_the_same_bits(use, monkeypatch):
    use("numba")
    logits, labels = logits_and_labels(300_000, 5)  # Three tasks.
    p = Predictions.from_logits(logits, labels)
    texts = set()
    for processors in (1, 2, 5):
        monkeypatch.setattr(kernel_dispatch, "_processors", lambda count=processors: count)
        texts.add(accumulate(p).to_json())
    assert len(texts) == 1


@pytest.mark.parametrize("wrong", [0, 2, 4])
def test_an_error_on_any_thread_is_raised(monkeypatch, wrong):
    monkeypatch.setattr(kernel_dispatch, "_processors", lambda: 3)

    def task(start, stop):
        if start == wrong:
            raise InputError(f"at {start}")
        return start, stop

    with pytest.raises(InputError, match=f"at {wrong}"):
        kernel_dispatch.spread(task, 5, 1, smallest=1)
    wrong = None
    assert kernel_dispatch.spread(task, 5, 1, smallest=1) == [(i, i + 1) for i in range(5)]
    assert kernel_dispatch.spread(task, 5, 1, smallest=4) == [(0, 4), (4, 5)]


def test_two_threads_at_once(use):
    use("numba")
    p = Predictions.from_logits(*logits_and_labels(60_000, 8))
    alone = accumulate(p).to_json()
    with ThreadPoolExecutor(4) as pool:
        states = pool.map(lambda _: accumulate(p).to_json(), range(8))
        assert set(states) == {alone}


def test_exponential_within_two_units_in_the_last_place():
    from calibrant.metrics.kernels.rows import exponential

    generator = np.random.default_rng(0)
    for x in (*generator.uniform(-50, 0, 2000), -0.0, 0.0, -1e-300, -699.9):
        expected = np.exp(np.longdouble(x))
        assert abs(exponential(x) - expected) <= 2 * np.spacing(float(expected))
    assert exponential(0.0) == 1.0
    assert exponential(-1e300) < 1e-300


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("classes", [3, 60])
@pytest.mark.parametrize("kind", ["logits", "probabilities"])
def test_top_label(use, kind, classes, dtype):
    logits, labels = logits_and_labels(500, classes)
    p = Predictions.from_logits(logits.round(), labels)
    p = p.with_scores(
        (logits.round() if kind == "logits" else p.probabilities()).astype(dtype), kind
    )
    use("numpy")
    reference = top_label(p)
    use("numba")
    ours = top_label(p)
    assert [a.dtype for a in ours] == [a.dtype for a in reference]
    np.testing.assert_allclose(ours[0], reference[0], rtol=1e-14)
    np.testing.assert_array_equal(ours[1], reference[1])
    np.testing.assert_array_equal(ours[2], reference[2])


def test_small_inputs_never_load_numba():
    code = (
        "import sys, numpy as np, calibrant, calibrant.metrics as m;"
        "p = calibrant.Predictions.from_logits(np.zeros((30_000, 10)), np.zeros(30_000, int));"
        "m.ece(p); m.top_label(p); assert 'numba' not in sys.modules;"
        "[m.ece(p) for _ in range(30)]; assert 'numba' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_choice_of_kernels(use, monkeypatch):
    monkeypatch.setattr(kernel_dispatch, "_seen", 0)
    use("numpy")
    assert kernel_dispatch.kernels(1 << 40) is None
    use("auto")
    assert kernel_dispatch.kernels(1 << 16) is None
    assert kernel_dispatch.kernels(1 << 30) is not None
    assert kernel_dispatch.kernels(1 << 16) is not None  # Loaded by now.
    assert kernel_dispatch.kernels(10) is None
    use("fortran")
    with pytest.raises(InputError, match="auto, numpy or numba, got 'fortran'"):
        kernel_dispatch.kernels(1)


def test_without_numba(use, monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    use("auto")
    assert kernel_dispatch.kernels(1 << 40) is None
    use("numba")
    with pytest.raises(MissingExtraError, match=r"calibrant\[fast\]"):
        kernel_dispatch.kernels(1)


def test_numba_that_does_not_load_warns_and_is_not_needed(use, monkeypatch):
    kernel_dispatch._load.cache_clear()
    monkeypatch.setitem(sys.modules, "calibrant.metrics.kernels.rows", None)
    use("auto")
    with pytest.warns(UserWarning, match="numba does not load, so metrics use NumPy"):
        assert kernel_dispatch.kernels(1 << 40) is None
    kernel_dispatch._load.cache_clear()
