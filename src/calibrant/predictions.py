"""Predictions: the one record that training ends with and everything after starts from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from calibrant.arrays import (
    Array,
    as_array,
    is_tensor,
    join_arrays,
    to_numpy,
)
from calibrant.conversion import (
    check_order,
    column_names,
    flattened,
    floating,
    group_column,
    labels_beside,
    signal_column,
    two_columns,
    weight_column,
)
from calibrant.errors import InputError
from calibrant.joining import Weighted, agreeing, joined_columns
from calibrant.labels import as_labels, of_positive, positive_names
from calibrant.validation import (
    RowError,
    check_labels,
    check_logits,
    check_probabilities,
    check_shapes,
    check_signals,
    named_columns,
)

if TYPE_CHECKING:
    from calibrant.claims import Claims
    from calibrant.files import Columns, Paths

__all__ = [
    "IGNORED",
    "Kind",
    "Predictions",
    "selected_rows",
    "softmax",
]

Kind: TypeAlias = Literal["logits", "probabilities"]

# The label of padding, special tokens and non-first word pieces, as everywhere in PyTorch.
IGNORED = -100


@dataclass(frozen=True, eq=False)
class Predictions(Weighted):
    """Scores of a classifier on n examples and K classes, with the true labels.

    Made by :meth:`from_logits` or :meth:`from_probabilities`, which say what the scores are; it is
    never guessed. Examples labelled −100 are dropped once, here, and counted in ``ignored``.

    ``scores`` has shape (n, K) and keeps its type and device (NumPy array or torch tensor);
    ``labels`` has shape (n,); ``groups`` holds columns of n values each (sentence, position,
    fold, …), as NumPy arrays; ``label_names`` holds K names. The record is frozen, but arrays are
    not copied: who changes them in place afterwards changes what was checked. ``rows`` holds the
    place of each example before the drop, or None where nothing was dropped. ``signals`` holds
    columns of n finite numbers that say how hard an example looks (pieces of a word, distance to
    the training data, …); calibrators that stay honest under shift read them. Rows without a label
    (None, NaN) are dropped too: they count in ``ignored`` and, separately, in ``unlabelled``.
    Labels may be names if ``label_names`` has them, truth values, or a pandas Categorical.
    ``weights`` says how much each example counts (n numbers ≥ 0, float64), or is None if all count
    alike. A weight of 2 equals the same row twice. A row of weight 0 is dropped and counts in
    ``ignored``. See docs/decisions/0021-sample-weights.md.

    >>> p = Predictions.from_logits([[2.0, 0.0], [0.0, 1.0], [3.0, 0.0]], [0, 0, -100])
    >>> p
    Predictions(n=2, classes=2, kind='logits', ignored=1)
    >>> p.probabilities().round(3)
    array([[0.881, 0.119],
           [0.269, 0.731]])
    """

    scores: Array
    labels: Array
    kind: Kind
    label_names: tuple[str, ...] | None = None
    groups: Mapping[str, np.ndarray] = field(default_factory=dict)
    ignored: int = 0
    rows: np.ndarray | None = None
    signals: Mapping[str, np.ndarray] = field(default_factory=dict)
    unlabelled: int = 0
    weights: np.ndarray | None = None

    @classmethod
    def from_logits(
        cls,
        logits: Any,
        labels: Any,
        *,
        label_names: Sequence[str] | None = None,
        positive: Any = None,
        groups: Mapping[str, Any] | None = None,
        signals: Mapping[str, Any] | None = None,
        weights: Any = None,
    ) -> Predictions:
        """Take unnormalised scores of shape (…, K), or (n,) for the logit of class 1 of two.

        Further axes are flattened: (sentences, words, K) with labels (sentences, words) gets a
        group ``sentence``, four axes a group ``image``; groups, signals and weights may have the
        shape of the labels or one value per sentence.

        >>> Predictions.from_logits([[[1, 0], [0, 2]]], [[0, -100]]).groups
        {'sentence': array([0])}
        """
        if positive is not None:
            label_names, labels = positive_names(positive), of_positive(labels, positive)
        return cls._from("logits", logits, labels, label_names, groups, signals, weights)

    @classmethod
    def from_probabilities(
        cls,
        probabilities: Any,
        labels: Any,
        *,
        label_names: Sequence[str] | None = None,
        positive: Any = None,
        groups: Mapping[str, Any] | None = None,
        signals: Mapping[str, Any] | None = None,
        weights: Any = None,
    ) -> Predictions:
        """Take rows that sum to 1, of shape (…, K), or (n,) for P(class 1) of two classes.

        ``positive`` is the label of class 1 of two, as text or a number; every other label is
        class 0.

        >>> Predictions.from_probabilities([0.9, 0.2], ["spam", "ham"], positive="spam").labels
        array([1, 0])
        """
        if positive is not None:
            label_names, labels = positive_names(positive), of_positive(labels, positive)
        return cls._from(
            "probabilities", probabilities, labels, label_names, groups, signals, weights
        )

    @staticmethod
    def from_top_label(
        predicted: Any, confidence: Any, labels: Any = None, **options: Any
    ) -> Claims:
        """Labels and confidences alone: :meth:`calibrant.Claims.from_top_label`."""
        from calibrant.claims import Claims

        return Claims.from_top_label(predicted, confidence, labels, **options)

    @staticmethod
    def from_frame(frame: Any, columns: Columns | None = None, **options: Any) -> Any:
        """Take a pandas, polars or Arrow table, with the column names of a file.

        See :func:`calibrant.files.from_frame`, which returns Predictions, or Claims for top labels.
        """
        from calibrant import files

        return files.from_frame(frame, columns or files.Columns(), **options)

    @staticmethod
    def from_multi_label(probabilities: Any, labels: Any, **options: Any) -> Claims:
        """Take K independent probabilities: :meth:`calibrant.Claims.from_multi_label`."""
        from calibrant.claims import Claims

        return Claims.from_multi_label(probabilities, labels, **options)

    @classmethod
    def _from(
        cls,
        kind: Kind,
        scores: Any,
        labels: Any,
        label_names: Sequence[str] | None,
        groups: Mapping[str, Any] | None,
        signals: Mapping[str, Any] | None,
        weights: Any,
    ) -> Predictions:
        columns, scores = column_names(scores), floating(as_array(scores), kind)
        if scores.ndim == 1:
            scores = two_columns(scores, kind)
        names = None if label_names is None else tuple(str(name) for name in label_names)
        labels, names = as_labels(labels, names, int(scores.shape[-1]) if scores.ndim else 0)
        check_order(columns, names)
        scores, labels, groups, signals, weights = flattened(
            scores,
            labels,
            named_columns("groups", groups),
            named_columns("signals", signals),
            weights,
        )
        names = None if names is None else tuple(names)
        return cls(scores, labels, kind, names, groups, signals=signals, weights=weights)

    def __post_init__(self) -> None:
        check_shapes(
            self.kind, self.scores, self.labels, self.label_names, self.groups, self.signals
        )
        labels, unlabelled = labels_beside(self.labels, self.scores)
        groups = {name: group_column(name, column) for name, column in self.groups.items()}
        signals = {name: signal_column(name, column) for name, column in self.signals.items()}
        scores, rows, kept, weights = self.scores, self.rows, labels != IGNORED, self.weights
        if weights is not None:
            weights = weight_column(weights, to_numpy(kept))
            kept = weights > 0  # It is 0 where the label is −100.
        dropped = int(labels.shape[0]) - int(kept.sum())
        if dropped:
            scores, labels = _rows(scores, kept), _rows(labels, kept)
            keep = to_numpy(kept)
            weights = None if weights is None else weights[keep]
            groups = {name: column[keep] for name, column in groups.items()}
            signals = {name: column[keep] for name, column in signals.items()}
            rows = keep.nonzero()[0] if rows is None else rows[keep]
        try:
            check_labels(labels, self.classes)
            (check_logits if self.kind == "logits" else check_probabilities)(scores)
            check_signals(signals)
        except RowError as error:  # Its rows are numbered after the drop, the user's before.
            raise RowError(error.message, int(to_numpy(kept).nonzero()[0][error.row])) from None
        values = {"scores": scores, "labels": labels, "groups": groups, "signals": signals}
        values |= {"rows": rows, "ignored": self.ignored + dropped, "weights": weights}
        for name, value in {**values, "unlabelled": self.unlabelled + unlabelled}.items():
            object.__setattr__(self, name, value)  # Frozen for everybody but the constructor.

    @classmethod
    def concatenate(cls, parts: Iterable[Predictions]) -> Predictions:
        """Join all parts, which must agree in kind, classes and names of labels and groups.

        >>> p = Predictions.from_logits([[1.0, 0.0]], [0])
        >>> Predictions.concatenate([p, p])
        Predictions(n=2, classes=2, kind='logits', ignored=0)
        """
        parts = agreeing(cls, parts, ("kind", "classes", "label_names"))
        first = parts[0]
        if len(parts) == 1:
            return first
        scores = join_arrays([part.scores for part in parts])
        labels = join_arrays([part.labels for part in parts])
        return _checked(scores, labels, first.kind, first.label_names, *joined_columns(parts))

    @classmethod
    def read(
        cls, paths: Paths, columns: Columns | None = None, kind: Kind | None = None
    ) -> Predictions:
        """Read a file, a folder of shards or a glob: :func:`calibrant.files.read`."""
        from calibrant import files

        found = files.read(paths, columns or files.Columns(), kind)
        if not isinstance(found, Predictions):
            raise InputError(
                "The file holds predictions with one confidence each, not the scores of all "
                "classes, which Predictions has; calibrant.read reads it as Claims."
            )
        return found

    def write(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write a file in the format of its suffix: :func:`calibrant.files.write`."""
        from calibrant import files

        files.write(self, path, overwrite=overwrite)

    def __repr__(self) -> str:
        return (
            f"Predictions(n={len(self)}, classes={self.classes}, kind={self.kind!r}, "
            f"ignored={self.ignored})"
        )

    def __len__(self) -> int:
        return int(self.scores.shape[0])

    @property
    def classes(self) -> int:
        """K, the number of columns; a class that never occurs counts."""
        return int(self.scores.shape[1])

    @property
    def names(self) -> tuple[str, ...]:
        """The label names, or the column numbers as text if there are none."""
        return self.label_names or tuple(str(k) for k in range(self.classes))

    def __getitem__(self, rows: Any) -> Predictions:
        """Return the predictions of some rows: a slice, a mask or an array of indices.

        ``ignored`` and ``rows`` are about what was dropped when the whole was made, so a part
        starts without.
        """
        index = selected_rows(rows, len(self))
        groups = {name: column[index] for name, column in self.groups.items()}
        signals = {name: column[index] for name, column in self.signals.items()}
        scores, labels = _rows(self.scores, index), _rows(self.labels, index)
        weights = None if self.weights is None else self.weights[index]
        about = (groups, 0, None, signals, 0, weights)
        return _checked(scores, labels, self.kind, self.label_names, *about)

    def chunks(self, rows: int) -> Iterator[Predictions]:
        """Yield consecutive parts of at most ``rows`` rows, without a copy."""
        if rows < 1:
            raise InputError(f"chunks expects at least 1 row per part, got {rows}.")
        return (self[start : start + rows] for start in range(0, len(self), rows))

    def probabilities(self) -> Array:
        """Return the scores as probabilities (n, K): softmax of logits in at least float32."""
        return self.scores if self.kind == "probabilities" else softmax(self.scores)

    def logits(self) -> Array:
        """Return the scores as logits; of probabilities, their logarithms (log 0 = −inf)."""
        if self.kind == "logits":
            return self.scores
        wide = _at_least_float32(self.scores)
        if is_tensor(wide):
            return wide.clamp(min=0).log()  # −1e-9 is within the tolerance of a probability.
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(wide, 0))

    def with_scores(self, scores: Any, kind: Kind) -> Predictions:
        """Return the same examples with other scores, as a calibrator makes them."""
        return replace(self, scores=floating(as_array(scores), kind), kind=kind)

    def with_checked_scores(self, scores: Array, kind: Kind) -> Predictions:
        """:meth:`with_scores` for scores that need no check: softmax or logarithm of these."""
        about = (self.groups, self.ignored, self.rows, self.signals, self.unlabelled, self.weights)
        return _checked(scores, self.labels, kind, self.label_names, *about)

    def with_signals(self, signals: Mapping[str, Any]) -> Predictions:
        """Return the same examples with these signals added or replaced.

        >>> p = Predictions.from_logits([[2.0, 0.0], [0.0, 1.0]], [0, 1])
        >>> p.with_signals({"pieces": [1, 3]}).signals
        {'pieces': array([1., 3.])}
        """
        return replace(self, signals={**self.signals, **named_columns("signals", signals)})

    def numpy(self) -> Predictions:
        """Return the same predictions on the host as NumPy arrays."""
        if not is_tensor(self.scores):
            return self
        return replace(self, scores=to_numpy(self.scores), labels=to_numpy(self.labels))


def softmax(logits: Array) -> Array:
    """exp(l_k) / Σ_j exp(l_j), in float32 or better: in half precision it saturates too early.

    >>> softmax(np.array([[1000.0, 1000.0]]))
    array([[0.5, 0.5]])
    """
    wide = _at_least_float32(logits)
    if is_tensor(wide):
        return wide.softmax(-1)
    with np.errstate(over="ignore"):  # A class ruled out by the lowest float: −∞, so exp gives 0.
        exponentials = np.exp(wide - wide.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def _at_least_float32(scores: Array) -> Array:
    if scores.itemsize >= 4:
        return scores
    return scores.float() if is_tensor(scores) else scores.astype(np.float32)


def _checked(
    scores: Array,
    labels: Array,
    kind: Kind,
    label_names: tuple[str, ...] | None,
    groups: Mapping[str, np.ndarray],
    ignored: int,
    row_numbers: np.ndarray | None,
    signals: Mapping[str, np.ndarray],
    unlabelled: int,
    weights: np.ndarray | None,
) -> Predictions:
    """Make predictions from checked ones without checking them again."""
    made = object.__new__(Predictions)
    values = (scores, labels, kind, label_names, groups, ignored, row_numbers, signals)
    fields = zip(Predictions.__dataclass_fields__, (*values, unlabelled, weights), strict=True)
    for name, value in fields:
        object.__setattr__(made, name, value)
    return made


def selected_rows(rows: Any, n: int) -> Any:
    """Return a slice, or an array of indices or truth values, for what brackets may hold."""
    if isinstance(rows, (int, np.integer)):
        if not -n <= rows < n:  # Also what ends a loop over the rows.
            raise IndexError(f"Row {rows} of predictions with {n} rows.")
        return slice(rows, rows + 1 or None)  # The last row is −1, and −1 + 1 would not be the end.
    return rows if isinstance(rows, slice) else np.asarray(to_numpy(rows))


def _rows(array: Array, index: Any) -> Array:
    if is_tensor(array) and not isinstance(index, slice):
        import torch

        return array[torch.as_tensor(index, device=array.device)]
    return array[index]
