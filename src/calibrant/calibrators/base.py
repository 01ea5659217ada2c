"""The base of every calibrator: hyper-parameters in ``__init__``, ``fit``, ``transform``, file."""

from __future__ import annotations

import inspect
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, overload

import numpy as np

from calibrant.arrays import Array, as_array, is_tensor
from calibrant.calibrators.backend import (
    constant,
    floored,
    log_probabilities,
    namespace,
    normalized,
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
    check_some,
    check_weights,
    needed_columns,
    needs_all_classes,
)
from calibrant.calibrators.correction import BIAS, CORRECTIONS, correct
from calibrant.calibrators.faultless import is_faultless, most_confidence, unclaimed, untied
from calibrant.calibrators.likelihood import (
    as_kind,
    fitted_floor,
    mean_nll,
    probability_floor,
    without_masks,
    zero_label_count,
)
from calibrant.claims import Claims
from calibrant.conversion import floating, one_column, two_columns
from calibrant.errors import NotFittedError, unknown_name
from calibrant.old_names import warn_renamed
from calibrant.predictions import Kind, Predictions

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["CalibrationWarning", "Calibrator", "Fit"]

ABOUT = "about"  # The column of the label that a claim is about.
_FEW = 6  # The most numbers of an array that a repr shows.
_CHUNK = 1 << 18  # Scores per chunk: the float64 intermediates stay at a few megabytes.


class CalibrationWarning(UserWarning):
    """Warns of a usable but limited fit: bounded, replaced by identity, or too few examples."""


@dataclass(frozen=True)
class Fit:
    """The values that ``_fit`` learned, and the validation NLL if it is known already.

    ``rounding`` is by how much the NLL after the fit may be off, relative to the NLL or to 1.
    ``signals`` names the columns that the calibrator reads in addition to scores and groups.
    """

    learned: Mapping[str, Any]
    nll_before: float | None = None
    nll_after: float | None = None
    details: Mapping[str, Any] | None = None
    rounding: float = 1e-12
    signals: tuple[str, ...] = ()


class Calibrator(ABC):
    """A function that makes a classifier's scores honest, learned on validation predictions.

    A subclass declares what it ``takes`` and ``gives`` ("logits" or "probabilities"), learns values
    in ``_fit`` and maps scores in ``_apply``, which is written once for NumPy and torch. The rest
    is implemented here, and final.

    Learned values are attributes that end in ``_``, next to ``classes_`` (an array),
    ``n_classes_``, ``label_names_``, ``fitted_on_`` (n, ignored, NLL before and after, warnings,
    version) and ``fell_back_``: a calibrator that would raise the validation NLL, or claim more
    than a faultless sample supports (:mod:`calibrant.calibrators.faultless`), is replaced by
    identity, with a :class:`CalibrationWarning`. A calibrator that changes scores also has
    ``floor_``, the value that replaces a probability of 0
    (:mod:`calibrant.calibrators.likelihood`): in logarithms, in what a top label leaves to other
    classes, and where the calibrator fell back.

    Types: computed in float64 in chunks (float32 on devices without float64); returned as float64
    for float64 and as float32 for float32, float16 and bfloat16, whose softmax saturates too early.
    """

    name: ClassVar[str]
    takes: ClassVar[Kind] = "logits"
    gives: ClassVar[Kind] = "logits"
    keeps_argmax: ClassVar[bool] = False  # Whether predicted class and accuracy never change.
    changes_scores: ClassVar[bool] = True  # If not, a probability of 0 stays 0, unfloored.
    takes_claims: ClassVar[bool] = False  # Whether one confidence per example is enough.
    reads_about: ClassVar[bool] = False  # Whether it reads the label that each claim is about.
    needs_groups: ClassVar[tuple[str, ...]] = ()  # The columns of Predictions.groups that it reads.
    takes_weights: ClassVar[bool] = False  # Whether a fit counts examples by their weights.
    needs_copies: ClassVar[bool] = False  # Whether only corrupted copies teach it something.

    n_classes_: int
    label_names_: tuple[str, ...] | None
    fitted_on_: dict[str, Any]
    fell_back_: bool
    floor_: float
    claims_: float = 0.0  # 1 if fitted on claims: class 1 is "came true", and always predicted.
    signals_: tuple[str, ...] = ()  # The columns of :meth:`signal_columns` that it reads.
    _learned_names: tuple[str, ...]

    @abstractmethod
    def _fit(self, predictions: Predictions) -> Fit:
        """Learn from NumPy predictions of kind ``takes``, with at least one example."""

    @abstractmethod
    def _apply(self, scores: Array, values: Mapping[str, Any]) -> Array:
        """Map (n, K) scores of kind ``takes`` to kind ``gives``, in the library of ``scores``.

        ``values`` holds what ``_fit`` learned, in that library too, and the columns of
        ``needs_groups`` and ``signals_`` by name.
        """

    def fit(self, predictions: Predictions | Claims) -> Self:
        """Learn the calibrator on validation predictions, or on claims, and return self.

        Fitting runs on the host: tensors on a device are copied there once.
        """
        who = type(self).__name__
        check_predictions(f"{who}.fit", predictions)
        kind, self.claims_ = predictions.kind, 0.0
        if isinstance(predictions, Claims):
            if not self.takes_claims:
                raise needs_all_classes(self.name, predictions)
            labels = list(predictions.names)
            predictions, self.claims_ = self._binary(predictions, labels), 1.0
        check_some(who, predictions)
        check_weights(self.name, self.takes_weights, predictions)
        needed_columns(who, self.needs_groups, predictions.groups, len(predictions))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", CalibrationWarning)
            self._learn(without_masks(predictions.numpy()))
        own = [w for w in caught if issubclass(w.category, CalibrationWarning)]
        self.fitted_on_ |= {"kind": kind}
        if self.claims_ and self.reads_about:
            self.fitted_on_["labels"] = labels
        self.fitted_on_["warnings"] = [str(w.message) for w in own]
        for w in caught:
            warnings.warn(w.message, w.category, stacklevel=2)
        return self

    @overload
    def transform(self, predictions: Predictions) -> Predictions: ...

    @overload
    def transform(self, predictions: Claims) -> Claims: ...

    def transform(self, predictions: Predictions | Claims) -> Predictions | Claims:
        """Return the same examples with calibrated scores; labels, groups and names are kept.

        Calibrators that give logits keep the kind of the input; the others give probabilities. A
        calibrator that was fitted on claims maps claims.
        """
        self._check_suits("transform", predictions)
        if isinstance(predictions, Claims):
            binary = self._binary(predictions, self.fitted_on_.get("labels", []))
            scores = self._mapped(binary.scores, "probabilities", *_beside(binary))
            return predictions.with_confidence(scores[:, 1])
        scores = self._mapped(predictions.scores, predictions.kind, *_beside(predictions))
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
        out = self._mapped(rows, kind, groups or {}, signals or {})
        return one_column(out, self.kind_of(kind)) if single else out

    def _mapped(
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
        groups, signals = _beside(predictions)
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
    def groups_(self) -> tuple[str, ...]:
        """The groups that the fitted calibrator reads, also those of :meth:`signal_columns`."""
        return self.needs_groups

    def apply(self, scores: Array, kind: Kind, values: Mapping[str, Any]) -> Array:
        """Apply the bare map to (n, K) scores of one library, dtype and device, without checks.

        ``values`` are :meth:`learned` and the columns of ``needs_groups`` and ``signals_``. It is
        differentiable and
        traceable by torch: exports wrap it, with the learned values as buffers.
        """
        out = self._uncorrected(scores, kind, values)
        return correct(out, self.kind_of(kind), values) if CORRECTIONS & values.keys() else out

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

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        """Return the hyper-parameters, the arguments of ``__init__``, by name.

        ``deep`` is for scikit-learn's ``clone``; a calibrator has no parts with parameters.
        """
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **parameters: Any) -> Self:
        """Set hyper-parameters by name and return self; fit again to apply them."""
        known = self.get_params()
        for name in parameters:
            if name not in known:
                raise unknown_name(f"hyper-parameter of {self.name}", name, known)
        checked = type(self)(**{**known, **parameters})
        for name in parameters:
            setattr(self, name, getattr(checked, name))
        return self

    def hyperparameters(self) -> dict[str, Any]:
        """Return ``get_params()``: the old name."""
        warn_renamed("Calibrator.hyperparameters", "Calibrator.get_params")
        return self.get_params()

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the fitted map to one file; see :mod:`calibrant.calibrators.saving`."""
        from calibrant.calibrators.saving import save

        save(self, path, overwrite=overwrite)

    def __repr__(self) -> str:
        """Show the hyper-parameters and, once fitted, what was learned from how many examples."""
        arguments = ", ".join(f"{k}={v!r}" for k, v in self.get_params().items())
        call = f"{type(self).__name__}({arguments})"
        if not hasattr(self, "fitted_on_"):
            return call
        return f"<{call}, fitted on {self.fitted_on_['n']:,} examples: {self.describe()}>"

    def describe(self) -> str:
        """Describe in a few words what was learned: numbers, or the range of many."""
        hidden = ("floor_", "claims_")
        learned = [f"{k}={_shown(v)}" for k, v in self.learned().items() if k not in hidden]
        if self.fell_back_:
            learned = ["fell back to identity", *(text for text in learned if "correction" in text)]
        return ", ".join(learned) or "nothing"

    def _learn(self, predictions: Predictions) -> None:
        from calibrant import __version__

        logarithmic = self.takes == "logits" and self.changes_scores
        find_floor = fitted_floor if logarithmic else probability_floor
        floor = find_floor(predictions)
        _warn_of_zeros(predictions, floor)
        fit = self._fit(as_kind(self.takes, predictions, floor))
        learned = {**fit.learned, "floor_": floor} if self.changes_scores else fit.learned
        learned = {**learned, "claims_": 1.0} if self.claims_ else learned
        self._restore(learned, predictions.classes, predictions.label_names, fit.signals)
        before, after = fit.nll_before, fit.nll_after
        if before is None:
            before = mean_nll(predictions, floor)
        if after is None:
            after = self._nll(predictions) if self.changes_scores else before
        # Rounding may raise an unchanged NLL; NaN counts as worse.
        if not after <= before + fit.rounding * max(1.0, abs(before)):
            self._fall_back(
                f"would raise the validation NLL from {before:.6g} to {after:.6g}",
                "A simpler calibrator or more data may help.",
            )
        elif self.changes_scores and self._claims_too_much(predictions):
            n = predictions.size
            self._fall_back(
                f"would raise the mean confidence of {n:g} predictions, of which every one is "
                f"right, beyond {most_confidence(n):.4g}, which is what {n:g} right ones support",
                "Fit on more or harder examples; 'temperature' stops there.",
            )
        after = before if self.fell_back_ else after
        self.fitted_on_ = {
            "n": len(predictions),
            "ignored": predictions.ignored,
            "kind": predictions.kind,
            "nll_before": before,
            "nll_after": after,
            "version": __version__,
            **(fit.details or {}),
        }

    def _nll(self, predictions: Predictions) -> float:
        """Return the mean NLL after the calibrator, in chunks and in float64 for any type."""
        total, kind = 0.0, predictions.kind
        rows = max(1, _CHUNK // self.n_classes_)
        for part in [predictions] if self.signals_ else predictions.chunks(rows):
            scores = self._mapped(part.scores.astype(np.float64), kind, *_beside(part))
            mapped = part.with_checked_scores(scores, self.kind_of(kind))
            total += part.size * mean_nll(mapped)
        return total / predictions.size

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

    def _claims_too_much(self, predictions: Predictions) -> bool:
        """Whether the calibrator goes beyond what a sample without a mistake supports."""
        if self.claims_:
            return self._claims_beyond(predictions)
        if not is_faultless(predictions):
            return False
        decided = predictions[untied(predictions.scores)]
        if not len(decided):
            return False
        both = (decided, self.transform(decided))
        before, after = (unclaimed(p.scores, p.kind, weights=p.weights) for p in both)
        least = min(before, 1 - most_confidence(decided.size))
        return after < least * (1 - 1e-4)  # Temperatures stop at it, to six digits.

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

    def _claims_beyond(self, binary: Predictions) -> bool:
        """Whether claims that all came true, or none, become too certain for their number."""
        same, n = int(binary.labels[0]), binary.size
        if (binary.labels != same).any():
            return False
        after = self._mapped(binary.scores, "probabilities", *_beside(binary))
        both = (binary.scores[:, same], after[:, same])
        doubt = [1 - float(np.average(scores, weights=binary.weights)) for scores in both]
        return doubt[1] < min(doubt[0], 1 - most_confidence(n)) * (1 - 1e-4)

    def _fall_back(self, reason: str, advice: str) -> None:
        self.fell_back_ = True
        warnings.warn(
            f"{type(self).__name__} {reason}; it fell back to identity. {advice}",
            CalibrationWarning,
            stacklevel=4,
        )

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
            result[part] = self._apply_masked(wide(rows[part]), kind, values)
        return result

    def _apply_masked(self, scores: Array, kind: Kind, values: Mapping[str, Any]) -> Array:
        """Apply the calibrator; a class that a logit of −∞ rules out stays ruled out."""
        if kind != "logits" or float(scores.min()) != -np.inf:
            return self.apply(scores, kind, values)
        out = self.apply(unmasked(scores), kind, values)
        xp, masked = namespace(scores), scores == -np.inf
        if self.kind_of(kind) == "logits":
            return xp.where(masked, -np.inf, out)
        return normalized(xp.where(masked, 0.0, out))

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


def _beside(predictions: Predictions) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    return predictions.groups, predictions.signals


def _shown(value: Any) -> str:
    """Write a number or a few numbers in full, and any other array as its shape."""
    array = np.asarray(value)
    if array.size > _FEW:
        return f"array of shape {array.shape} from {array.min():.4g} to {array.max():.4g}"
    return np.array2string(array, precision=4, separator=", ").replace("\n", "")


def _warn_of_zeros(predictions: Predictions, floor: float) -> None:
    if zeros := zero_label_count(predictions):
        warnings.warn(
            f"{zeros} example(s) give their own label probability 0, whose NLL is infinite; it is "
            f"taken as {floor:.2g} ({-np.log(floor):.1f} nats each). Fit on logits to avoid this.",
            CalibrationWarning,
            stacklevel=4,
        )


def _empty_like(rows: Array) -> Array:
    """Allocate the result: float64 for float64, float32 for narrower types."""
    if is_tensor(rows):
        narrow = rows[:0].float() if rows.itemsize <= 4 else wide(rows[:0])
        return narrow.new_empty(rows.shape)
    return np.empty(rows.shape, np.float64 if rows.itemsize > 4 else np.float32)
