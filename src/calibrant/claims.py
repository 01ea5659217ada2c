"""Claims: predictions with one probability each, where the scores of all classes are not known.

A claim is a statement with a probability, which came true or did not: "the predicted label is
right", "this is positive", "label k applies". See docs/decisions/0017-kinds-of-predictions.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any, Literal, TypeAlias

import numpy as np

from calibrant.arguments import check_kind
from calibrant.arrays import as_array, to_numpy
from calibrant.claim_inputs import (
    IGNORED_LABEL,
    check_confidence,
    check_predicted,
    confidence_numbers,
    label_codes,
    label_scores,
    label_table,
    outcomes,
    repeated,
    separate_examples,
)
from calibrant.conversion import group_column, signal_column, weight_column
from calibrant.encoding import Encoded, joined_names
from calibrant.errors import InputError
from calibrant.joining import Weighted, agreeing, joined_columns
from calibrant.predictions import Predictions, selected_rows, softmax
from calibrant.validation import RowError, check_signals, named_columns

__all__ = ["ClaimKind", "Claims"]

ClaimKind: TypeAlias = Literal["top-label", "positive", "multi-label"]


@dataclass(frozen=True, eq=False)
class Claims(Weighted):
    """n statements, each with its probability, and whether it came true.

    Made by :meth:`from_top_label` (the predicted label is right), :meth:`of_positive` (the example
    is positive) or :meth:`from_multi_label` (label k applies). Metrics, calibrators, audits and
    comparisons take claims like :class:`~calibrant.Predictions`, unless they need the scores of all
    classes.

    ``confidence`` and ``correct`` have shape (n,). ``about`` gives the label that each claim is
    about, ``truth`` the true label, both as places in ``label_names``; either may be None.
    ``groups``, ``signals``, ``ignored``, ``unlabelled``, ``rows`` and ``weights`` are those of
    predictions. ``missing_texts`` are true labels such as "NA" that were read as no label.

    >>> claims = Claims.from_top_label(["cat", "dog", "cat"], [0.9, 0.8, 0.6], ["cat", "cat", None])
    >>> claims
    Claims(n=2, kind='top-label', ignored=1)
    >>> claims.correct
    array([ True, False])
    """

    confidence: np.ndarray
    correct: np.ndarray
    kind: ClaimKind = "top-label"
    about: np.ndarray | None = None
    truth: np.ndarray | None = None
    label_names: tuple[str, ...] | None = None
    groups: Mapping[str, np.ndarray] = field(default_factory=dict)
    ignored: int = 0
    rows: np.ndarray | None = None
    signals: Mapping[str, np.ndarray] = field(default_factory=dict)
    unlabelled: int = 0
    weights: np.ndarray | None = None
    missing_texts: tuple[str, ...] = ()

    classes = 2  # A claim comes true or not.

    @classmethod
    def from_top_label(
        cls,
        predicted: Any,
        confidence: Any,
        labels: Any = None,
        *,
        correct: Any = None,
        groups: Mapping[str, Any] | None = None,
        signals: Mapping[str, Any] | None = None,
        weights: Any = None,
        label_names: Sequence[str] | None = None,
    ) -> Claims:
        """Make claims of predicted labels, their confidences, and true labels or ``correct``.

        Labels are text or numbers; they are compared as text, and 1.0 is 1. ``predicted`` may be
        None if ``correct`` is given. Rows with a label of −100, or without a label (None, NaN), are
        dropped and counted. So is a text such as "NA" or "None", unless a class has this name: it
        is predicted, or among the ``label_names``.
        """
        confidence = confidence_numbers(confidence)
        n = len(confidence)
        about, truth, names, missing_texts = label_codes(predicted, labels, n, label_names or ())
        right, ignored, missing = outcomes(about, truth, names, correct, n)
        check_predicted(about, ignored | missing)
        columns = (confidence, right, about, truth, names)
        beside = (groups, signals, weights)
        made = cls._kept(columns, ignored, missing, *beside, "top-label")
        return replace(made, missing_texts=missing_texts) if missing_texts else made

    @classmethod
    def from_multi_label(
        cls,
        probabilities: Any,
        labels: Any,
        *,
        label_names: Sequence[str] | None = None,
        groups: Mapping[str, Any] | None = None,
        signals: Mapping[str, Any] | None = None,
        weights: Any = None,
    ) -> Claims:
        """Make the n × K claims "label k applies" of independent probabilities, of shape (n, K).

        ``labels`` has the same shape, with 1 or 0, or NaN if unknown; or it holds the names
        of the labels of each example. scikit-learn's list of K arrays (n, 2) is taken
        too. Claims of one example are kept together by a group ``example``, and each has the weight
        of its example.

        >>> p, labels = [[0.9, 0.2], [0.4, 0.7]], [["a"], []]
        >>> claims = Claims.from_multi_label(p, labels, label_names=["a", "b"])
        >>> claims.correct.tolist(), claims.groups["example"].tolist()
        ([True, False, False, False], [0, 0, 1, 1])
        """
        scores = label_scores(probabilities)
        n, count = scores.shape
        names = tuple(map(str, range(count) if label_names is None else label_names))
        if len(names) != count:
            raise InputError(f"Claims.from_multi_label got {count} columns and {len(names)} names.")
        values = label_table(labels, n, names).reshape(-1)
        tables = repeated({"example": np.arange(n), **named_columns("groups", groups)}, n, count)
        measured = repeated(named_columns("signals", signals), n, count)
        columns = (scores.reshape(-1), values == 1, np.tile(np.arange(count), n), None, names)
        ignored, missing = values == int(IGNORED_LABEL), np.isnan(values)
        if weights is not None:
            weights = repeated({"weights": to_numpy(as_array(weights))}, n, count)["weights"]
        return cls._kept(columns, ignored, missing, tables, measured, weights, "multi-label")

    def top_labels(self) -> Claims:
        """Return the claim with the largest probability of each example of multi-label claims.

        Examples with an unknown label are left out: that label may be their most probable one.
        Parts that each count their examples from 0 may have been joined: a label that comes twice
        under one number belongs to two examples.

        >>> claims = Claims.from_multi_label([[0.9, 0.2], [0.4, 0.7]], [[1, 0], [1, 0]])
        >>> claims.top_labels().correct
        array([ True, False])
        """
        if self.kind != "multi-label":
            raise InputError(f"top_labels expects multi-label claims, got {self.kind}.")
        assert self.about is not None
        example = separate_examples(self.groups["example"], self.about)
        order = np.lexsort((np.arange(len(self)), -self.confidence, example))
        first = np.append(True, example[order][1:] != example[order][:-1])[: len(self)].nonzero()[0]
        known = np.diff(np.append(first, len(self))) == len(self.names)
        return replace(self[order[first[known]]], kind="top-label")

    @classmethod
    def of_positive(cls, predictions: Predictions) -> Claims:
        """Make the claims "this is class 1" of binary predictions.

        >>> Claims.of_positive(Predictions.from_probabilities([0.9, 0.2], [1, 1])).confidence
        array([0.9, 0.2])
        """
        check_kind("Claims.of_positive", predictions, Predictions)
        if predictions.classes != 2:
            raise InputError(
                f"Claims.of_positive expects 2 classes, got {predictions.classes}; "
                "classwise metrics look at each class against the rest."
            )
        p = predictions.numpy()
        scores = p.scores
        if p.kind == "logits":  # In float32, p is 1 where logits are 17 apart: a tie.
            scores = softmax(scores.astype(np.float64))
        return cls(
            scores[:, 1],
            np.asarray(p.labels == 1),
            "positive",
            groups=p.groups,
            ignored=p.ignored,
            rows=p.rows,
            signals=p.signals,
            unlabelled=p.unlabelled,
            weights=p.weights,
        )

    @classmethod
    def _kept(
        cls,
        columns: tuple[Any, ...],
        ignored: np.ndarray,
        missing: np.ndarray,
        groups: Mapping[str, Any] | None,
        signals: Mapping[str, Any] | None,
        weights: Any,
        kind: ClaimKind,
    ) -> Claims:
        """Drop rows that are ignored, without a label or of weight 0, and check the others."""
        confidence, correct, about, truth, names = columns
        kept = ~(ignored | missing)
        if weights is not None:
            weights = weight_column(weights, kept)
            kept = weights > 0
        dropped = len(kept) - int(np.count_nonzero(kept))
        tables = {k: group_column(k, v) for k, v in named_columns("groups", groups).items()}
        measured = {k: signal_column(k, v) for k, v in named_columns("signals", signals).items()}
        for name, column in {**tables, **measured}.items():
            if len(column) != len(kept):
                raise InputError(f"Column '{name}' has {len(column)} values for {len(kept)} rows.")
        rows = None
        if dropped:
            rows = kept.nonzero()[0]
            confidence, correct = confidence[kept], correct[kept]
            about, truth = (None if c is None else c[kept] for c in (about, truth))
            tables = {k: v[kept] for k, v in tables.items()}
            measured = {k: v[kept] for k, v in measured.items()}
            weights = None if weights is None else weights[kept]
        about_what: dict[str, Any] = {"about": about, "truth": truth, "label_names": names}
        counts: dict[str, Any] = {
            "ignored": dropped,
            "unlabelled": int(np.count_nonzero(missing)),
            "rows": rows,
            "weights": weights,
        }
        return cls(
            confidence, correct, kind, groups=tables, signals=measured, **about_what, **counts
        )

    def __post_init__(self) -> None:
        try:
            check_confidence(self.confidence)
            check_signals(self.signals)
        except RowError as error:  # Its rows are numbered after the drop, the user's before.
            row = error.row if self.rows is None else int(self.rows[error.row])
            raise RowError(error.message, row) from None

    def __len__(self) -> int:
        return len(self.confidence)

    def __repr__(self) -> str:
        return f"Claims(n={len(self)}, kind={self.kind!r}, ignored={self.ignored})"

    def __getitem__(self, rows: Any) -> Claims:
        """Return some rows: a slice, a mask or an array of indices."""
        index = selected_rows(rows, len(self))
        single = ("confidence", "correct", "about", "truth", "weights")
        columns = {name: getattr(self, name) for name in single}
        parts: dict[str, Any] = {n: None if c is None else c[index] for n, c in columns.items()}
        parts |= {
            name: {k: v[index] for k, v in getattr(self, name).items()}
            for name in ("groups", "signals")
        }
        return replace(self, **parts, ignored=0, unlabelled=0, rows=None)

    def chunks(self, rows: int) -> Iterator[Claims]:
        """Return consecutive parts of at most ``rows`` rows, without a copy."""
        return (self[start : start + rows] for start in range(0, len(self), rows))

    @classmethod
    def concatenate(cls, parts: Iterable[Claims]) -> Claims:
        """Return the rows of all parts, which must agree in kind and columns."""
        parts = agreeing(cls, parts, ("kind",))
        first = parts[0]
        if len(parts) == 1:
            return first
        for what in ("about", "truth"):
            if len({getattr(part, what) is None for part in parts}) > 1:
                raise InputError(f"Claims.concatenate expects '{what}' in all parts, or in none.")
        names, about, truth = _joined_labels(parts)
        confidence = np.concatenate([part.confidence for part in parts])
        correct = np.concatenate([part.correct for part in parts])
        texts = tuple(dict.fromkeys(text for part in parts for text in part.missing_texts))
        columns = (confidence, correct, first.kind, about, truth, names, *joined_columns(parts))
        return replace(cls(*columns), missing_texts=texts)

    @property
    def labels(self) -> np.ndarray:
        """1 where the claim came true, else 0: the labels of :meth:`binary`."""
        return self.correct.astype(np.int64)

    @property
    def names(self) -> tuple[str, ...]:
        """The label names that occur, or none."""
        return self.label_names or ()

    @property
    def scores(self) -> np.ndarray:
        """(1 − c, c) in float64, of shape (n, 2): the scores of :meth:`binary`."""
        confidence = np.clip(self.confidence.astype(np.float64), 0, 1)
        return np.stack([1 - confidence, confidence], axis=1)

    def binary(self) -> Predictions:
        """Return binary predictions: class 1 is "came true"."""
        return Predictions(
            self.scores,
            self.labels,
            "probabilities",
            groups=self.groups,
            ignored=self.ignored,
            signals=self.signals,
            unlabelled=self.unlabelled,
            weights=self.weights,
        )

    def with_confidence(self, confidence: Any) -> Claims:
        """Return the same claims with other probabilities, as a calibrator makes them."""
        return replace(self, confidence=confidence_numbers(confidence))

    def numpy(self) -> Claims:
        """Return the claims, which are in host memory."""
        return self

    def text(self, column: Literal["about", "truth"]) -> np.ndarray | None:
        """Return the names of the labels in a column, or None without it."""
        codes = getattr(self, column)
        return None if codes is None else np.array(self.names, object)[codes]

    def write(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write to a file in the format of its suffix: :func:`calibrant.files.write`."""
        from calibrant import files

        files.write(self, path, overwrite=overwrite)


def _joined_labels(
    parts: Sequence[Claims],
) -> tuple[tuple[str, ...] | None, np.ndarray | None, np.ndarray | None]:
    if parts[0].label_names is None:
        return None, None, None
    about, truth = ([getattr(part, column) for part in parts] for column in ("about", "truth"))
    if all(part.label_names == parts[0].label_names for part in parts):
        joined = (
            None if column[0] is None else np.concatenate(column) for column in (about, truth)
        )
        return (parts[0].label_names, *joined)  # type: ignore[return-value]
    columns = [
        [Encoded(codes, part.names) for codes, part in zip(column, parts, strict=True)]
        for column in (about, truth)
        if column[0] is not None
    ]
    names, codes = joined_names([part for column in columns for part in column])
    found = [
        np.concatenate(codes[i * len(parts) : (i + 1) * len(parts)]) for i in range(len(columns))
    ]
    about_codes = None if about[0] is None else found.pop(0)
    return names, about_codes, found[0] if found else None
