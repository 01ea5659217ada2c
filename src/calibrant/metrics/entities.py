"""Named entities: calibration and selective prediction of predicted spans."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np

from calibrant.arguments import check_kind
from calibrant.errors import unknown_name
from calibrant.metrics.binned import ece
from calibrant.metrics.bins import Bins, Closed
from calibrant.metrics.confidences import Confidences, bin_confidences, given_type
from calibrant.metrics.metric import metric_function
from calibrant.metrics.selective import RiskCoverage
from calibrant.metrics.spans import Mode, Spans, Tagging, lost_entities
from calibrant.metrics.state import CalibrationState
from calibrant.predictions import Predictions

__all__ = [
    "Reduction",
    "entity_confidences",
    "entity_ece",
    "entity_risk_coverage",
    "entity_state",
    "span_confidence",
    "without_outside",
]

Reduction: TypeAlias = Literal["product", "min", "mean"]
_REDUCTIONS = {"product": np.multiply, "min": np.minimum, "mean": np.add}


def entity_state(
    predictions: Predictions,
    bins: int | Bins = 15,
    *,
    closed: Closed = "right",
    reduction: Reduction = "product",
    mode: Mode = "default",
    by_type: bool = False,
    block: np.ndarray | None = None,
    blocks: int = 0,
    tagging: Tagging | None = None,
) -> CalibrationState:
    """Return the calibration state of predicted entities: entity ECE is ``ece(entity_state(p))``.

    The confidence of an entity is the product, minimum or mean of the top-label confidences
    of its words; it is right if some gold entity has its start, end and type. The product is the
    probability that all its tags are right if they are independent; the mean is what Hugging Face
    pipelines show. With ``by_type`` the state has an axis of entity types (alphabetical, see
    :class:`~calibrant.metrics.tags.TagSet`), with ``block`` a leading axis of blocks.
    ``tagging`` saves reading the spans again.

    >>> from calibrant.metrics import ece
    >>> p = Predictions.from_probabilities(
    ...     [[0.1, 0.9, 0], [0.2, 0, 0.8], [1, 0, 0]], [1, 2, 0], label_names=["O", "B-X", "I-X"]
    ... )
    >>> round(ece(entity_state(p)), 3), round(ece(entity_state(p, reduction="min")), 3)
    (0.28, 0.2)
    """
    tagging = tagging or Tagging(predictions, mode)
    state = entity_confidences(predictions, reduction=reduction, block=block, tagging=tagging)
    kind, types = tagging.predicted.type, len(tagging.tags.types)
    cells = (blocks,) * (block is not None) + (types,) * by_type
    cell = np.zeros(len(state), np.int64) if state.block is None else state.block
    cell = cell * types + kind if by_type else cell
    return bin_confidences(state, bins, closed=closed, cell=cell, cells=cells)


@metric_function
def entity_ece(
    source: Predictions | CalibrationState,
    bins: int | Bins = 15,
    *,
    closed: Closed = "right",
    reduction: Reduction = "product",
    mode: Mode = "default",
) -> Any:
    """Return the ECE over the predicted entities, ``ece(entity_state(…))``; NaN without any.

    ``source`` may be that state; the options then have no effect.

    >>> p = Predictions.from_probabilities(
    ...     [[0.1, 0.9, 0], [0.2, 0, 0.8], [1, 0, 0]], [1, 2, 0], label_names=["O", "B-X", "I-X"]
    ... )
    >>> round(entity_ece(p), 3), round(entity_ece(p, reduction="mean"), 3)
    (0.28, 0.15)
    """
    if isinstance(source, CalibrationState):
        return ece(source)
    return ece(entity_state(source, bins, closed=closed, reduction=reduction, mode=mode))


def entity_confidences(
    predictions: Predictions,
    *,
    reduction: Reduction = "product",
    mode: Mode = "default",
    block: np.ndarray | None = None,
    tagging: Tagging | None = None,
) -> Confidences:
    """Return confidence and correctness of the predicted entities, for metrics without bins.

    An entity belongs to the block of its first word.

    >>> p = Predictions.from_probabilities([[0.1, 0.9]], [1], label_names=["O", "B-X"])
    >>> entity_confidences(p).confidence
    array([0.9])
    """
    tagging = tagging or Tagging(predictions, mode)
    spans = tagging.predicted
    values = span_confidence(spans, tagging.top[0], reduction)
    where = None if block is None else block[spans.start]
    return Confidences(values, tagging.right, where, given=given_type(predictions).name)


def without_outside(predictions: Predictions, entity_type: str | None = None) -> Predictions:
    """Return the tokens whose gold or predicted tag is not O, for metrics without O.

    In NER 80 to 95 % of the tokens are O; nearly all are easy, and they hide the rest. With
    ``entity_type``, those whose gold or predicted tag is of this type.

    >>> p = Predictions.from_probabilities([0.1, 0.9, 0.2], [0, 1, 1], label_names=["O", "B-X"])
    >>> len(p), len(without_outside(p))
    (3, 2)
    """
    check_kind("without_outside", predictions, Predictions)
    tagging = Tagging(predictions)
    tags = tagging.tags
    wanted = tags.type >= 0
    if entity_type is not None:
        if entity_type not in tags.types:
            raise unknown_name("entity type", entity_type, tags.types)
        wanted = tags.type == tags.types.index(entity_type)
    return predictions[tagging.inside(wanted)]


def span_confidence(spans: Spans, confidence: np.ndarray, reduction: Reduction) -> np.ndarray:
    """Return the product, minimum or mean of ``confidence`` over the rows of each span."""
    if reduction not in _REDUCTIONS:
        raise unknown_name("reduction", str(reduction), _REDUCTIONS)
    if not len(spans):
        return np.empty(0)
    # reduceat works on start, end, start, end, …: every second run lies between two spans. The
    # last end may be the number of rows, for which one more value is needed.
    runs = np.stack([spans.start, spans.end], axis=1).ravel()
    values = _REDUCTIONS[reduction].reduceat(np.append(confidence, 1.0), runs)[::2]
    return np.asarray(values / (spans.end - spans.start) if reduction == "mean" else values)


def entity_risk_coverage(
    predictions: Predictions, *, reduction: Reduction = "product", mode: Mode = "default"
) -> RiskCoverage:
    """Return the risk–coverage curve of predicted entities, with risk = 1 − F1.

    Accept the predicted entities with confidence ≥ t; coverage is their share. A person handles a
    rejected one together with the gold entities that it overlaps, so neither counts; gold
    entities without a prediction still count, because no threshold brings them back.
    Risk = 1 − 2 · right / (accepted + gold left); at full coverage it is 1 − entity F1.
    ``.area()`` is the AURC.

    >>> p = Predictions.from_probabilities([0.9, 0.2, 0.6], [1, 0, 0], label_names=["O", "B-X"])
    >>> curve = entity_risk_coverage(p)
    >>> curve.coverage, curve.risk.round(3)
    (array([0.5, 1. ]), array([0.   , 0.333]))
    """
    check_kind("entity_risk_coverage", predictions, Predictions)
    tagging = Tagging(predictions, mode)
    spans, gold, right = tagging.predicted, tagging.gold, tagging.right
    values = span_confidence(spans, tagging.top[0], reduction)
    of_row = _confidence_of_rows(spans, values, len(predictions))
    lost = lost_entities(predictions, gold)
    touched = np.append(span_confidence(gold, of_row, "min"), of_row[lost])
    threshold = np.unique(values)[::-1]
    accepted = _at_least(values, threshold)
    left = _at_least(touched, threshold)
    risk = 1 - 2 * _at_least(values[right], threshold) / (accepted + left)
    return RiskCoverage(threshold, accepted / max(1, len(values)), risk)


def _confidence_of_rows(spans: Spans, values: np.ndarray, rows: int) -> np.ndarray:
    """Return the confidence of the predicted span that contains each row; ∞ without a span."""
    of_row = np.full(rows, np.inf)
    words = spans.end - spans.start
    before = np.repeat(np.cumsum(words) - words, words)  # Words of the spans before this one.
    row = np.repeat(spans.start, words) + np.arange(words.sum()) - before
    of_row[row] = np.repeat(values, words)
    return of_row


def _at_least(values: np.ndarray, threshold: np.ndarray) -> np.ndarray:
    """Count the values that reach each threshold."""
    return len(values) - np.searchsorted(np.sort(values), threshold, side="left")
