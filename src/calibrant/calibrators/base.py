"""The base of every calibrator: hyper-parameters in ``__init__``, and ``fit``."""

from __future__ import annotations

import inspect
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from calibrant.arguments import takes_no_labels
from calibrant.calibrators.checks import (
    check_predictions,
    check_some,
    check_weights,
    needed_columns,
    needs_all_classes,
)
from calibrant.calibrators.faultless import is_faultless, most_confidence, unclaimed, untied
from calibrant.calibrators.likelihood import (
    as_kind,
    fitted_floor,
    mean_nll,
    probability_floor,
    without_masks,
    zero_label_count,
)
from calibrant.calibrators.transformation import Transformation, beside
from calibrant.claims import Claims
from calibrant.errors import unknown_name
from calibrant.old_names import warn_renamed
from calibrant.predictions import Predictions

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["CalibrationWarning", "Calibrator", "Fit", "zeros_warning"]

_FEW = 6  # The most numbers of an array that a repr shows.


class CalibrationWarning(UserWarning):
    """Warns of a usable but limited fit: bounded, replaced by identity, or too few examples.

    >>> import warnings
    >>> from calibrant import Predictions, Temperature
    >>> p = Predictions.from_logits([[2.0, 0.0], [0.0, 2.0]], [0, 1])
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     fitted = Temperature().fit(p)
    >>> caught[0].category.__name__, str(caught[0].message)[:43]
    ('CalibrationWarning', 'Temperature: every prediction is right, so ')
    """


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


class Calibrator(Transformation):
    """A function that makes a classifier's scores honest, learned on validation predictions.

    A subclass declares what it ``takes`` and ``gives`` ("logits" or "probabilities"), learns values
    in ``_fit`` and changes scores in ``_apply``, which is written once for NumPy and torch. The
    rest is implemented here and in :class:`Transformation`, and final.

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

    >>> from calibrant import Predictions, Temperature
    >>> valid = Predictions.from_logits([[2.0, 0.0]] * 4, [0, 0, 0, 1])
    >>> fitted = Temperature().fit(valid)
    >>> fitted.name, fitted.get_params(), round(fitted.temperature_, 2)
    ('temperature', {}, 1.82)
    >>> {name: round(value, 3) for name, value in fitted.fitted_on_.items() if "nll" in name}
    {'nll_before': 0.627, 'nll_after': 0.562}
    """

    takes_claims: ClassVar[bool] = False  # Whether one confidence per example is enough.
    takes_weights: ClassVar[bool] = False  # Whether a fit counts examples by their weights.
    needs_copies: ClassVar[bool] = False  # Whether only corrupted copies teach it something.
    added_later: ClassVar[Mapping[str, Any]] = {}  # Learned values that earlier files do not have.

    @abstractmethod
    def _fit(self, predictions: Predictions) -> Fit:
        """Learn from NumPy predictions of kind ``takes``, with at least one example."""

    @partial(takes_no_labels, place=1)
    def fit(self, predictions: Predictions | Claims) -> Self:
        """Learn the calibrator on validation predictions, or on claims, and return self.

        Fitting runs on the host: tensors on a device are copied there once.
        """
        who = type(self).__name__
        check_predictions(f"{who}.fit", predictions)
        kind, self.claims_ = predictions.kind, 0.0
        if isinstance(predictions, Claims):
            if not self.takes_claims:
                raise needs_all_classes(self.name, predictions.kind)
            labels = _claimed(predictions)
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
            warnings.warn(w.message, w.category, stacklevel=3)  # 2 is the decorator.
        return self

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
        """Write the fitted calibrator to one file; see :mod:`calibrant.calibrators.saving`."""
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
        floor, counted = find_floor(predictions), probability_floor(predictions)
        _warn_of_zeros(predictions, counted)
        fit = self._fit(as_kind(self.takes, predictions, floor))
        self.take_fit(fit, floor, predictions.classes, predictions.label_names)
        before, after = fit.nll_before, fit.nll_after
        if before is None or predictions.kind == "probabilities":  # Fits may use another floor.
            before = mean_nll(predictions, counted)
        if after is None:
            after = self._nll(predictions, counted) if self.changes_scores else before
        too_much = lambda: self._claims_too_much(predictions)  # noqa: E731
        after = self.judge(fit, (before, after), predictions.size, counted, too_much)
        self.fitted_on_ = {
            "n": len(predictions),
            "ignored": predictions.ignored,
            "kind": predictions.kind,
            "nll_before": before,
            "nll_after": after,
            "version": __version__,
            **(fit.details or {}),
        }

    def take_fit(self, fit: Fit, floor: float, classes: int, names: tuple[str, ...] | None) -> None:
        """Take what a fit learned, on data in memory or in partitions."""
        learned = {**fit.learned, "floor_": floor} if self.changes_scores else fit.learned
        learned = {**learned, "claims_": 1.0} if self.claims_ else learned
        self._restore(learned, classes, names, fit.signals)

    def judge(
        self,
        fit: Fit,
        nll: tuple[float, float],
        n: float,
        floor: float,
        claims_too_much: Callable[[], bool],
    ) -> float:
        """Fall back to identity if the fit is no gain; return the NLL after it.

        ``nll`` is the mean before and after the fit on ``n`` examples, in which a probability of 0
        counts as ``floor``.
        """
        before, after = nll
        # Rounding may raise an unchanged NLL; NaN counts as worse.
        if not after <= before + fit.rounding * max(1.0, abs(before)):
            self._fall_back(
                f"would raise the validation NLL from {before:.6g} to {after:.6g}",
                "A simpler calibrator or more data may help.",
            )
        elif self.changes_scores and claims_too_much():
            self._fall_back(
                f"would raise the mean confidence of {n:g} predictions, of which every one is "
                f"right, beyond {most_confidence(n):.4g}, which is what {n:g} right ones support",
                "Fit on more or harder examples; 'temperature' stops there.",
            )
        if self.fell_back_ and self.changes_scores:
            self.floor_ = floor
        return before if self.fell_back_ else after

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

    def _claims_beyond(self, binary: Predictions) -> bool:
        """Whether claims that all came true, or none, become too certain for their number."""
        same, n = int(binary.labels[0]), binary.size
        if (binary.labels != same).any():
            return False
        after = self.mapped(binary.scores, "probabilities", *beside(binary))
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


def _claimed(claims: Claims) -> list[str]:
    """Return the labels that are claimed: of others, which are only true, nothing is learned."""
    about = () if claims.about is None else np.unique(claims.about)
    return [claims.names[place] for place in about]


def _shown(value: Any) -> str:
    """Write a number or a few numbers in full, and any other array as its shape."""
    array = np.asarray(value)
    if array.size > _FEW:
        return f"array of shape {array.shape} from {array.min():.4g} to {array.max():.4g}"
    return np.array2string(array, precision=4, separator=", ").replace("\n", "")


def _warn_of_zeros(predictions: Predictions, floor: float) -> None:
    if zeros := zero_label_count(predictions):
        warnings.warn(zeros_warning(zeros, floor), CalibrationWarning, stacklevel=4)


def zeros_warning(zeros: int, floor: float) -> str:
    """Return what to know about examples that give their own label probability 0."""
    return (
        f"{zeros} example(s) give their own label probability 0, whose NLL is infinite; it is "
        f"taken as {floor:.2g} ({-np.log(floor):.1f} nats each). Fit on logits to avoid this."
    )
