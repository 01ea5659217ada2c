"""What a policy decides about predictions, as records for a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from calibrant.claims import Claims
from calibrant.errors import InputError
from calibrant.metrics.confidences import top_label
from calibrant.metrics.entities import span_confidence
from calibrant.metrics.spans import Tagging
from calibrant.policies.policy import COVERAGE, TARGET_RISK, Policy, entity_mass
from calibrant.predictions import Predictions

__all__ = ["decision_records", "joined_set"]


def decision_records(
    policy: Policy, predictions: Predictions | Claims, numbers: np.ndarray | None = None
) -> Iterator[dict[str, Any]]:
    """Yield one record per row, or per predicted entity; ``numbers`` are those of the rows.

    >>> p = Predictions.from_probabilities([0.9, 0.4], [0, 0], label_names=["no", "yes"])
    >>> policy = Policy("target-risk", 0.05, {"*": 0.8}, classes=2, n=100, kept=0.9)
    >>> for record in decision_records(policy, p):
    ...     print(record)
    {'row': 0, 'prediction': 'yes', 'confidence': 0.9, 'accepted': True}
    {'row': 1, 'prediction': 'no', 'confidence': 0.6, 'accepted': False}
    """
    rows = (np.arange(len(predictions)) if numbers is None else numbers).tolist()
    if isinstance(predictions, Claims):
        return _claims(policy, predictions, rows)
    if policy.kind == COVERAGE:
        return _sets(policy, predictions, rows)
    if policy.review is not None:
        return _words(policy, predictions, rows)
    if policy.items == "entities":
        return _entities(policy, predictions, rows)
    return _rows(policy, predictions, rows)


def joined_set(labels: Sequence[str]) -> str:
    """Return a set of classes as the cell of a table: their names, with ``|`` between them.

    >>> joined_set(["cat", "dog"])
    'cat|dog'
    """
    holds = next((label for label in labels if "|" in label), None)
    if holds is not None:
        raise InputError(
            f"The name of the class '{holds}' holds '|', which stands between the classes of a set "
            "in a table: write .jsonl."
        )
    return "|".join(labels)


def _rows(policy: Policy, predictions: Predictions, rows: list[int]) -> Iterator[Any]:
    accepted = policy.decide(predictions)
    confidence, predicted, _ = top_label(predictions)
    columns = (rows, predicted.tolist(), confidence.tolist(), accepted.tolist())
    for row, k, c, a in zip(*columns, strict=True):
        yield {"row": row, "prediction": predictions.names[k], "confidence": c, "accepted": a}


def _claims(policy: Policy, claims: Claims, rows: list[int]) -> Iterator[Any]:
    if policy.kind == COVERAGE or policy.items == "entities":
        raise InputError(
            "This policy needs the scores of all classes, got predictions with one confidence each."
        )
    accepted, about = policy.decide(claims), claims.text("about")
    names = [None] * len(claims) if about is None else about.tolist()
    columns = (rows, names, claims.confidence.tolist(), accepted.tolist())
    for row, name, c, a in zip(*columns, strict=True):
        yield {"row": row, "prediction": name, "confidence": c, "accepted": a}


def _sets(policy: Policy, predictions: Predictions, rows: list[int]) -> Iterator[Any]:
    sets = policy.sets(predictions)
    confidence, predicted, _ = top_label(predictions)
    for row, k, c, found in zip(rows, predicted, confidence, sets, strict=True):
        inside = [predictions.names[i] for i in np.flatnonzero(found)]
        shown = {"prediction": predictions.names[k], "confidence": float(c)}
        yield {"row": row, **shown, "size": len(inside), "set": inside}


def _entities(policy: Policy, predictions: Predictions, rows: list[int]) -> Iterator[Any]:
    accepted = policy.decide(predictions)
    tagging = Tagging(predictions)
    spans = tagging.predicted
    values = span_confidence(spans, tagging.top[0], policy.reduction)  # type: ignore[arg-type]
    columns = (spans.start, spans.end, spans.type, values, accepted)
    for start, end, kind, c, a in zip(*(column.tolist() for column in columns), strict=True):
        place = {"row": rows[start], "end": rows[end - 1] + 1, "type": tagging.tags.types[kind]}
        yield {**place, "confidence": c, "accepted": a}


def _words(policy: Policy, predictions: Predictions, rows: list[int]) -> Iterator[Any]:
    inside = np.zeros(len(predictions), bool)
    tagging = Tagging(predictions)
    if policy.kind == TARGET_RISK:
        spans, accepted = tagging.predicted, policy.decide(predictions)
        for start, end in zip(spans.start[accepted], spans.end[accepted], strict=True):
            inside[start:end] = True
    columns = (tagging.top[1], entity_mass(predictions), inside, policy.to_review(predictions))
    each = zip(rows, *(column.tolist() for column in columns), strict=True)
    for row, k, mass, accepted_word, reviewed in each:
        shown = {"row": row, "prediction": predictions.names[k], "entity": mass}
        yield {**shown, "accepted": accepted_word, "review": reviewed}
