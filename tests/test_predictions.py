"""The one record: shapes, kinds, what is dropped, what is refused, and where it lives."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from calibrant import InputError, Predictions
from calibrant.predictions import softmax

LOGITS = np.array([[2.0, 0.0, 1.0], [0.0, 1.0, 3.0], [3.0, 0.0, 0.5]], np.float32)
HALF = [[0.5, 0.5]]


def test_ignored_rows_are_dropped_once_and_counted() -> None:
    p = Predictions.from_logits(LOGITS, [0, -100, 2], groups={"word": ["a", "b", "c"]})
    assert np.array_equal(p.scores, LOGITS[[0, 2]])
    assert p.labels.tolist() == [0, 2]
    assert p.groups["word"].tolist() == ["a", "c"]
    assert (len(p), p.ignored) == (2, 1)
    again = p.with_scores(p.scores * 2, "logits")
    assert (len(again), again.ignored) == (2, 1)  # not counted twice
    assert p[:1].ignored == 0
    assert dataclasses.replace(p).ignored == 1


def test_all_ignored_and_empty() -> None:
    for p in (
        Predictions.from_logits(LOGITS, [-100] * 3),
        Predictions.from_logits(LOGITS[:0], []),
        Predictions.from_probabilities(torch.empty(0, 3), torch.empty(0)),
    ):
        assert len(p) == 0
        assert p.classes == 3
        assert p.probabilities().shape == (0, 3)
        assert list(p.chunks(2)) == []


def test_nothing_is_copied_and_nothing_can_be_assigned() -> None:
    labels = np.array([0, 1, 2])
    p = Predictions.from_logits(LOGITS, labels)
    assert p.scores is LOGITS
    assert p.labels is labels
    assert np.shares_memory(p[1:].scores, LOGITS)
    with pytest.raises(dataclasses.FrozenInstanceError):
        p.kind = "probabilities"  # type: ignore[misc]


def test_binary_classifiers_have_one_score() -> None:
    p = Predictions.from_probabilities([0.25, 1.0], [0, 1])
    assert p.scores.tolist() == [[0.75, 0.25], [0.0, 1.0]]
    p = Predictions.from_logits(torch.tensor([0.5, -3.0]), torch.tensor([True, False]))
    assert p.scores.tolist() == [[0.0, 0.5], [0.0, -3.0]]
    assert p.labels.tolist() == [1, 0]
    expected = 1 / (1 + np.exp(-np.array([0.5, -3.0])))
    assert np.allclose(p.probabilities()[:, 1].numpy(), expected)
    with pytest.raises(InputError, match="got inf at row 1, column 1"):
        Predictions.from_logits([1.0, np.inf], [0, 1])


def test_tokens_of_sentences() -> None:
    logits = np.arange(24.0).reshape(2, 4, 3)
    labels = np.array([[0, 1, -100, -100], [2, 0, 1, -100]])
    position = np.tile(np.arange(4), (2, 1))
    groups = {"position": position, "document": ["x", "y"]}
    for lead in (lambda a: a, torch.as_tensor):
        p = Predictions.from_logits(lead(logits), lead(labels), groups=groups)
        assert p.groups["sentence"].tolist() == [0, 0, 1, 1, 1]
        assert p.groups["position"].tolist() == [0, 1, 0, 1, 2]
        assert p.groups["document"].tolist() == ["x", "x", "y", "y", "y"]
        assert p.scores[2].tolist() == [12.0, 13.0, 14.0]
        assert p.ignored == 3
    own = Predictions.from_logits(logits, labels, groups={"sentence": [7, 9]})
    assert own.groups["sentence"].tolist() == [7, 7, 9, 9, 9]


def test_pixels_of_images() -> None:
    p = Predictions.from_probabilities(np.full((2, 3, 5, 4), 0.25), np.zeros((2, 3, 5), int))
    assert len(p) == 30
    assert p.groups["image"].tolist() == [0] * 15 + [1] * 15
    p = Predictions.from_logits(np.zeros((2, 1, 1, 3, 2)), np.zeros((2, 1, 1, 3), int))
    assert p.groups["example"].tolist() == [0, 0, 0, 1, 1, 1]
    empty = Predictions.from_logits(np.zeros((0, 4, 3)), np.zeros((0, 4), int))
    assert empty.groups["sentence"].tolist() == []


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_tensors_keep_type_and_gradients_are_left_behind(dtype: torch.dtype) -> None:
    logits = torch.randn(5, 3).to(dtype).requires_grad_()
    p = Predictions.from_logits(logits, np.arange(5) % 3)
    assert p.scores.dtype == dtype
    assert not p.scores.requires_grad
    assert p.scores.data_ptr() == logits.data_ptr()
    assert isinstance(p.labels, torch.Tensor)
    assert p.probabilities().dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    host = p.numpy()
    assert isinstance(host.scores, np.ndarray)
    assert np.array_equal(host.scores, logits.detach().double().numpy())
    assert host.numpy() is host


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no accelerator here")
def test_tensors_stay_on_their_device() -> None:
    logits = torch.randn(50, 3, device="cuda")
    labels = torch.arange(50) % 4 - 1
    labels[labels < 0] = -100
    p = Predictions.from_logits(logits, labels, groups={"i": torch.arange(50, device="cuda")})
    assert p.scores.device == p.labels.device == logits.device
    assert p[np.array([2, 3])].scores.device == logits.device
    assert p[p.labels == 1].groups["i"].tolist() == p.groups["i"][p.numpy().labels == 1].tolist()
    assert p.probabilities().device == logits.device
    q = Predictions.from_probabilities(p.probabilities(), p.labels)
    assert q.logits().device == logits.device
    assert Predictions.concatenate([p, p]).scores.device == logits.device
    logits[7, 1] = torch.nan
    with pytest.raises(InputError, match="got nan at row 7, column 1"):
        Predictions.from_logits(logits, labels * 0)


class Foreign:
    """An array of another library, known only by its DLPack methods."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


def test_dlpack() -> None:
    p = Predictions.from_logits(Foreign(LOGITS), Foreign(np.array([0, 1, 2])))
    assert isinstance(p.scores, np.ndarray)
    assert np.shares_memory(p.scores, LOGITS)
    tensor = torch.tensor([[0.5, 0.25, 0.25]])
    p = Predictions.from_probabilities(Foreign(tensor), Foreign(torch.tensor([1])))
    assert isinstance(p.scores, np.ndarray)
    assert p.labels.tolist() == [1]
    half = Predictions.from_logits(Foreign(tensor.bfloat16()), [1])
    assert half.scores.dtype == torch.bfloat16  # NumPy has none.


def test_lists_and_whole_numbers_become_floats() -> None:
    p = Predictions.from_logits([[1, 0], [0, 2]], [0.0, 1.0])
    assert p.scores.dtype == np.float64
    assert p.labels.dtype == np.int64
    assert Predictions.from_logits(torch.eye(2).int(), [0, 1]).scores.dtype == torch.float64


@pytest.mark.parametrize("library", [np.asarray, torch.as_tensor])
@pytest.mark.parametrize(
    ("scores", "labels", "expected"),
    [
        ([[1.0, 2.0], [3.0, 4.0]], [0], r"classes last, and n labels, got \(2, 2\) and \(1,\)"),
        ([[1.0], [2.0]], [0, 0], "at least 2 classes, got 1"),
        ([[1.0, 2.0], [3.0, 4.0]], [0, 2], "Label 2 at row 1 is outside 0..1"),
        ([[1.0, 2.0], [3.0, 4.0]], [-1, 0], "Label -1 at row 0 is outside 0..1"),
        ([[1.0, 2.0], [3.0, 4.0]], [0.5, 0], "got fractions"),
        ([[1.0, 2.0], [3.0, 4.0]], [np.inf, 0], "got fractions or infinity"),
        ([[1.0, np.nan], [3.0, 4.0]], [0, 0], r"must be finite, got nan at row 0, column 1\.$"),
        (
            [[1.0, -np.inf], [-np.inf, -np.inf]],
            [0, 0],
            "at least one in a row must be finite; row 1 has none",
        ),
        ([[-np.inf, np.inf], [1.0, 4.0]], [0, 0], "must be finite, got inf at row 0, column 1"),
        ([[9.0, 2.0], [np.inf, 4.0]], [-100, 0], "must be finite, got inf at row 1, column 0"),
        ([[9.0, 2.0], [1.0, 4.0]], [-100, 5], "Label 5 at row 1"),
    ],
)
def test_bad_logits(library: Any, scores: Any, labels: Any, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        Predictions.from_logits(library(scores), library(labels))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">f4"])
@pytest.mark.parametrize("library", ["numpy", "torch", "bfloat16"])
@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ([0.5, 0.5, 0.5], "row 2 sums to 1.5"),
        ([0.25, 0.5, 0.0], "row 2 sums to 0.75"),
        ([1.5, -0.5, 0.0], r"must be in 0..1, got 1.5 and -0.5 at row 2; .* --logits-column NAME"),
        ([-0.25, 0.75, 0.5], "must be in 0..1, got -0.25 at row 2"),
        ([0.0, np.nan, 1.0], "must be finite, got nan at row 2, column 1"),
        ([0.0, np.inf, 1.0], "must be finite, got inf at row 2, column 1"),
        ([0.0, -np.inf, 1.0], r"must be finite, got -inf at row 2, column 1\.$"),
        ([0.0, -0.0, 1.0], None),
        ([1e-4, -1e-4, 1.0], None),  # rounding of somebody's softmax
        ([0.3334, 0.3334, 0.3334], None),
        ([0.0, 1.0, 0.0], None),
    ],
)
def test_bad_probabilities(
    row: list[float], expected: str | None, library: str, dtype: str
) -> None:
    scores: Any = np.array([[1.0, 0.0, 0.0], [0.25, 0.5, 0.25], row], dtype)
    if library != "numpy":
        scores = torch.as_tensor(scores.astype(scores.dtype.newbyteorder("=")))
    if library == "bfloat16":
        scores = scores.bfloat16()
    if expected is None:
        p = Predictions.from_probabilities(scores, [0, 1, 2])
        assert not np.isnan(p.numpy().logits()).any()
    else:
        with pytest.raises(InputError, match=expected):
            Predictions.from_probabilities(scores, [0, 1, 2])


@given(
    arrays.arrays(
        st.sampled_from([np.float16, np.float32, np.float64]),
        arrays.array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=4),
        elements=st.floats(width=16) | st.sampled_from([6.5e4, -6.5e4, 0.0, -0.0]),
    )
)
def test_finite_is_what_numpy_says(logits: np.ndarray) -> None:
    """NaN and +inf are refused at their place; −inf masks a class, if its row has another."""
    labels = np.zeros(len(logits), int)
    wrong, masked = np.isnan(logits) | np.isposinf(logits), np.isneginf(logits).all(axis=1)
    expected = None
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        expected = rf"at row {row}, column {column}\b"
    elif masked.any():
        expected = rf"row {masked.argmax()} has none"
    if expected is None:
        Predictions.from_logits(logits, labels)
    else:
        with pytest.raises(InputError, match=expected):
            Predictions.from_logits(logits, labels)


def test_large_but_finite_logits() -> None:
    for dtype in (np.float16, np.float32, np.float64):
        largest = np.finfo(dtype).max
        p = Predictions.from_logits(np.array([[largest, largest], [-largest, largest]]), [0, 1])
        assert np.allclose(p.probabilities(), [[0.5, 0.5], [0, 1]])


def test_an_error_far_down_is_found_at_its_row() -> None:
    n = 300_000
    logits = np.zeros((n, 2), np.float32)
    logits[n - 5, 1] = np.nan
    labels = np.zeros(n, int)
    labels[:10] = -100
    for scores in (logits, torch.as_tensor(logits), torch.as_tensor(logits).bfloat16()):
        with pytest.raises(InputError, match=f"at row {n - 5}, column 1"):
            Predictions.from_logits(scores, labels)


def test_other_bad_arguments() -> None:
    with pytest.raises(InputError, match="kind must be 'logits' or 'probabilities', got 'x'"):
        Predictions(LOGITS, np.zeros(3, int), "x")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="3 columns, 2 names"):
        Predictions.from_logits(LOGITS, [0, 1, 2], label_names=["a", "b"])
    with pytest.raises(InputError, match="Group 'g' has 2 values for 3 examples"):
        Predictions.from_logits(LOGITS, [0, 1, 2], groups={"g": [1, 2]})
    with pytest.raises(InputError, match="Group 'g' must hold numbers or text"):
        Predictions.from_logits(LOGITS, [0, 1, 2], groups={"g": [None, 1, "a"]})
    with pytest.raises(InputError, match="Group 'g' must have one value per example"):
        Predictions.from_logits(LOGITS, [0, 1, 2], groups={"g": np.zeros((3, 2))})
    with pytest.raises(InputError, match=r"labels are text .* give them .label_names="):
        Predictions.from_logits(LOGITS, ["a", "b", "c"])
    with pytest.raises(InputError, match="array of numbers"):
        Predictions.from_logits([["a", "b"]], [0])
    with pytest.raises(InputError, match="at least 1 row per part"):
        Predictions.from_logits(LOGITS, [0, 1, 2]).chunks(0)
    p = Predictions.from_logits(LOGITS, [0, 1, 1], label_names=["a", "b", "c"])
    with pytest.raises(InputError, match="2 columns, 3 names"):
        p.with_scores(LOGITS[:, :2], "logits")


def test_groups_of_many_kinds() -> None:
    groups = {
        "text": ["a", "bb", "c"],
        "objects": np.array(["x", "y" * 100, "z"], dtype=object),
        "tensor": torch.tensor([1, 2, 3]),
        "numbers": [1.5, 2.5, 3.5],
    }
    p = Predictions.from_logits(LOGITS, [0, -100, 2], groups=groups)
    assert p.groups["text"].tolist() == ["a", "c"]
    assert p.groups["objects"].tolist() == ["x", "z"]
    assert p.groups["tensor"].tolist() == [1, 3]
    assert isinstance(p.groups["tensor"], np.ndarray)
    assert p.groups["numbers"].tolist() == [1.5, 3.5]


@pytest.mark.parametrize("library", [np.asarray, torch.as_tensor])
def test_rows(library: Any) -> None:
    p = Predictions.from_logits(library(LOGITS), library([0, 1, 2]), groups={"i": [0, 1, 2]})
    selections: list[tuple[Any, list[int]]] = [
        (slice(1, None), [1, 2]),
        (1, [1]),
        (-1, [2]),
        (np.int64(0), [0]),
        ([2, 0], [2, 0]),
        (np.array([True, False, True]), [0, 2]),
        (torch.tensor([True, False, True]), [0, 2]),
        (p.labels > 0, [1, 2]),
        (slice(None, None, -1) if library is np.asarray else [2, 1, 0], [2, 1, 0]),
    ]
    for rows, expected in selections:
        part = p[rows]
        assert part.groups["i"].tolist() == expected
        assert part.labels.tolist() == expected
        assert part.scores.tolist() == LOGITS[expected].tolist()
    assert [len(chunk) for chunk in p.chunks(2)] == [2, 1]


def test_concatenate() -> None:
    a = Predictions.from_logits(LOGITS, [0, -100, 2], groups={"g": ["a", "b", "c"]})
    b = Predictions.from_logits(LOGITS, [1, 1, -100], groups={"g": [1, 2, 3]})
    whole = Predictions.concatenate(iter([a, b]))
    assert whole.labels.tolist() == [0, 2, 1, 1]
    assert whole.groups["g"].tolist() == ["a", "c", "1", "2"]
    assert whole.ignored == 2
    tensor = Predictions.from_logits(torch.eye(3), [0, 1, 2])
    assert isinstance(Predictions.concatenate([tensor, tensor]).scores, torch.Tensor)
    for other, expected in (
        (Predictions.from_probabilities(np.eye(3), [0, 1, 2], groups={"g": [1, 2, 3]}), "kind"),
        (Predictions.from_logits(np.eye(2), [0, 1], groups={"g": [1, 2]}), "classes"),
        (Predictions.from_logits(np.eye(3), [0, 1, 2]), "same groups"),
    ):
        with pytest.raises(InputError, match=expected):
            Predictions.concatenate([a, other])
    with pytest.raises(InputError, match="at least one part"):
        Predictions.concatenate([])


def test_logits_and_probabilities() -> None:
    p = Predictions.from_probabilities([[1.0, 0.0], [0.25, 0.75]], [0, 1])
    assert p.probabilities() is p.scores
    assert p.logits()[0].tolist() == [0.0, -np.inf]
    assert np.allclose(softmax(p.logits()[1:]), [[0.25, 0.75]])
    t = Predictions.from_probabilities(torch.tensor([[1.0, 0.0]]).half(), [0])
    assert t.logits().dtype == torch.float32
    assert t.logits().tolist() == [[0.0, -np.inf]]
    q = Predictions.from_logits(LOGITS, [0, 1, 2])
    assert q.logits() is q.scores
    expected = [[np.exp(v) / np.exp(row).sum() for v in row] for row in LOGITS.astype(float)]
    assert np.allclose(q.probabilities(), expected)
    assert q.probabilities().dtype == np.float32
    half = Predictions.from_logits(LOGITS.astype(np.float16), [0, 1, 2])
    assert half.probabilities().dtype == np.float32


def test_checking_needs_bounded_memory() -> None:
    """240 MB of scores are checked in a few; the same holds for a tensor."""
    program = (
        "import resource, sys, numpy as np; from calibrant import Predictions\n"
        "used = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024\n"
        "p = np.full((600_000, 100), 0.01, np.float32); y = np.zeros(600_000, int)\n"
        "before = used(); make = sys.argv[1]; getattr(Predictions, make)(p, y)\n"
        "print(used() - before)"
    )
    for make in ("from_logits", "from_probabilities"):
        done = subprocess.run(
            [sys.executable, "-c", program, make], capture_output=True, text=True, check=True
        )
        assert float(done.stdout) < 24  # megabytes; the labels' mask takes some


def test_a_loop_over_the_rows_ends():
    p = Predictions.from_probabilities([0.9, 0.2, 0.4], [1, 0, 1])
    assert [int(row.labels[0]) for row in p] == [1, 0, 1]
    assert len(p[-3]) == 1
    for row in (3, -4):
        with pytest.raises(IndexError, match="3 rows"):
            p[row]


def test_a_huge_label_is_named_without_a_warning():
    with pytest.raises(InputError, match="at row 1 is outside"):
        Predictions.from_probabilities([0.9, 0.2], [1.0, 1e30])


@pytest.mark.parametrize("labels", [np.array(["a", "b"], object), np.array(["a", "b"]), ["a", "b"]])
@pytest.mark.parametrize("as_type", [np.asarray, torch.as_tensor])
def test_the_error_for_text_labels_says_what_to_do(labels: Any, as_type: Any) -> None:
    """pandas keeps text as Python objects; torch cannot hold it at all."""
    with pytest.raises(InputError, match=r"are text .'a'.* not known; give them .label_names="):
        Predictions.from_logits(as_type(np.zeros((2, 3))), labels)


def test_the_error_for_uneven_sentences_says_what_to_do() -> None:
    for scores in ([np.zeros((2, 3)), np.zeros((4, 3))], [torch.zeros(2, 3), torch.zeros(4, 3)]):
        with pytest.raises(InputError, match="rows of different lengths; pad them and label the"):
            Predictions.from_logits(scores, [[0, 1], [1, 2, 0, 0]])


@pytest.mark.parametrize("as_type", [np.asarray, torch.as_tensor])
def test_labels_that_are_names(as_type: Any) -> None:
    scores, names = as_type(np.zeros((3, 2))), ["cat", "dog"]
    for labels in (["dog", "cat", None], np.array(["dog", "cat", "nan"]), [b"dog", b"cat", b""]):
        p = Predictions.from_logits(scores, labels, label_names=names)
        assert (p.labels.tolist(), p.ignored, p.unlabelled) == ([1, 0], 1, 1)
    with pytest.raises(InputError, match=r"Label 'cow' is not one of the label names .* at row 1"):
        Predictions.from_logits(scores, ["dog", "cow", "cat"], label_names=names)
    p = Predictions.from_probabilities([0.9, 0.2, 0.4], ["True", "false", ""])
    assert (p.labels.tolist(), p.unlabelled) == ([1, 0], 1)
    assert Predictions.from_probabilities([0.9, 0.2], [True, False]).labels.tolist() == [1, 0]


def test_labels_that_are_a_categorical() -> None:
    pandas = pytest.importorskip("pandas")
    labels = pandas.Categorical(["b", "a", None, "c"])
    for column in (labels, pandas.Series(labels)):
        p = Predictions.from_logits(np.eye(4)[:, :3], column)
        assert (p.labels.tolist(), p.label_names, p.unlabelled) == ([1, 0, 2], ("a", "b", "c"), 1)
        assert p.rows is not None
        assert p.rows.tolist() == [0, 1, 3]
        q = Predictions.from_logits(np.eye(4)[:, :3], column, label_names=["c", "b", "a"])
        assert q.labels.tolist() == [1, 2, 0]
    with pytest.raises(InputError, match="as many categories as columns of scores, got 3 and 4"):
        Predictions.from_logits(np.eye(4), labels)
    numbers = pandas.Categorical([2, 0, None])  # Class numbers, though only two of them occur.
    p = Predictions.from_logits(np.eye(3), numbers)
    assert (p.labels.tolist(), p.unlabelled) == ([2, 0], 1)


@pytest.mark.parametrize("as_type", [np.asarray, torch.as_tensor])
def test_rows_without_a_label_are_dropped_and_counted(as_type: Any) -> None:
    scores, labels = as_type(np.eye(3)), as_type(np.array([np.nan, 1, -100]))
    p = Predictions.from_logits(scores, labels)
    assert (len(p), p.ignored, p.unlabelled) == (1, 2, 1)
    both = Predictions.concatenate([p, p])
    assert (both.ignored, both.unlabelled) == (4, 2)
    assert p.with_scores(p.probabilities(), "probabilities").unlabelled == 1
    assert p.with_checked_scores(p.scores, "logits").unlabelled == 1
    assert p[:1].unlabelled == 0


@pytest.mark.parametrize("row", [[0.5, 0.3, 0.19], [0.33, 0.33, 0.33], [0.51, 0.3, 0.2]])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_probabilities_of_two_digits(row, dtype):
    """Their sum of 0.99 or 1.01 misses 1 by a little more than 0.01."""
    assert len(Predictions.from_probabilities(np.array([row], dtype), [0])) == 1
    with pytest.raises(InputError, match="Divide rounded rows by their sum"):
        Predictions.from_probabilities(np.array([[*row[:2], row[2] - 0.05]], dtype), [0])


@pytest.mark.parametrize(
    ("classes", "digits", "dtype"),
    [(7, 2, "f2"), (7, 2, "f8"), (30, 2, "f4"), (100, 2, "f2"), (717, 3, "f4"), (717, 3, "f8")],
)
def test_the_error_of_rounding_grows_with_the_classes(classes, digits, dtype):
    """Each of K values misses by up to half of its last digit, so sums like 0.96 are no fault."""
    random = np.random.default_rng(classes)
    whole = random.dirichlet(np.ones(classes), 400)
    written = whole.round(digits)
    miss = abs(written.sum(axis=1) - 1)
    assert (miss > 0.0101).any()
    assert len(Predictions.from_probabilities(written.astype(dtype), [0] * 400)) == 400


def test_what_rounding_does_not_explain_is_refused():
    even = np.full(40, 0.025)
    for row in (np.zeros(40), even.round(2) + 0.02, np.where(even > 0, 0.0251, 0) * 1.02):
        with pytest.raises(InputError, match="which rounding does not explain"):
            Predictions.from_probabilities(row[None], [0])
