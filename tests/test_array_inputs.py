"""Arrays with a mask, missing values or labels beyond int64 give an error, never a number."""

from decimal import Decimal

import numpy as np
import pytest

from calibrant import Claims, InputError, Predictions
from calibrant.metrics import Confidences, TopBins, accumulate, near_border

SCORES = np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0]], np.float32)
LABELS = np.array([0, 1, 0])
MASK = [False, True, False]

FROM = {
    "Predictions.from_logits": Predictions.from_logits,
    "TopBins.from_logits": TopBins.from_logits,
}


@pytest.fixture(params=["numpy", "numba"], autouse=True)
def _kernels(request, monkeypatch):
    if request.param == "numba":
        pytest.importorskip("numba")
    monkeypatch.setenv("CALIBRANT_KERNELS", request.param)


@pytest.fixture(params=FROM)
def make(request):
    return FROM[request.param]


def test_masked_scores_and_labels_are_refused(make):
    with pytest.raises(InputError, match="without a mask, got one with 2 masked values"):
        make(np.ma.masked_array(SCORES, np.repeat([MASK], 2, axis=0).T), LABELS)
    with pytest.raises(InputError, match=r"1 masked values.*label −100"):
        make(SCORES, np.ma.masked_array(LABELS, MASK))
    with pytest.raises(InputError, match="1 masked values"):
        make([np.ma.masked_array(row, [False, row[0] == 0]) for row in SCORES], LABELS)


def test_an_array_with_an_empty_mask_is_taken(make):
    plain, masked = make(SCORES, LABELS), make(np.ma.masked_array(SCORES), np.ma.array(LABELS))
    for name in ("scores", "labels", "top_count"):
        if hasattr(plain, name):
            assert type(getattr(masked, name)) is np.ndarray
            np.testing.assert_array_equal(getattr(masked, name), getattr(plain, name))


def test_masks_are_refused_wherever_arrays_enter():
    masked, p = np.ma.masked_array(LABELS, MASK), Predictions.from_logits(SCORES, LABELS)
    for enter in (
        lambda: Predictions.from_logits(SCORES, LABELS, groups={"sentence": masked}),
        lambda: Confidences(np.ma.masked_array([0.5, 0.6, 0.7], MASK), LABELS == 0),
        lambda: Confidences(np.array([0.5, 0.6, 0.7]), masked == 0),
        lambda: accumulate(p, block=masked, blocks=2),
        lambda: near_border(np.ma.masked_array([[0, 1, 0]], [MASK]), width=1),
        lambda: p.with_scores(np.ma.masked_array(SCORES, SCORES == 1), "logits"),
        lambda: p[masked == 0],
    ):
        with pytest.raises(InputError, match="mask"):
            enter()


@pytest.mark.parametrize("label", [2**64 - 100, 2**64 - 1, 2**63, 2**63 + 5])
def test_unsigned_labels_that_would_wrap_around_are_refused(make, label):
    """2⁶⁴ − 100 as a signed integer is −100, which would be ignored without a word."""
    labels = np.array([0, 1, label], np.uint64)
    with pytest.raises(InputError, match=rf"Label {label} at row 2 is outside 0..1"):
        make(SCORES, labels)
    torch = pytest.importorskip("torch")
    with pytest.raises(InputError, match=rf"Label {label} at row 2 is outside 0..1"):
        make(torch.from_numpy(SCORES), torch.from_numpy(labels))


def test_unsigned_labels_that_fit_are_taken(make):
    assert int(make(SCORES, LABELS.astype(np.uint64)).ignored) == 0


@pytest.mark.parametrize("label", [1e30, -1e30, 2.0**63])
def test_large_float_labels_are_named_as_they_came(make, label):
    with pytest.raises(InputError, match=rf"Label {int(label)} at row 1 is"):
        make(SCORES, np.array([0.0, label, 1.0]))


def test_objects_that_are_numbers_are_taken_and_others_named(make):
    taken = make(SCORES.astype(object), LABELS.astype(object))
    assert int(taken.ignored) == 0
    for labels, found in [
        (np.array([0, 2**70, 1], object), "objects, the first of type int"),
        (np.array([[0], [1, 2], [3]], object), "rows of different lengths"),
    ]:
        with pytest.raises(InputError, match=found):
            make(SCORES, labels)
    with pytest.raises(InputError, match=r"missing value \(None\) at place 3"):
        make(np.array([[0.1, 0.2], [0.3, None], [0.5, 0.6]], object), LABELS)


def rows_of_others():
    """SCORES as rows in Arrow and polars, and as decimals of a database."""
    pa = pytest.importorskip("pyarrow")
    decimals = [[Decimal(str(value)) for value in row] for row in SCORES.tolist()]
    lists = (pa.list_(pa.float64()), pa.list_(pa.float64(), SCORES.shape[1]))
    made = [np.array(decimals, object), *(pa.array(SCORES.tolist(), kind) for kind in lists)]
    try:
        import polars
    except ImportError:
        return made
    return [*made, polars.Series(SCORES.tolist())]


def test_decimals_and_rows_as_arrow_and_polars_give_them():
    for scores in rows_of_others():
        assert Predictions.from_logits(scores, LABELS).scores.tolist() == SCORES.tolist()
    ragged = np.array([[1.0], [1.0, 2.0], [3.0]], object)
    with pytest.raises(InputError, match="rows of different lengths"):
        Predictions.from_logits(ragged, LABELS)
    with pytest.raises(InputError, match="first of type set"):
        Predictions.from_logits({1, 2}, LABELS)


def test_confidences_that_are_no_numbers_are_described():
    decimals = [Decimal("0.5"), Decimal("0.25")]
    claims = Claims.from_top_label(["a", "b"], decimals, ["a", "b"])
    assert claims.confidence.tolist() == [0.5, 0.25]
    for given, found in ((["0.5", "5 %"], "got text"), ([0.5, None], "value .None. at place 1")):
        with pytest.raises(InputError, match=f"Confidences must be numbers, .*{found}"):
            Claims.from_top_label(["a", "b"], given, ["a", "b"])


def test_nullable_columns_of_pandas(make):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(SCORES.astype(float), dtype="Float64")
    labels = pandas.array([0, 1, 0], dtype="Int64")
    assert int(make(frame, labels).ignored) == 0
    assert int(make(frame, pandas.array([0, None, 0], dtype="Int64")).ignored) == 1
    assert int(make(SCORES, np.array([0, None, 1], object)).ignored) == 1
    frame.iloc[2, 0] = pandas.NA
    with pytest.raises(InputError, match=r"missing value|must be finite"):
        make(frame, labels)


@pytest.mark.filterwarnings("ignore:Sparse CSR:UserWarning", "ignore:torch.quantize:UserWarning")
def test_tensors_of_other_layouts_and_types(make):
    """Sparse, quantised and 8-bit tensors count as the dense floats that they stand for."""
    torch = pytest.importorskip("torch")
    dense = torch.tensor(SCORES)
    quantised = torch.quantize_per_tensor(dense, 0.5, 0, torch.qint8)
    eight = dense.to(torch.float8_e5m2)
    for scores in (dense.to_sparse(), dense.to_sparse_csr(), quantised, eight):
        assert int(make(scores, torch.tensor(LABELS)).ignored) == 0
    ragged = {"layout": torch.jagged}
    nested = torch.nested.nested_tensor([torch.ones(1, 2), torch.ones(2, 2)], **ragged)
    with pytest.raises(InputError, match="nested tensor of rows of different lengths"):
        make(nested, torch.tensor(LABELS))


def test_longdouble_is_float64():
    wide = Predictions.from_logits(SCORES.astype(np.longdouble), LABELS)
    assert wide.scores.dtype == np.float64
    assert accumulate(wide).n == 3


@pytest.mark.parametrize("size", [1e-320, 1e-160, 1e200, 1e308])
def test_weights_whose_squares_no_float_has_are_refused(size):
    with pytest.raises(InputError, match=r"The largest weight must lie between .* by the largest"):
        Predictions.from_logits(SCORES, LABELS, weights=[size, size, 0])
    Predictions.from_logits(SCORES, LABELS, weights=[1.0, 1e-300, 0])
