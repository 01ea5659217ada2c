"""What is of the wrong kind ends in one line that says what is expected, in every public name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant import CalibrationState, Claims, InputError, Predictions, metrics
from calibrant.arrays import as_array
from calibrant.metrics import Confidences, ConfidenceSketch

RANDOM = np.random.default_rng(0)
FULL = Predictions.from_probabilities(RANDOM.dirichlet(np.ones(3), 30), RANDOM.integers(0, 3, 30))
TOP = Claims.from_top_label(["a", "b"], [0.9, 0.8], ["a", "a"])
MANY = Claims.from_multi_label(RANDOM.random((9, 3)), RANDOM.integers(0, 2, (9, 3)))
KEPT = metrics.confidences(FULL)
WRONG: dict[str, Any] = {
    "claims": TOP,
    "multi-label claims": MANY,
    "a state": metrics.accumulate(FULL),
    "confidences": KEPT,
    "a sketch": ConfidenceSketch.of(KEPT),
    "None": None,
    "a number": 3,
    "text": "abc",
    "a list": [1, 2],
    "a row": np.ones(3),
    "a table": np.ones((3, 2)),
    "a cube": np.ones((2, 2, 2)),
    "complex numbers": np.ones((3, 2), complex),
    "a dict": {"a": 1},
    "an object": object(),
    "parts": [FULL, FULL],
    "predictions": FULL,
    "no rows": FULL[:0],
}
SLOW = {"audit", "compare", "interval", "wrap", "Trainer", "select_calibrator", "main"}


def one_argument() -> dict[str, Callable[..., Any]]:
    """Every public function that needs one argument, and constructors of data."""
    found = {}
    for module in (calibrant, metrics):
        for name in module.__all__:
            if name in SLOW or not callable(thing := getattr(module, name)):
                continue
            if not inspect.isclass(thing):
                needed = [
                    p
                    for p in inspect.signature(thing).parameters.values()
                    if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD
                ]
                if len(needed) == 1 and not name.startswith(("load", "register")):
                    found[name] = thing
                continue
            for maker in ("of_positive", "concatenate", "from_bytes", "from_json", "from_frame"):
                if hasattr(thing, maker):
                    found[f"{name}.{maker}"] = getattr(thing, maker)
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", one_argument())
def test_one_argument_of_any_kind(name: str) -> None:
    """Return something, or say in one line what is wrong."""
    for given in WRONG.values():
        message = ""
        try:
            one_argument()[name](given)
        except InputError as error:
            message = str(error)
        assert "\n" not in message


@pytest.mark.parametrize("value", [FULL, TOP, KEPT, [FULL, FULL], (TOP,), metrics.accumulate(FULL)])
def test_predictions_are_no_array(value: Any) -> None:
    """NumPy takes rows of rows of rows: without an error this would not end."""
    with pytest.raises(InputError, match="Expected an array of numbers, got"):
        as_array(value)
    with pytest.raises(InputError, match="Expected an array of numbers, got"):
        Predictions.from_probabilities(FULL.scores, value)


@pytest.mark.parametrize(
    ("who", "function"),
    [
        ("audit", calibrant.audit),
        ("guarantee", calibrant.guarantee),
        ("Temperature.fit", calibrant.Temperature().fit),
        ("VennAbers.fit", calibrant.VennAbers().fit),
    ],
)
def test_two_arrays_are_no_predictions(who: str, function: Any) -> None:
    """Metrics take them, and fit(p, y) is what other libraries call."""
    expected = rf"^{who} takes one argument, predictions, .* Predictions.from_probabilities\(prob"
    for arrays in ((np.full((4, 2), 0.5), [0, 1, 0, 1]), ([0.9, 0.1], np.array([1, 0]))):
        with pytest.raises(InputError, match=expected):
            function(*arrays)


def test_tables_are_no_paths() -> None:
    pandas = pytest.importorskip("pandas")
    for table in (pandas.DataFrame({"y": [1]}), FULL, {"a": 1}.items(), 3):
        with pytest.raises(InputError, match=r"A file, a folder .* Predictions.from_frame"):
            calibrant.read(table)  # type: ignore[arg-type]


def test_a_report_takes_audits(tmp_path: Any) -> None:
    for given in (FULL, [1], {"a": FULL}, None):
        with pytest.raises(InputError, match="A report takes an audit"):
            calibrant.write_report(given, tmp_path / "x.html")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_frames_of_single_values_and_other_columns() -> None:
    with pytest.raises(InputError, match="a list or an array as column 'y_prob'"):
        Predictions.from_frame({"y_prob": 0.3, "y_true": 1})
    with pytest.raises(InputError, match="from_frame takes Columns"):
        Predictions.from_frame({"y_prob": [0.3], "y_true": [1]}, ["y_prob"])


def test_labels_that_are_no_labels() -> None:
    with pytest.raises(InputError, match="Labels must be texts or numbers"):
        Predictions.from_top_label([{"a": 1}], [0.5], [{"a": 1}])


def test_apcr_of_two_shapes() -> None:
    with pytest.raises(InputError, match=r"one shape, got \(2,\) and \(3,\)"):
        metrics.apcr(np.ones(2), np.ones(3))
    assert isinstance(
        CalibrationState.from_bytes(metrics.accumulate(FULL).to_bytes()), CalibrationState
    )
    assert len(Confidences.concatenate([KEPT, KEPT])) == 60


def test_labels_of_minus_one_and_one() -> None:
    with pytest.raises(InputError, match=r"outside 0..1 .* \(labels > 0\)"):
        Predictions.from_probabilities([0.2, 0.9], [-1, 1])
    with pytest.raises(InputError, match="−100 marks examples to ignore"):
        Predictions.from_probabilities([[0.2, 0.8], [0.9, 0.1]], [-1, 0])


def test_sparse_tables_of_labels() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    scores, labels = [[0.9, 0.2], [0.4, 0.7]], np.array([[1, 0], [0, 1]])
    found = Claims.from_multi_label(scores, sparse.csr_matrix(labels))
    assert found.correct.tolist() == [True, False, False, True]
