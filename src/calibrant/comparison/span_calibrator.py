"""The confidence of a whole entity: from those of its words, as validation says it should be."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.arrays import to_numpy
from calibrant.calibrators import Beta, CalibrationWarning, Calibrator, Identity
from calibrant.calibrators.saving import from_dict, to_dict
from calibrant.claims import Claims
from calibrant.comparison.cross_validation import make_folds, out_of_fold
from calibrant.comparison.entity_signals import entity_claims, span_claims
from calibrant.comparison.under_shift import judge_under_shift, with_corruption
from calibrant.errors import InputError, NotFittedError, unknown_name
from calibrant.inputs import door
from calibrant.metrics import Confidences, assign_blocks, entity_confidences, nll
from calibrant.metrics.confidences import bin_confidences
from calibrant.metrics.entities import Reduction, span_confidence
from calibrant.metrics.spans import Spans, Tagging
from calibrant.predictions import Predictions

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "AUTO",
    "REDUCTIONS",
    "SpanCalibrator",
    "entity_words",
    "fit_entities",
    "new_entity_words",
]

AUTO = "auto"
REDUCTIONS: tuple[Reduction, ...] = ("product", "min", "mean")
_FOLDS = 5
_ROUNDING = 1e-6  # By so much a mean of confidences may be above 1.


class SpanCalibrator:
    """P(the entity is right) = beta(r(c_1 … c_n)) of the confidences c of its words.

    A calibrator of words makes words honest, not entities: the tags of one entity depend on each
    other, so the product of their confidences is far too small for long ones, their mean too large.
    Here r is the product, the least or the mean, with ``reduction="auto"`` the one that
    cross-validation on the validation entities prefers (NLL; whole sentences are held out
    together), and ``beta`` is :class:`~calibrant.calibrators.Beta`, which never decreases: the
    order of entities is that of r. It is fitted to Platt's targets: n entities that are all right
    support (n + 1) / (n + 2), not 1.

    ``fit`` and ``transform`` take the predictions of words as the model makes them, in front of any
    calibrator of words (one that changes tags: :func:`entity_words`). Where no sentence, or one
    alone, has an entity there is nothing to learn from: the calibrator is identity, with "auto" of
    the product.

    With corrupted ``copies`` of the validation words, :class:`~calibrant.calibrators.ShiftAware` of
    r and of signals of the entity may take the place of ``beta``, by the rule for words
    (:func:`~calibrant.comparison.under_shift.judge_under_shift`). The order of entities is then
    another one. ``reason_`` says why, and ``held_out_`` has the validation entities with the
    confidence by a calibrator that was fitted without them.

    >>> random = np.random.default_rng(0)
    >>> sure = random.uniform(0.5, 1, 800)  # Two words an entity, right or wrong together.
    >>> right, words = random.random(800) < sure, np.repeat(sure, 2)
    >>> scores = np.stack([0 * words, words * ([1, 0] * 800), words * ([0, 1] * 800)], axis=1)
    >>> scores[:, 0] = 1 - scores.sum(axis=1)
    >>> labels = np.where(np.repeat(right, 2), [1, 2] * 800, 0)
    >>> sentence, names = np.arange(1600) // 2, ["O", "B-X", "I-X"]
    >>> p = Predictions.from_probabilities(
    ...     scores, labels, label_names=names, groups={"sentence": sentence}
    ... )
    >>> fitted = SpanCalibrator("product").fit(p)  # p² is what it is given, and p is right.
    >>> fitted.apply(np.array([0.64, 0.81])).round(1)
    array([0.8, 0.9])
    """

    reduction_: Reduction
    calibrator_: Calibrator
    reason_: str = ""
    held_out_: Claims | None = None

    def __init__(self, reduction: str = AUTO) -> None:
        if reduction not in (AUTO, *REDUCTIONS):
            raise unknown_name("reduction", str(reduction), (AUTO, *REDUCTIONS))
        self.reduction = reduction

    @property
    def reads_signals(self) -> bool:
        """Whether the confidence of an entity follows from more than that of its words."""
        self._check_fitted()
        return bool(self.calibrator_.signals_)

    def fit(self, valid: Predictions, copies: Predictions | None = None) -> Self:
        """Learn from the entities that are predicted on the validation split, and on its copies."""
        wanted = [r for r in REDUCTIONS if self.reduction in (AUTO, r)]
        found = {r: _by_sentence(valid, r) for r in wanted}
        if _sentences_with_any(found[wanted[0]]) < 2:
            self.reduction_, self.calibrator_ = wanted[0], Identity()
            self.calibrator_.fit(_NOTHING_LEARNED)
            return self
        self.reduction_ = wanted[0]
        if len(wanted) > 1:
            errors = {r: _nll(_held_out(entities)) for r, entities in found.items()}
            self.reduction_ = min(errors, key=errors.__getitem__)
        with warnings.catch_warnings():  # That it is no better than identity is expected here.
            warnings.simplefilter("ignore", CalibrationWarning)
            learned = _as_predictions(found[self.reduction_])
            self.calibrator_ = Beta(smooth_targets=True).fit(learned)
        if copies is not None:
            self._learn_from_copies(with_corruption(valid, ""), copies)
        return self

    def _learn_from_copies(self, valid: Predictions, copies: Predictions) -> None:
        clean, damaged = (entity_claims(words, self.reduction_) for words in (valid, copies))
        folds = make_folds(clean, _FOLDS, seed=0)
        found = judge_under_shift(Beta(smooth_targets=True), clean, damaged, folds)
        self.reason_ = found.reason
        if found.candidate is not None:
            assert isinstance(found.held_out, Claims)
            self.calibrator_, self.held_out_ = found.candidate.calibrator, found.held_out

    def apply(self, confidence: np.ndarray) -> np.ndarray:
        """Map confidences that are already reduced, one for each entity."""
        if self.reads_signals:
            raise InputError(
                "This SpanCalibrator reads signals of entities, not their confidence alone: "
                "SpanCalibrator.transform takes the predictions of words."
            )
        values = np.asarray(to_numpy(confidence), np.float64)
        if values.ndim != 1:
            raise InputError(
                f"SpanCalibrator.apply takes one number per entity, got {values.shape}."
            )
        if (abs(values - 0.5) > 0.5 + _ROUNDING).any():
            raise InputError("SpanCalibrator.apply takes confidences in [0, 1].")
        unknown = Confidences(values, np.zeros(len(values), bool))
        return _right(self.calibrator_.transform(_as_predictions(unknown)))

    def transform(self, predictions: Predictions) -> Confidences:
        """Return the honest confidence and the correctness of every predicted entity.

        >>> p = Predictions.from_probabilities([[0.1, 0.9]], [1], label_names=["O", "B-X"])
        >>> SpanCalibrator().fit(p).transform(p).confidence
        array([0.9])
        """
        self._check_fitted()
        tagging = Tagging(predictions)
        mapped = self.of_spans(predictions, tagging.predicted, tagging.top[0])
        return Confidences(mapped, tagging.right)

    def of_spans(self, words: Predictions, spans: Spans, confidence: np.ndarray) -> np.ndarray:
        """Return the honest confidence of each entity; ``confidence`` is that of the words."""
        if self.reads_signals:
            claims = span_claims(words, spans, confidence, self.reduction_)
            return self.calibrator_.transform(claims).confidence
        return self.apply(span_confidence(spans, confidence, self.reduction_))

    def to_dict(self) -> dict[str, Any]:
        """Return the fitted calibrator as data for JSON."""
        self._check_fitted()
        return {"reduction": self.reduction_, "map": to_dict(self.calibrator_)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], where: str | Path) -> Self:
        """Read what :meth:`to_dict` returned; ``where`` names the file in errors."""
        with door(where, "not an entity calibrator"):
            made = cls(content["reduction"])
            made.reduction_ = content["reduction"]
        made.calibrator_ = from_dict(content["map"], where)
        return made

    def _check_fitted(self) -> None:
        if not hasattr(self, "calibrator_"):
            raise NotFittedError("SpanCalibrator is not fitted: call fit(valid) first.")


def entity_words(calibrator: Calibrator, raw: Predictions) -> Predictions:
    """Return the words of entities: ``raw``, or calibrated if the calibrator changes tags.

    >>> from calibrant.calibrators import Vector
    >>> p = Predictions.from_logits([[0.1, 0.0], [2.0, 0.0]] * 9, [1, 0] * 9)
    >>> entity_words(Identity().fit(p), p) is p, entity_words(Vector().fit(p), p) is p
    (True, False)
    """
    return raw if calibrator.keeps_prediction else calibrator.transform(raw)


def new_entity_words(calibrator: Calibrator, valid: Predictions) -> Predictions:
    """Return :func:`entity_words` of the split that ``calibrator`` was fitted on, as if new.

    The calibrator of each sentence is fitted without it, because a flexible calibrator makes the
    data that it was fitted on look better than new data.
    """
    if calibrator.keeps_prediction:
        return valid
    try:
        folds = make_folds(valid, _FOLDS, seed=0)
    except InputError:  # One sentence alone.
        return calibrator.transform(valid)
    in_place = np.argsort(np.argsort(folds.fold, kind="stable"))  # Rows come fold by fold.
    return out_of_fold(calibrator, valid, folds)[in_place]


def fit_entities(
    calibrator: Calibrator, valid: Predictions, copies: Predictions | None = None
) -> SpanCalibrator:
    """Learn the confidence of entities of ``calibrant predict``, for a calibrator of words.

    Copies are raw predictions; they help if the calibrator keeps every tag.
    """
    words = new_entity_words(calibrator, valid)
    return SpanCalibrator().fit(words, copies if calibrator.keeps_prediction else None)


# Identity must know that there are two classes: wrong and right.
_NOTHING_LEARNED = Predictions.from_probabilities([0.5, 0.5], [0, 1])


def _by_sentence(valid: Predictions, reduction: Reduction) -> Confidences:
    return entity_confidences(valid, reduction=reduction, block=assign_blocks(valid))


def _sentences_with_any(entities: Confidences) -> int:
    """Count sentences with entities as cross-validation does: by hashes, which may collide."""
    return len(np.unique(assign_blocks(_as_predictions(entities))))


def _held_out(entities: Confidences) -> Confidences:
    binary = _as_predictions(entities)
    mapped = out_of_fold(Beta(smooth_targets=True), binary, make_folds(binary, _FOLDS, seed=0))
    return Confidences(_right(mapped), np.asarray(mapped.labels) == 1)


def _as_predictions(entities: Confidences) -> Predictions:
    """Return predictions of two classes, wrong and right, with the confidence as P(right)."""
    groups = None if entities.block is None else {"sentence": entities.block}
    confidence = np.clip(entities.confidence, 0.0, 1.0)
    return Predictions.from_probabilities(
        confidence, entities.correct.astype(np.int64), groups=groups
    )


def _right(mapped: Predictions) -> np.ndarray:
    return np.asarray(mapped.probabilities(), np.float64)[:, 1]


def _nll(entities: Confidences) -> float:
    return float(nll(bin_confidences(entities)))
