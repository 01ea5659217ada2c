"""Entities as claims: the confidence of each from its words, and signals of damage."""

from __future__ import annotations

import numpy as np

from calibrant.calibrators.backend import FLOOR, unmasked
from calibrant.calibrators.likelihood import as_kind
from calibrant.calibrators.signals import CORRUPTION, signal_columns, signal_names, top_of
from calibrant.claims import Claims
from calibrant.metrics.entities import Reduction, span_confidence
from calibrant.metrics.spans import Spans, Tagging
from calibrant.predictions import Predictions

__all__ = ["entity_claims", "span_claims"]

_MOST_WORDS = 6.0  # Longer entities are alike.


def entity_claims(words: Predictions, reduction: Reduction) -> Claims:
    """Return "this entity is right" for each predicted entity of some words.

    The confidence is the ``reduction`` of those of its words. Groups are the sentence and the
    corruption; :func:`span_claims` lists the signals.

    >>> p = Predictions.from_probabilities([[0.1, 0.9]], [1], label_names=["O", "B-X"])
    >>> claims = entity_claims(p, "product")
    >>> claims.confidence, claims.correct, sorted(claims.signals)
    (array([0.9]), array([ True]), ['entropy', 'least_margin', 'margin', 'words'])
    """
    tagging = Tagging(words)
    return span_claims(words, tagging.predicted, tagging.top[0], reduction, tagging.right)


def span_claims(
    words: Predictions,
    spans: Spans,
    confidence: np.ndarray,
    reduction: Reduction,
    correct: np.ndarray | None = None,
) -> Claims:
    """Return the claims of the entities in ``spans``; without ``correct`` nothing is known of them.

    Signals are means over the words of the entity: margin, entropy, the signals of the words, and
    what is around them in the sentence; also the least margin, and the number of words.
    """
    values = np.clip(span_confidence(spans, confidence, reduction), 0.0, 1.0)
    groups = {
        name: words.groups[name][spans.start]
        for name in ("sentence", CORRUPTION)
        if name in words.groups
    }
    right = np.zeros(len(spans), bool) if correct is None else correct
    signals = _signals(words, spans)
    return Claims.from_top_label(None, values, correct=right, groups=groups, signals=signals)


def _signals(words: Predictions, spans: Spans) -> dict[str, np.ndarray]:
    logits = as_kind("logits", words, FLOOR)
    top = top_of(unmasked(np.asarray(logits.scores, np.float64)))
    names = signal_names(words)
    columns = signal_columns(
        "SpanCalibrator", names, logits.scores, "logits", 0.0, words.groups, words.signals
    )
    # A dot would announce a mean over the entities of a sentence.
    of_words = {name.replace(".", "_"): column for name, column in columns.items()}
    of_words |= {"margin": top.margin, "entropy": top.entropy}
    means = {name: span_confidence(spans, column, "mean") for name, column in of_words.items()}
    length = np.minimum(spans.end - spans.start, _MOST_WORDS)
    return {
        **means,
        "least_margin": span_confidence(spans, top.margin, "min"),
        "words": np.asarray(length, np.float64),
    }
