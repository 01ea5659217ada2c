"""Selective prediction of entities: the risk is 1 − F1 of the accepted ones."""

from __future__ import annotations

import numpy as np

from calibrant.arguments import check_kind
from calibrant.metrics.confidences import top_label
from calibrant.metrics.entities import Reduction, span_confidence
from calibrant.metrics.selective import RiskCoverage
from calibrant.metrics.spans import Mode, Spans, lost_entities, matches, predicted_and_gold
from calibrant.predictions import Predictions

__all__ = ["entity_risk_coverage"]


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
