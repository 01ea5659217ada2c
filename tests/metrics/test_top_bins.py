"""TopBins: from arrays to the bins of the top label in one pass, checked and unchecked alike."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant import InputError, Predictions
from calibrant.metrics import (
    Bins,
    TopBins,
    accumulate,
    accuracy,
    debiased_rms_ece,
    ece,
    mce,
    mean_confidence,
    nll,
    overconfidence_error,
)

pytest.importorskip("numba")


@pytest.fixture(autouse=True)
def _kernels(monkeypatch):
    monkeypatch.setenv("CALIBRANT_KERNELS", "numba")


def make(kind, scores, labels, *args, **options):
    return getattr(TopBins, f"from_{kind}")(scores, labels, *args, **options)


def in_float64(kind, scores, labels, *args, **options):
    """The same by NumPy, of all fields."""
    predictions = getattr(Predictions, f"from_{kind}")(scores, labels)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CALIBRANT_KERNELS", "numpy")
        return accumulate(predictions, *args, **options)


def assert_same(ours, reference, relative=3e-7):
    np.testing.assert_array_equal(ours.top_count, reference.top_count)
    np.testing.assert_array_equal(ours.top_correct, reference.top_correct)
    np.testing.assert_allclose(ours.top_confidence, reference.top_confidence, relative, 1e-30)
    assert ours.ignored == reference.ignored


def drawn(n, classes, seed=0):
    generator = np.random.default_rng(seed)
    logits = (3 * generator.normal(size=(n, classes))).astype(np.float32)
    return logits, generator.integers(0, classes, n)


def softmax(logits):
    wide = logits.astype(np.float64)
    exponentials = np.exp(wide - wide.max(axis=1, keepdims=True))
    return (exponentials / exponentials.sum(axis=1, keepdims=True)).astype(logits.dtype)


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(0, 150),
    classes=st.integers(2, 70),
    seed=st.integers(0, 2**31),
    kind=st.sampled_from(["logits", "probabilities"]),
    closed=st.sampled_from(["right", "left"]),
    rounded=st.booleans(),
    scale=st.sampled_from([0.0, 1e-3, 1.0, 30.0, 1e4, 1e30]),
)
def test_any_shape_equals_numpy(n, classes, seed, kind, closed, rounded, scale):
    """Ties, ignored rows, saturation; the last rows, where vectors would pass the end."""
    logits, labels = drawn(n, classes, seed)
    logits = (logits.round() if rounded else logits) * np.float32(scale)
    labels[np.random.default_rng(seed).random(n) < 0.1] = -100
    scores = logits if kind == "logits" else softmax(logits)
    reference = in_float64(kind, scores, labels, 15, closed=closed)
    assert_same(make(kind, scores, labels, 15, closed=closed), reference)


@pytest.mark.parametrize("classes", [2, 4, 5, 8, 10, 16, 20, 100])
@pytest.mark.parametrize("closed", ["right", "left"])
def test_confidences_at_an_edge_go_where_float64_sends_them(classes, closed):
    """1 / K is an edge of K bins: in float32 a rounding error would tip it over."""
    generator = np.random.default_rng(0)
    shifts = generator.normal(size=(500, 1)).astype(np.float32)
    logits = np.zeros((500, classes), np.float32) + shifts
    labels = generator.integers(0, classes, 500)
    ours = make("logits", logits, labels, classes, closed=closed)
    assert ours.top_count[1 if closed == "left" else 0] == 500
    assert_same(ours, in_float64("logits", logits, labels, classes, closed=closed))


def test_confidences_next_to_an_edge():
    """Two classes at every float32 distance around the edge 0.6: all counts are float64's."""
    gap = np.log(0.6 / 0.4)
    gaps = np.float32(gap) + np.arange(-3000, 3000) * np.spacing(np.float32(gap))
    logits = np.stack([gaps, np.zeros_like(gaps)], axis=1).astype(np.float32)
    labels = np.zeros(len(logits), np.int64)
    ours, reference = make("logits", logits, labels, 5), in_float64("logits", logits, labels, 5)
    assert_same(ours, reference)
    assert min(ours.top_count[2:4]) > 2000  # The edge lies among them.


def test_exactly_one_and_exactly_certain():
    certain = np.array([[0, 1, 0], [1, 0, 0]], np.float32)
    assert make("probabilities", certain, [1, 1]).top_count[-1] == 2
    far = np.array([[0, 200, 0], [3e38, -3e38, 0], [-1e4, 0, -1e4]], np.float32)
    ours = make("logits", far, [1, 0, 0])
    assert_same(ours, in_float64("logits", far, [1, 0, 0]))
    assert ours.top_confidence[-1] == 3


@pytest.mark.parametrize("classes", [3, 16, 37])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", ["logits", "probabilities"])
def test_what_is_not_finite_is_found_wherever_it_is(kind, value, classes):
    logits, labels = drawn(90, classes)
    whole = logits if kind == "logits" else softmax(logits)
    for row, column in [(0, 0), (41, classes - 1), (89, classes - 1), (89, classes // 2)]:
        scores = whole.copy()
        scores[row, column] = value
        if (kind, value) == ("logits", -np.inf):  # Ruled out, which is no error.
            assert_same(make(kind, scores, labels), in_float64(kind, scores, labels))
            continue
        with pytest.raises(InputError, match=f"must be finite, got {value} at row {row}"):
            make(kind, scores, labels)
        ignored = np.where(np.arange(90) == row, -100, labels)  # Then it does not matter.
        assert_same(make(kind, scores, ignored), in_float64(kind, scores, ignored))


@pytest.mark.parametrize("n", [1, 15, 16, 17, 33, 256, 257, 271, 529])
@pytest.mark.parametrize("classes", [2, 3, 4, 7, 9, 10, 15, 16, 17])
def test_short_rows_side_by_side(classes, n):
    """Sixteen rows at a time, tiles of 256, and what is left at the end; ties and ignored rows."""
    logits, labels = drawn(n, classes)
    labels[::7] = -100
    for scores in (logits, logits.round() / 4):
        for kind, rows in (("logits", scores), ("probabilities", softmax(scores))):
            assert_same(make(kind, rows, labels), in_float64(kind, rows, labels))


@pytest.mark.parametrize("classes", [2, 5, 10, 16])
def test_a_wrong_number_is_found_in_every_lane(classes):
    whole, labels = softmax(drawn(18, classes)[0]), np.zeros(18, np.int64)
    for row in range(18):
        for column in range(classes):
            # The third keeps a valid sum, the fourth valid numbers.
            for value in (np.nan, np.inf, -0.5, 0.0):
                scores = whole.copy()
                scores[row, column] = value
                if value == 0:
                    scores[row] = 0.9 / classes
                if value < 0:
                    scores[row, column - 1] += whole[row, column] + 0.5
                with pytest.raises(InputError, match=f"row {row}"):
                    make("probabilities", scores, labels)


def test_columns_of_sixteen_rows():
    import numba

    from calibrant.metrics.kernels.simd_memory import load_columns, memory_of, store

    @numba.njit
    def turn(flat, start, columns, out):
        by_array, by_address = (
            load_columns(flat, start, columns),
            load_columns(memory_of(flat), start, columns),
        )
        store(by_array[0], out, 0)
        store(by_array[1], out, 16)
        store(by_address[2], out, 32)
        store(by_address[3], out, 48)

    for columns in (4, 7, 10):
        numbers, out = np.arange(17 * columns, dtype=np.float32), np.zeros(64, np.float32)
        turn(numbers, 2, columns, out)
        rows = [numbers[2 + row * columns :][:4] for row in range(16)]
        np.testing.assert_array_equal(out.reshape(4, 16), np.transpose(rows))


def test_a_label_far_outside_is_not_looked_for():
    """In a long row of equal scores the columns before the label are searched for the same."""
    labels = np.zeros(20, np.int64)
    labels[11] = 2**40
    with pytest.raises(InputError, match=rf"Label {2**40} at row 11 is outside 0..39"):
        make("logits", np.zeros((20, 40), np.float32), labels)


@pytest.mark.parametrize("label", [-1, 7, -101, 2**40])
def test_labels_outside_are_found(label):
    logits, labels = drawn(70, 7)
    labels[69] = label
    with pytest.raises(InputError, match=rf"Label {label} at row 69 is outside 0..6"):
        make("logits", logits, labels)


def test_probabilities_that_are_none():
    probabilities = softmax(drawn(70, 7)[0])
    labels = np.zeros(70, np.int64)
    with pytest.raises(InputError, match=r"row 3 sums to 1\.1"):
        make("probabilities", probabilities * np.where(np.arange(70) == 3, 1.1, 1)[:, None], labels)
    wrong = probabilities.copy()
    wrong[5, :2] = [-0.5, 1.5 - probabilities[5, 2:].sum()]
    with pytest.raises(InputError, match=r"must be in 0\.\.1"):
        make("probabilities", wrong.astype(np.float32), labels)


def test_what_the_tolerance_allows_is_added_all_the_same():
    """The kernel doubts −0.0005 and a sum of 0.99; the longer way takes them."""
    probabilities = np.array([[1.0005, -0.0005], [0.6, 0.3901]], np.float32)
    assert_same(
        make("probabilities", probabilities, [0, 1]),
        in_float64("probabilities", probabilities, [0, 1]),
    )


def test_other_forms_of_input():
    torch = pytest.importorskip("torch")
    logits, labels = drawn(60, 6)
    expected = make("logits", logits, labels)
    for scores, targets in [
        (logits.tolist(), labels.tolist()),
        (torch.from_numpy(logits), torch.from_numpy(labels)),
        (torch.from_numpy(logits), labels.astype(np.int32)),
        (logits.astype(np.float64), labels.astype(np.float64)),
        (logits.reshape(6, 10, 6), labels.reshape(6, 10)),
        (np.asfortranarray(logits), labels),
        (logits.astype(">f4"), labels),
    ]:
        assert_same(make("logits", scores, targets), expected)
    half = make("logits", torch.from_numpy(logits).bfloat16(), labels)
    assert_same(half, in_float64("logits", torch.from_numpy(logits).bfloat16(), labels))
    one_column = make("probabilities", np.float32([0.9, 0.2]), [1, 1])
    assert one_column.top_correct.sum() == 1


def test_metrics_of_the_small_state():
    logits, labels = drawn(400, 5)
    small, whole = make("logits", logits, labels), in_float64("logits", logits, labels)
    for metric in (ece, mce, overconfidence_error, debiased_rms_ece, accuracy, mean_confidence):
        assert metric(small) == pytest.approx(metric(whole), rel=1e-5)
    halves = make("logits", logits[:150], labels[:150]) + make("logits", logits[150:], labels[150:])
    assert_same(halves, whole)
    assert ece(sum([TopBins.empty(Bins()), small])) == ece(small)
    with pytest.raises(InputError, match="different bins cannot be added"):
        small + make("logits", logits, labels, 10)
    with pytest.raises(TypeError):
        small + whole
    with pytest.raises(InputError, match=r"probabilities of all classes.*got TopBins"):
        nll(small)


def test_many_columns_keep_float32s_precision():
    """Sums of 30,000 exponentials do not drift: spans are added up in float64."""
    logits, labels = drawn(20, 30_000)
    assert_same(make("logits", logits / 3, labels), in_float64("logits", logits / 3, labels))


def test_exponential_in_float32():
    import numba

    from calibrant.metrics.kernels.simd_exponential import exponential_in_lanes
    from calibrant.metrics.kernels.simd_vector import largest, same

    @numba.njit
    def exponentials(x, deep, out):
        for i in range(len(x)):
            out[i] = largest(exponential_in_lanes(same(x[i]), deep))

    x = -np.concatenate([np.linspace(0, 86.5, 20_000), [0.0, 1e-30]]).astype(np.float32)
    exact = np.exp(x.astype(np.float64))
    for deep in (False, True):
        out = np.empty_like(x)
        exponentials(x, deep, out)
        assert out[0] == out[-2] == out[-1] == 1
        # The error of x · log2(e) grows with x, where e^x no longer counts.
        assert np.all(np.abs(out / exact - 1) <= 2e-7 + 1e-7 * np.abs(x))
    out = np.empty(2, np.float32)
    exponentials(np.float32([-1e4, -np.inf]), True, out)
    assert np.all(out < 2e-38)
