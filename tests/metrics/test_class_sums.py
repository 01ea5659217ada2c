"""ClassSums against the dense tables of a state with blocks, which they replace."""

import numpy as np
import pytest

from calibrant import Predictions
from calibrant.metrics import (
    Bins,
    accumulate,
    bootstrap_interval,
    class_sums,
    classwise_ece,
    ece,
    replicate,
)
from calibrant.metrics.class_sums import ClassSums
from calibrant.predictions import softmax

TABLES = ("class_count", "class_confidence", "class_correct")


def drawn(n, classes, kind="logits", dtype=np.float64, scale=3.0):
    generator = np.random.default_rng(classes)
    scores = scale * generator.normal(size=(n, classes))
    scores = (scores if kind == "logits" else softmax(scores)).astype(dtype)
    labels = generator.integers(0, classes, n)
    labels[::11] = -100
    return getattr(Predictions, f"from_{kind}")(scores, labels)


def both(p, bins, blocks, parts=1, **options):
    block = np.random.default_rng(0).integers(0, blocks, len(p))
    sums = ClassSums(p.classes, bins, blocks, **options)
    for rows in np.array_split(np.arange(len(p)), parts):
        sums.add(p[rows], block[rows])
    return sums, accumulate(p, bins, block=block, blocks=blocks)


@pytest.mark.parametrize("kind", ["logits", "probabilities"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("closed", ["right", "left"])
@pytest.mark.parametrize(("classes", "bins"), [(2, 1), (2, 15), (7, 3), (40, 15), (3, 200)])
def test_sums_and_replicates_are_those_of_the_dense_tables(kind, dtype, closed, classes, bins):
    p = drawn(230, classes, kind, dtype)
    sums, dense = both(p, Bins(bins, closed), blocks=6, parts=3)
    total = dense.total()
    for name in TABLES:
        np.testing.assert_allclose(
            getattr(sums.total(), name), getattr(total, name), rtol=1e-12, atol=1e-15
        )
    assert classwise_ece(sums.total()) == pytest.approx(classwise_ece(total), rel=1e-12)
    np.testing.assert_allclose(
        replicate(classwise_ece, sums, replicates=20),
        replicate(classwise_ece, dense, replicates=20),
        rtol=1e-10,
    )
    assert bootstrap_interval(classwise_ece, sums, replicates=50) == pytest.approx(
        bootstrap_interval(classwise_ece, dense, replicates=50)
    )


@pytest.mark.parametrize("constant", ["_CHUNK", "_PENDING", "_NUMBERS"])
@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_sizes_around_every_chunk(monkeypatch, constant, size):
    """Rows per chunk, entries that wait and replicates at once are cut wherever they may be."""
    p = drawn(97, 12, "probabilities")
    whole, dense = both(p, Bins(10), blocks=5)
    monkeypatch.setattr(class_sums, constant, size)
    cut, _ = both(p, Bins(10), blocks=5, parts=4)
    for name in TABLES:
        np.testing.assert_allclose(getattr(cut.total(), name), getattr(whole.total(), name))
    np.testing.assert_allclose(
        replicate(classwise_ece, cut, replicates=9),
        replicate(classwise_ece, dense, replicates=9),
        rtol=1e-10,
    )


def test_one_block_goes_through_the_state():
    p = drawn(60, 20)
    image, rows = ClassSums(20, Bins(15), 3), ClassSums(20, Bins(15), 3)
    image.add(p, np.full(len(p), 2))
    for k in range(len(p)):
        rows.add(p[k], np.array([2]))
    np.testing.assert_allclose(image.total().class_confidence, rows.total().class_confidence)
    weights = np.array([[1, 2, 3]])
    np.testing.assert_allclose(image.replicated_ece(weights), rows.replicated_ece(weights))


def test_too_many_entries_give_no_interval_and_the_same_value():
    p = drawn(80, 6)
    sums, dense = both(p, Bins(15), blocks=4, most_entries=10)
    assert bootstrap_interval(classwise_ece, sums, replicates=50) is None
    assert classwise_ece(sums.total()) == pytest.approx(classwise_ece(dense.total()))


def test_other_metrics_are_refused():
    sums, _ = both(drawn(30, 4), Bins(15), blocks=3)
    with pytest.raises(ValueError, match="only have replicates of classwise_ece"):
        bootstrap_interval(ece, sums, replicates=50)


def test_adding_in_place_is_adding():
    p = drawn(70, 5)
    block = np.arange(len(p)) % 3
    state = accumulate(p[:30], block=block[:30], blocks=3)
    state = accumulate(p[30:], block=block[30:], blocks=3, into=state)
    whole = accumulate(p, block=block, blocks=3)
    for name in whole.SUMS:
        np.testing.assert_allclose(getattr(state, name), getattr(whole, name), rtol=1e-12)
