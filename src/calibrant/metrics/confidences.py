"""The state of metrics that need every confidence: two numbers per example for any K."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from calibrant.arguments import check_each, check_kind
from calibrant.arrays import is_tensor, to_numpy
from calibrant.claims import Claims
from calibrant.conversion import weight_column
from calibrant.errors import InputError
from calibrant.joining import joined_weights
from calibrant.metrics.accumulate import edge_type
from calibrant.metrics.bins import Bins, Closed
from calibrant.metrics.kernel_dispatch import kernels_for, plain, spread
from calibrant.metrics.state import CalibrationState, times
from calibrant.metrics.state_bytes import check_complete, json_column, json_object
from calibrant.predictions import Predictions, softmax

__all__ = [
    "Confidences",
    "TopLabel",
    "bin_confidences",
    "confidences",
    "given_type",
    "top_label",
]

TopLabel: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]  # confidence, class, correctness

_TYPES = ("float64", "float32", "float16")


@dataclass(frozen=True, eq=False)
class Confidences:
    """Confidence and correctness of each example, optionally its bootstrap block and its weight.

    Adding two states concatenates their examples. Metrics sort the examples first and
    treat tied confidences as one step, so the order of examples or shards does not matter.
    ``given`` is the type in which the confidences came, to which edges of bins are rounded.

    >>> a = Confidences(np.array([0.9, 0.6]), np.array([True, False]))
    >>> len(a + a)
    4
    """

    confidence: np.ndarray
    correct: np.ndarray
    block: np.ndarray | None = field(default=None)
    weights: np.ndarray | None = None
    given: str = "float64"

    def __post_init__(self) -> None:
        shapes = {np.shape(a) for a in (self.confidence, self.correct)}
        if len(shapes) != 1 or len(next(iter(shapes))) != 1:
            raise InputError(
                "Confidences expects two arrays of shape (n,), got "
                f"{np.shape(self.confidence)} and {np.shape(self.correct)}."
            )
        if self.block is not None and np.shape(self.block) != np.shape(self.confidence):
            raise InputError(
                f"Confidences expects one block per example, got {np.shape(self.block)} blocks "
                f"for {len(self.confidence)} examples."
            )
        object.__setattr__(self, "confidence", np.asarray(to_numpy(self.confidence), np.float64))
        object.__setattr__(self, "correct", np.asarray(to_numpy(self.correct), bool))
        if not np.isfinite(self.confidence).all():
            raise InputError("Confidences must be finite numbers, got NaN or infinity.")
        if self.weights is not None:
            weights = weight_column(self.weights, np.ones(len(self), bool), some=False)
            object.__setattr__(self, "weights", weights)

    @property
    def weighted(self) -> bool:
        """Whether the examples have sample weights."""
        return self.weights is not None

    def __len__(self) -> int:
        return len(self.confidence)

    def __getitem__(self, rows: np.ndarray | slice) -> Confidences:
        """Select examples by a mask, an array of indices or a slice."""
        block, weights = (None if c is None else c[rows] for c in (self.block, self.weights))
        columns = self.confidence[rows], self.correct[rows], block, weights
        return Confidences(*columns, self.given)

    def __add__(self, other: Confidences) -> Confidences:
        if not isinstance(other, Confidences):
            return NotImplemented
        return Confidences.concatenate([self, other])

    def __radd__(self, other: object) -> Confidences:
        return self if other == 0 else NotImplemented  # This makes sum(states) work.

    @classmethod
    def concatenate(cls, parts: list[Confidences]) -> Confidences:
        """Add many states in one copy."""
        check_each("Confidences.concatenate", parts, Confidences)
        if not parts:
            return cls(np.empty(0), np.empty(0, bool))
        blocks = [p.block for p in parts if p.block is not None]
        return cls(
            np.concatenate([p.confidence for p in parts]),
            np.concatenate([p.correct for p in parts]),
            np.concatenate(blocks) if len(blocks) == len(parts) else None,
            joined_weights(parts),
            np.result_type(*(p.given for p in parts)).name,
        )

    def to_json(self) -> str:
        """Return one line of JSON; :meth:`from_json` restores the same state, to the last bit."""
        columns = ("confidence", "correct", "block", "weights")
        present = {c: getattr(self, c).tolist() for c in columns if getattr(self, c) is not None}
        narrow = {"given": self.given} if self.given != "float64" else {}
        return json.dumps(present | narrow)

    @classmethod
    def from_json(cls, text: str) -> Confidences:
        """Read the output of :meth:`to_json`."""
        content, name = json_object(cls.__name__, text), cls.__name__
        extra = {column for column in ("block", "weights") if column in content}
        given = str(content.pop("given", "float64"))
        if given not in _TYPES:
            raise InputError(f"from_json: the {name} has confidences of unknown type '{given}'.")
        check_complete(name, {"confidence", "correct"} | extra, content, "from_json")
        types = {"confidence": np.float64, "correct": bool, "block": np.int64}
        columns = {c: json_column(name, c, v, types.get(c)) for c, v in content.items()}
        return cls(**columns, given=given)


def confidences(
    source: Predictions | Claims | Confidences, block: np.ndarray | None = None
) -> Confidences:
    """Return the state of ``source``, with any given bootstrap blocks; a state stays unchanged.

    >>> state = confidences(Predictions.from_probabilities([[0.9, 0.1], [0.3, 0.7]], [0, 0]))
    >>> state.confidence, state.correct
    (array([0.9, 0.7]), array([ True, False]))
    """
    if isinstance(source, Confidences):
        return source
    check_kind("This metric", source, Predictions, Claims, Confidences)
    confidence, _, correct = top_label(source)
    return Confidences(confidence, correct, block, source.weights, given_type(source).name)


def given_type(source: Predictions | Claims) -> np.dtype:
    """Return the type in which confidences are compared with the edges of bins."""
    if isinstance(source, Claims):
        return source.confidence.dtype
    return edge_type(source.kind, source.scores)


def top_label(predictions: Predictions | Claims) -> TopLabel:
    """Return confidence, predicted class and correctness; the first of equal maxima wins.

    Of claims, the class is the label that each is about, or 0.

    >>> top_label(Predictions.from_probabilities([[0.9, 0.1], [0.5, 0.5]], [1, 0]))
    (array([0.9, 0.5]), array([0, 0]), array([False,  True]))
    """
    check_kind("top_label", predictions, Predictions, Claims)
    if isinstance(predictions, Claims):
        p, about = predictions, predictions.about
        about = np.zeros(len(p), np.int64) if about is None else about
        return p.confidence.astype(np.float64, copy=False), about, p.correct
    if (module := kernels_for(predictions)) is not None:
        return _compiled_top_label(predictions, module)
    parts = [_top_label(part) for part in predictions.chunks(_rows(predictions))]
    if not parts:
        return np.empty(0), np.empty(0, np.int64), np.empty(0, bool)
    confidence, predicted, correct = (np.concatenate(column) for column in zip(*parts, strict=True))
    return confidence, predicted, correct


def _compiled_top_label(p: Predictions, kernels: ModuleType) -> TopLabel:
    confidence, predicted = np.empty(len(p)), np.empty(len(p), np.int64)

    def write(start: int, stop: int) -> None:
        scores, rows = plain(p.scores[start:stop]), slice(start, stop)
        kernels.top_rows(scores, p.kind == "logits", confidence[rows], predicted[rows])

    for _ in spread(write, len(p), p.classes):
        pass  # Each part writes its own rows.
    return confidence, predicted, predicted == to_numpy(p.labels)


def _rows(predictions: Predictions) -> int:
    return max(1, (1 << 18) // predictions.classes)


def _top_label(part: Predictions) -> TopLabel:
    if is_tensor(part.scores):
        from calibrant.metrics.tensors import widest

        predicted = part.scores.argmax(dim=1)
        scores = part.scores.to(widest(part.scores.device))
        scores = scores if part.kind == "probabilities" else scores.softmax(dim=1)
        confidence = scores.gather(1, predicted[:, None])[:, 0]
        return to_numpy(confidence), to_numpy(predicted), to_numpy(predicted == part.labels)
    predicted = part.scores.argmax(axis=1)
    scores = part.scores.astype(np.float64, copy=False)
    scores = scores if part.kind == "probabilities" else softmax(scores)
    return scores[np.arange(len(part)), predicted], predicted, predicted == part.labels


def bin_confidences(
    state: Confidences,
    bins: int | Bins = 15,
    *,
    closed: Closed = "right",
    cell: np.ndarray | None = None,
    cells: tuple[int, ...] = (),
) -> CalibrationState:
    """Return the calibration state of confidences, for binned metrics and diagrams.

    Its two classes are wrong and right, and the prediction is always "right", with probability c:
    the NLL is that of c as the chance of being right, the Brier score 2 (c − a)². There are no
    classwise tables. With ``cell``, the (flat) place of each example in leading axes of shape
    ``cells``, there is one state per place.

    >>> from calibrant.metrics import ece
    >>> c = Confidences(np.array([0.9, 0.8]), np.array([True, False]))
    >>> round(ece(bin_confidences(c)), 3)
    0.45
    """
    check_kind("bin_confidences", state, Confidences)
    bins = bins if isinstance(bins, Bins) else Bins(bins, closed)
    lead = (int(np.prod(cells)),)
    place = np.zeros(len(state), np.int64) if cell is None else cell
    confidence, right = np.clip(state.confidence, 0, 1), state.correct
    bin_ = bins.index(confidence.astype(state.given, copy=False))
    with np.errstate(divide="ignore"):  # Certain and wrong: the log-likelihood is −∞.
        nll = -np.log(np.where(right, confidence, 1 - confidence))
    w = state.weights
    each = {"correct": right, "nll": nll, "brier": 2 * (confidence - right) ** 2}
    columns = {"count": w, "confidence": times(confidence, w), "correct": times(right, w)}
    empty = CalibrationState.empty(2, bins, classwise=False, blocks=lead, weighted=w is not None)
    sums: dict[str, tuple[np.ndarray, Any]] = {"n": (place, w)}
    sums |= {name: (place, times(values, w)) for name, values in each.items()}
    for name, weights in columns.items():
        sums[f"top_{name}"] = (place * bins.count + bin_, weights)
        sums[f"predicted_{name}"] = (2 * place + 1, weights)
    sums["label_count"] = (2 * place + right, w)
    tables = {}
    for name in CalibrationState.SUMS:
        zero = getattr(empty, name)
        table = zero
        if name in sums:
            where, values = sums[name]
            table = np.bincount(where, values, minlength=zero.size).astype(zero.dtype)
        tables[name] = table.reshape(cells + zero.shape[1:])
    return replace(empty, **tables)
