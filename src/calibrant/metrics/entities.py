"""Named entities: calibration and selective prediction of predicted spans."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from calibrant.arguments import check_kind
from calibrant.arrays import to_numpy
from calibrant.errors import unknown_name
from calibrant.metrics.binned import ece
from calibrant.metrics.bins import Bins, Closed
from calibrant.metrics.confidences import Confidences, bin_confidences, top_label
from calibrant.metrics.selective import RiskCoverage
from calibrant.metrics.spans import Mode, Spans, lost_entities, matches, predicted_and_gold
from calibrant.metrics.state import CalibrationState
from calibrant.metrics.tags import TagSet
from calibrant.predictions import Predictions

__all__ = [
    "Reduction",
    "entity_confidences",
    "entity_ece",
    "entity_risk_coverage",
    "entity_state",
    "entity_types",
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
) -> CalibrationState:
    """Return the calibration state of predicted entities: entity ECE is ``ece(entity_state(p))``.

    The confidence of an entity is the product, minimum or mean of the top-label confidences
    of its words; it is right if some gold entity has its start, end and type. The product is the
    probability that all its tags are right if they are independent; the mean is what Hugging Face
    pipelines show. With ``by_type`` the state has an axis of entity types (alphabetical, see
    :class:`~calibrant.metrics.tags.TagSet`), with ``block`` a leading axis of blocks.

    >>> from calibrant.metrics import ece
    >>> p = Predictions.from_probabilities(
    ...     [[0.1, 0.9, 0], [0.2, 0, 0.8], [1, 0, 0]], [1, 2, 0], label_names=["O", "B-X", "I-X"]
    ... )
    >>> round(ece(entity_state(p)), 3), round(ece(entity_state(p, reduction="min")), 3)
    (0.28, 0.2)
    """
    state, kind = _confidences_and_types(predictions, reduction, mode, block)
    types = len(TagSet.of(predictions.label_names).types)
    cells = (blocks,) * (block is not None) + (types,) * by_type
    cell = np.zeros(len(state), np.int64) if state.block is None else state.block
    cell = cell * types + kind if by_type else cell
    return bin_confidences(state, bins, closed=closed, cell=cell, cells=cells)


def entity_ece(
    predictions: Predictions,
    bins: int | Bins = 15,
    *,
    closed: Closed = "right",
    reduction: Reduction = "product",
    mode: Mode = "default",
) -> float:
    """Return the ECE over the predicted entities, ``ece(entity_state(…))``; NaN without any.

    >>> p = Predictions.from_probabilities(
    ...     [[0.1, 0.9, 0], [0.2, 0, 0.8], [1, 0, 0]], [1, 2, 0], label_names=["O", "B-X", "I-X"]
    ... )
    >>> round(entity_ece(p), 3), round(entity_ece(p, reduction="mean"), 3)
    (0.28, 0.15)
    """
    state = entity_state(predictions, bins, closed=closed, reduction=reduction, mode=mode)
    return float(ece(state))


def entity_confidences(
    predictions: Predictions,
    *,
    reduction: Reduction = "product",
    mode: Mode = "default",
    block: np.ndarray | None = None,
) -> Confidences:
    """Return confidence and correctness of the predicted entities, for metrics without bins.

    An entity belongs to the block of its first word.

    >>> p = Predictions.from_probabilities([[0.1, 0.9]], [1], label_names=["O", "B-X"])
    >>> entity_confidences(p).confidence
    array([0.9])
    """
    return _confidences_and_types(predictions, reduction, mode, block)[0]


def entity_types(predictions: Predictions, mode: Mode = "default") -> np.ndarray:
    """Return the type number of each predicted entity, in the order of their confidences."""
    return _confidences_and_types(predictions, "product", mode, None)[1]


def without_outside(predictions: Predictions, entity_type: str | None = None) -> Predictions:
    """Return the tokens whose gold or predicted tag is not O, for metrics without O.

    In NER 80 to 95 % of the tokens are O; nearly all are easy, and they hide the rest. With
    ``entity_type``, those whose gold or predicted tag is of this type.

    >>> p = Predictions.from_probabilities([0.1, 0.9, 0.2], [0, 1, 1], label_names=["O", "B-X"])
    >>> len(p), len(without_outside(p))
    (3, 2)
    """
    check_kind("without_outside", predictions, Predictions)
    tags = TagSet.of(predictions.label_names)
    wanted = tags.type >= 0
    if entity_type is not None:
        if entity_type not in tags.types:
            raise unknown_name("entity type", entity_type, tags.types)
        wanted = tags.type == tags.types.index(entity_type)
    _, predicted, _ = top_label(predictions)
    kept = wanted[predicted] | wanted[to_numpy(predictions.labels)]
    return predictions[np.flatnonzero(kept)]


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


def _confidences_and_types(
    predictions: Predictions, reduction: Reduction, mode: Mode, block: np.ndarray | None
) -> tuple[Confidences, np.ndarray]:
    check_kind("This metric", predictions, Predictions)
    confidence, predicted, _ = top_label(predictions)
    spans, gold = predicted_and_gold(predictions, predicted, mode)
    where = None if block is None else block[spans.start]
    values = span_confidence(spans, confidence, reduction)
    return Confidences(values, matches(spans, gold), where), spans.type


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
    confidence, predicted, _ = top_label(predictions)
    spans, gold = predicted_and_gold(predictions, predicted, mode)
    values, right = span_confidence(spans, confidence, reduction), matches(spans, gold)
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
