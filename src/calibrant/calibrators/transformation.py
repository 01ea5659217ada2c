"""Change scores by what a calibrator has learned: checks, chunks, ruled-out classes, columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, overload

import numpy as np

from calibrant.arrays import Array, as_array, is_tensor
from calibrant.calibrators.backend import (
    constant,
    floored,
    leading,
    log_probabilities,
    masked_again,
    namespace,
    softmax,
    unmasked,
    wide,
)
from calibrant.calibrators.checks import (
    check_classes,
    check_kind,
    check_names,
    check_predictions,
    check_same_kind,
    check_scores,
    needed_columns,
)
from calibrant.calibrators.correction import BIAS, CORRECTIONS, correct
from calibrant.calibrators.likelihood import mean_nll
from calibrant.claims import Claims
from calibrant.conversion import floating, one_column, two_columns
from calibrant.errors import NotFittedError
from calibrant.predictions import Kind, Predictions

__all__ = ["ABOUT", "Transformation", "beside"]

ABOUT = "\0about"  # The label that a claim is about: no column of a file is called so.
_CHUNK = 1 << 18  # Scores per chunk: the float64 intermediates stay at a few megabytes.


class Transformation(ABC):
    """What a fitted calibrator does to scores; a subclass writes ``_apply``.

    The learned values and the classes come from ``fit``, or from a file.
    """

    name: ClassVar[str]
    takes: ClassVar[Kind] = "logits"
    gives: ClassVar[Kind] = "logits"
    keeps_argmax: ClassVar[bool] = False  # Whether predicted class and accuracy never change.
    changes_scores: ClassVar[bool] = True  # If not, a probability of 0 stays 0, unfloored.
    reads_about: ClassVar[bool] = False  # Whether it reads the label that each claim is about.
    needs_groups: ClassVar[tuple[str, ...]] = ()  # The columns of Predictions.groups that it reads.

    n_classes_: int
    label_names_: tuple[str, ...] | None
    fitted_on_: dict[str, Any]
    fell_back_: bool
    floor_: float
    claims_: float = 0.0  # 1 if fitted on claims: class 1 is "came true", and always predicted.
    signals_: tuple[str, ...] = ()  # The columns of :meth:`signal_columns` that it reads.
    _learned_names: tuple[str, ...]

    @abstractmethod
    def _apply(self, scores: Array, values: Mapping[str, Any]) -> Array:
        """Turn (n, K) scores of kind ``takes`` into kind ``gives``, in the library of ``scores``.

        ``values`` holds what ``_fit`` learned, in that library too, and the columns of
        ``needs_groups`` and ``signals_`` by name.
        """

    @overload
    def transform(self, predictions: Predictions) -> Predictions: ...

    @overload
    def transform(self, predictions: Claims) -> Claims: ...

    def transform(self, predictions: Predictions | Claims) -> Predictions | Claims:
        """Return the same examples with calibrated scores; labels, groups and names are kept.

        Calibrators that give logits keep the kind of the input; the others give probabilities. A
        calibrator that was fitted on claims takes claims.
        """
        self._check_suits("transform", predictions)
        if isinstance(predictions, Claims):
            binary = self._binary(predictions, self.fitted_on_.get("labels", []))
            scores = self.mapped(binary.scores, "probabilities", *beside(binary))
            return predictions.with_confidence(scores[:, 1])
        scores = self.mapped(predictions.scores, predictions.kind, *beside(predictions))
        return predictions.with_scores(scores, self.kind_of(predictions.kind))

    def transform_scores(
        self,
        scores: Any,
        kind: Kind,
        groups: Mapping[str, Any] | None = None,
        signals: Mapping[str, Any] | None = None,
    ) -> Array:
        """Map scores of shape (…, K), as logits or probabilities, to the same shape.

        Scores of shape (n,) are those of class 1 of two, as in :class:`Predictions`, before and
        after the calibrator. NumPy in, NumPy out; a torch tensor stays one, on its device.
        :meth:`kind_of` gives the kind of the result. Scores that :class:`Predictions` refuses (NaN,
        infinite, probabilities that do not sum to 1) are refused here too.
        """
        self._check_fitted()
        check_kind(kind)
        scores = floating(as_array(scores), kind)
        single = scores.ndim == 1 and self.n_classes_ == 2
        rows = two_columns(scores, kind) if single else scores
        check_classes(type(self).__name__, self.n_classes_, tuple(rows.shape))
        check_scores(rows.reshape(-1, self.n_classes_), kind)
        out = self.mapped(rows, kind, groups or {}, signals or {})
        return one_column(out, self.kind_of(kind)) if single else out

    def mapped(
        self, scores: Array, kind: Kind, groups: Mapping[str, Any], signals: Mapping[str, Any]
    ) -> Array:
        """Map checked scores of shape (…, K)."""
        who = type(self).__name__
        check_classes(who, self.n_classes_, tuple(scores.shape))
        rows = scores.reshape(-1, self.n_classes_)
        columns = needed_columns(who, self.needs_groups, groups, len(rows))
        if self.claims_ and self.reads_about and ABOUT in groups:
            columns[ABOUT] = np.asarray(groups[ABOUT])
        if self.signals_:
            columns |= self._signal_columns(rows, kind, groups, signals)
        return self._in_chunks(rows, kind, columns).reshape(scores.shape)

    def signal_columns(self, predictions: Predictions) -> dict[str, np.ndarray]:
        """Return the columns ``signals_``: additional inputs of an exported calibrator, in order.

        Some are signals of the predictions as they are, others are means over a group. They are
        computed from all rows at once, so a group must not be cut.
        """
        self._check_fitted()
        groups, signals = beside(predictions)
        return self._signal_columns(predictions.scores, predictions.kind, groups, signals)

    def _signal_columns(
        self,
        rows: Array,  # noqa: ARG002
        kind: Kind,  # noqa: ARG002
        groups: Mapping[str, Any],  # noqa: ARG002
        signals: Mapping[str, Any],  # noqa: ARG002
    ) -> dict[str, np.ndarray]:
        """Return the columns ``signals_`` of checked (n, K) scores, if it reads any."""
        return {}

    @property
    def keeps_prediction(self) -> bool:
        """Whether predicted class and accuracy never change, with these hyper-parameters."""
        return self.keeps_argmax and getattr(self, "keep_prediction", True)

    @property
    def groups_(self) -> tuple[str, ...]:
        """The groups that the fitted calibrator reads, also those of :meth:`signal_columns`."""
        return self.needs_groups

    def apply(self, scores: Array, kind: Kind, values: Mapping[str, Any]) -> Array:
        """Apply the bare formula to (n, K) scores of one library, dtype and device, without checks.

        ``values`` are :meth:`learned` and the columns of ``needs_groups`` and ``signals_``. It is
        differentiable and
        traceable by torch: exports wrap it, with the learned values as buffers.
        """
        out = self._uncorrected(scores, kind, values)
        return correct(out, self.kind_of(kind), values) if CORRECTIONS & values.keys() else out

    def lead_kept(
        self, out: Array, scores: Array, kind: Kind, dtype: Any, gives: Kind | None = None
    ) -> Array:
        """Keep the predicted class ahead where rounding ``out`` to ``dtype`` would make ties.

        Only calibrators that promise to keep it do so; of claims, class 1 is always predicted.
        """
        if out is scores or not self.keeps_prediction or self.claims_:
            return out
        precision = float(namespace(out).finfo(dtype).eps)
        return leading(out, scores, gives or self.kind_of(kind), precision)

    def _uncorrected(self, scores: Array, kind: Kind, values: Mapping[str, Any]) -> Array:
        """Apply the calibrator as it was fitted."""
        if not self.changes_scores:
            return scores
        if self.fell_back_:
            return scores if kind == "logits" else floored(scores, values["floor_"])
        if kind != self.takes:
            if self.takes == "logits":
                scores = log_probabilities(scores, values["floor_"])
            else:
                scores = softmax(scores)
        out = self._apply(scores, values)
        return softmax(out) if self.gives == "logits" != self.kind_of(kind) else out

    def kind_of(self, kind: Kind) -> Kind:
        """Return the kind of the result for scores of ``kind``."""
        return kind if self.fell_back_ or self.gives == "logits" else "probabilities"

    def learned(self) -> dict[str, Any]:
        """Return the learned values by name: floats and float64 or integer arrays."""
        self._check_fitted()
        return {name: getattr(self, name) for name in self._learned_names}

    @property
    def classes_(self) -> np.ndarray:
        """The classes in the order of the scores: label names if there are any, else 0 … K − 1."""
        self._check_fitted()
        names = self.label_names_
        return np.arange(self.n_classes_) if names is None else np.array(names)

    def _restore(
        self,
        learned: Mapping[str, Any],
        classes: int,
        names: tuple[str, ...] | None,
        signals: tuple[str, ...] = (),
    ) -> None:
        """Take the state of a fitted calibrator, from ``_fit`` or from a file."""
        self.take_learned(learned)
        self.n_classes_, self.label_names_, self.fell_back_ = classes, names, False
        self.signals_ = signals

    def take_learned(self, learned: Mapping[str, Any]) -> None:
        """Take learned values in place of the present ones."""
        for name, value in learned.items():
            setattr(self, name, value)
        self._learned_names = tuple(learned)
        vars(self).pop("keeps_argmax", None)
        if BIAS in learned:  # Only this calibrator changes predictions, not its class.
            vars(self)["keeps_argmax"] = False

    def _binary(self, claims: Claims, labels: Sequence[str]) -> Predictions:
        """Return claims as binary predictions, with the label of each if the calibrator reads it.

        It is the place in ``labels``, or −1 for another label.
        """
        binary = claims.binary()
        if not self.reads_about or claims.about is None:
            return binary
        places = {name: place for place, name in enumerate(labels)}
        table = np.array([places.get(name, -1) for name in claims.names], np.int64)
        return replace(binary, groups={**binary.groups, ABOUT: table[claims.about]})

    def _in_chunks(self, rows: Array, kind: Kind, groups: Mapping[str, Any]) -> Array:
        plain = self.fell_back_ and not CORRECTIONS.intersection(self._learned_names)
        if plain and (kind == "logits" or not (rows < self.floor_).any()):
            return rows
        size = max(1, _CHUNK // self.n_classes_)
        result = _empty_like(rows)
        like = wide(rows[:0])
        learned = {k: constant(v, like) for k, v in self.learned().items()}
        for start in range(0, len(rows), size):
            part = slice(start, start + size)
            columns = {name: constant(column[part], like) for name, column in groups.items()}
            values = {**learned, **columns}
            result[part] = self._apply_masked(wide(rows[part]), kind, values, result.dtype)
        return result

    def _apply_masked(
        self, scores: Array, kind: Kind, values: Mapping[str, Any], dtype: Any
    ) -> Array:
        """Apply the calibrator; a class that a logit of −∞ rules out stays ruled out."""
        if kind != "logits" or float(scores.min()) != -np.inf:
            return self.lead_kept(self.apply(scores, kind, values), scores, kind, dtype)
        plain = unmasked(scores)
        out = self.lead_kept(self.apply(plain, kind, values), plain, kind, dtype)
        return masked_again(out, scores, self.kind_of(kind))

    def _nll(self, predictions: Predictions, floor: float) -> float:
        """Return the mean NLL after the calibrator, in chunks and in float64 for any type."""
        total, kind = 0.0, predictions.kind
        rows = max(1, _CHUNK // self.n_classes_)
        for part in [predictions] if self.signals_ else predictions.chunks(rows):
            scores = self.mapped(part.scores.astype(np.float64), kind, *beside(part))
            mapped = part.with_checked_scores(scores, self.kind_of(kind))
            total += part.size * mean_nll(mapped, floor)
        return total / predictions.size

    def _check_suits(self, verb: str, predictions: Predictions | Claims) -> None:
        """Check that the calibrator is fitted, and on data of this kind and these classes."""
        who = type(self).__name__
        check_predictions(f"{who}.{verb}", predictions)
        self._check_fitted()
        check_same_kind(who, self.fitted_on_["kind"] if self.claims_ else None, predictions)
        if not isinstance(predictions, Claims):
            check_names(who, self.label_names_, predictions.label_names)
            check_classes(who, self.n_classes_, tuple(predictions.scores.shape))

    def _check_fitted(self) -> None:
        if not hasattr(self, "n_classes_"):
            raise NotFittedError(
                f"{type(self).__name__} is not fitted: call fit(predictions) with validation "
                "predictions first, or load a saved calibrator."
            )


def beside(predictions: Predictions) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the columns that a calibrator may read beside the scores."""
    return predictions.groups, predictions.signals


def _empty_like(rows: Array) -> Array:
    """Allocate the result: float64 for float64, float32 for narrower types."""
    if is_tensor(rows):
        narrow = rows[:0].float() if rows.itemsize <= 4 else wide(rows[:0])
        return narrow.new_empty(rows.shape)
    return np.empty(rows.shape, np.float64 if rows.itemsize > 4 else np.float32)
