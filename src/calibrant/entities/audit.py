"""How far the scores of entities can be trusted, over all of them and by type."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from calibrant import __version__
from calibrant.auditing.estimate import Estimator
from calibrant.auditing.evidence import ClaimSums, Question, findings_of, whole_p_value
from calibrant.auditing.record import Audit, ClassRow, Finding, Measure, Mistake
from calibrant.auditing.run import MOST_BINS
from calibrant.auditing.verdict import verdict
from calibrant.entities.matching import Match, MatchedEntities
from calibrant.errors import InputError
from calibrant.json_values import json_values
from calibrant.metrics import (
    Bins,
    CalibrationState,
    Confidences,
    MatchCounts,
    accuracy,
    auroc,
    bin_confidences,
    chance_ece,
    ece,
    mean_confidence,
    risk_coverage_curve,
)
from calibrant.metrics.bins import Closed
from calibrant.metrics.blocks import hash_values
from calibrant.metrics.metric import percent

__all__ = ["EntityAudit", "TypeRow", "audit_entities"]

_BLOCKS = 1000
_ALARM = 0.05  # The risk that the verdict doubts scores that are honest.
_FEW = 20  # Fewer documents say little about how much they differ.
_CURVE = 200  # Points of the risk–coverage curve in a document.


@dataclass(frozen=True)
class TypeRow:
    """One type of entities: how many there are, and its measures with intervals."""

    name: str
    gold: int
    predicted: int
    missed: int
    measures: tuple[Measure, ...]

    def __getitem__(self, name: str) -> Measure:
        """Return one measure by name: precision, recall, confidence, ece or auroc."""
        return next(measure for measure in self.measures if measure.name == name)


@dataclass(frozen=True)
class EntityAudit:
    """What :func:`audit_entities` found; an entity is an example of ``audit``.

    >>> from calibrant.entities import Document, Entity, match_entities
    >>> predicted = [Document((Entity(0, 4, "PER", 0.9),)) for _ in range(50)]
    >>> gold = [Document((Entity(0, 4 + i % 2, "PER"),)) for i in range(50)]
    >>> found = audit_entities(match_entities(predicted, gold), bootstrap=0)
    >>> found.match, found.types[0].predicted, found.types[0]["precision"].value
    ('strict', 50, 0.5)
    """

    match: Match
    audit: Audit
    types: tuple[TypeRow, ...]  # most predicted first

    def to_dict(self) -> dict[str, Any]:
        """Return everything except single entities, ready for JSON."""
        curve = risk_coverage_curve(self.audit.confidences)
        places = np.unique(np.linspace(0, len(curve.risk) - 1, _CURVE).astype(int))
        points = {
            name: getattr(curve, name)[places].tolist()
            for name in ("threshold", "coverage", "risk")
        }
        content = {
            "match": self.match,
            **self.audit.to_dict(),
            "types": [
                {**asdict(row), "measures": {m.name: asdict(m) for m in row.measures}}
                for row in self.types
            ],
            "risk_coverage": points,
        }
        return dict(json_values(content))


def audit_entities(
    matched: MatchedEntities,
    match: Match = "strict",
    *,
    bins: int = 15,
    closed: Closed = "right",
    bootstrap: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    mistakes: int = 20,
    provenance: Mapping[str, Any] | None = None,
) -> EntityAudit:
    """Measure how far the scores of predicted entities can be trusted.

    An entity is right if a gold one of its type has the same span (``match="strict"``) or shares a
    character with it (``"overlapping"``). Calibration, AUROC and risk–coverage are those of the
    predicted entities. Missed gold entities have no score, and no threshold brings them back: F1
    and recall count them. Intervals come from ``bootstrap`` replicates over documents.

    >>> from calibrant.entities import Document, Entity, match_entities
    >>> predicted = [Document((Entity(0, 4, "PER", 0.9),)) for _ in range(50)]
    >>> gold = [Document((Entity(0, 4 + i % 2, "PER"), Entity(6, 9, "LOC"))) for i in range(50)]
    >>> found = audit_entities(match_entities(predicted, gold), bootstrap=0)
    >>> round(found.audit["ece"].value, 2), round(found.audit["missed_entities"].value, 2)
    (0.4, 0.75)
    """
    if bins > MOST_BINS:
        raise InputError(f"audit expects at most {MOST_BINS:,} bins, got {bins:,}.")
    if not matched.scored:
        raise InputError("An audit needs scores; these entities have none.")
    estimate = Estimator(bootstrap, level, seed)
    table = _Table(matched, match, Bins(bins, closed))
    state = table.state()
    confidences = Confidences(table.score, table.right, table.block)
    sources = {"state": state, "confidences": confidences}
    each = tuple(map(_of_entities, estimate("classes", sources, bins)))
    measures = (*_found_measures(table, estimate), *each)
    total = state.total()
    chance = chance_ece(state, quantile=1 - _ALARM / 4)
    p_value = whole_p_value(state, grouped=True)
    findings = _type_findings(table)
    settings = {"match": match, "bootstrap": bootstrap, "level": level, "seed": seed}
    audit = Audit(
        label_names=matched.types,
        state=total,
        confidences=confidences,
        measures=measures,
        verdict=verdict(total, chance, findings, p_value if p_value <= _ALARM / 4 else None),
        classes=_class_rows(table),
        mistakes=_mistakes(table, mistakes),
        entities=None,
        provenance={**(provenance or {}), **_provenance(table), **settings},
        findings=findings,
        warnings=_warnings(matched, bootstrap),
    )
    return EntityAudit(match, audit, _type_rows(table, estimate))


def _of_entities(measure: Measure) -> Measure:
    """Return a measure of all examples in the words of entities."""
    if measure.name != "accuracy":
        return measure
    words = f"{percent(measure.value)} of the predicted entities are right."
    return replace(measure, title="Entity precision", meaning=words)


class _Table:
    """The columns of matched entities, and states of them by block."""

    def __init__(self, matched: MatchedEntities, match: Match, bins: Bins) -> None:
        self.matched, self.bins = matched, bins
        self.score, self.right = matched.predicted.score, matched.right[match]
        self.found = matched.found[match]
        self.block = _blocks(matched.predicted_document, matched.documents)
        self.gold_block = _blocks(matched.gold_document, matched.documents)

    def state(self, rows: np.ndarray | slice = slice(None)) -> CalibrationState:
        """Return the state of predicted entities, (blocks, …)."""
        return self._binned(self.score[rows], self.right[rows], self.block[rows])

    def gold_state(self, rows: np.ndarray | slice = slice(None)) -> CalibrationState:
        """Return the state of gold entities, whose accuracy is the share that was found."""
        found = self.found[rows]
        return self._binned(np.ones(len(found)), found, self.gold_block[rows])

    def counts(self) -> MatchCounts:
        """Return right, predicted and gold entities by block.

        F1 = (right + found) / (predicted + gold). With strict matches right and found are the same
        number; with overlapping ones, half of their sum stands for both.
        """
        right = np.bincount(self.block, self.right, _BLOCKS)
        found = np.bincount(self.gold_block, self.found, _BLOCKS)
        predicted = np.bincount(self.block, minlength=_BLOCKS)
        gold = np.bincount(self.gold_block, minlength=_BLOCKS)
        columns = ((right + found) / 2, predicted, gold)
        return MatchCounts(("entity",), *(column[:, None] for column in columns))

    def _binned(self, score: np.ndarray, right: np.ndarray, block: np.ndarray) -> CalibrationState:
        entities = Confidences(score, right)
        return bin_confidences(entities, self.bins, cell=block, cells=(_BLOCKS,))


def _blocks(document: np.ndarray, documents: int) -> np.ndarray:
    """Return the bootstrap block of each document, its own if there are few of them.

    The same for predicted and gold entities, also if the last documents have only one kind.
    """
    if documents <= _BLOCKS:
        return document
    return (hash_values(document) % np.uint64(_BLOCKS)).astype(np.int64)


def _found_measures(table: _Table, estimate: Estimator) -> tuple[Measure, ...]:
    """Return F1, recall and the share of missed entities."""
    (f1,) = estimate("tags", {"entity_counts": table.counts()})
    recall = _recall(table.gold_state(), estimate)
    n, missed = len(table.found), int((~table.found).sum())
    if not n:
        nothing = replace(recall, name="missed_entities", title="Missed entities")
        return f1, recall, nothing
    words = f"{missed:,} of {n:,} gold entities have no right prediction, at any threshold."
    ends = (None if recall.high is None else 1 - recall.high,
            None if recall.low is None else 1 - recall.low)  # fmt: skip
    return f1, recall, Measure("missed_entities", "Missed entities", missed / n, *ends, words)


def _recall(gold: CalibrationState, estimate: Estimator, name: str = "entity_recall") -> Measure:
    """Return the accuracy of a state of gold entities as their recall."""
    measure = _measure(name, "Entity recall", accuracy, gold, estimate)
    found = f"{percent(measure.value)} of the gold entities were found."
    return measure if np.isnan(measure.value) else replace(measure, meaning=found)


def _measure(
    name: str,
    title: str,
    function: Callable[..., Any],
    source: CalibrationState | Confidences,
    estimate: Estimator,
) -> Measure:
    """Return a measure of blocked entities, with its interval over documents."""
    empty = not len(source) if isinstance(source, Confidences) else not source.total().n
    if empty:
        return Measure(name, title, float("nan"), meaning="Not defined on these entities.")
    ((value, bounds),) = estimate.measured([function], (source,))
    low, high = bounds or (None, None)
    return Measure(name, title, value, low, high)


def _type_rows(table: _Table, estimate: Estimator) -> tuple[TypeRow, ...]:
    rows = [_type_row(table, name, estimate) for name in table.matched.types]
    return tuple(sorted(rows, key=lambda row: (-row.predicted, -row.gold, row.name)))


def _type_row(table: _Table, name: str, estimate: Estimator) -> TypeRow:
    ours, theirs = table.matched.predicted.type == name, table.matched.gold_type == name
    state, gold = table.state(ours), table.gold_state(theirs)
    each = Confidences(table.score[ours], table.right[ours], table.block[ours])
    measures = (
        _measure("precision", "Precision", accuracy, state, estimate),
        _recall(gold, estimate, "recall"),
        _measure("confidence", "Mean score", mean_confidence, state, estimate),
        _measure("ece", "ECE", ece, state, estimate),
        _measure("auroc", "AUROC", auroc, each, estimate),
    )
    missed = int((~table.found[theirs]).sum())
    return TypeRow(name, int(theirs.sum()), int(ours.sum()), missed, measures)


def _type_findings(table: _Table) -> tuple[Finding, ...]:
    """Return the types whose scores are off by more than chance, the surest first."""
    questions = []
    for name in table.matched.types:
        state = table.state(table.matched.predicted.type == name)
        sums = (state.n, state.top_confidence.sum(axis=-1), state.top_correct.sum(axis=-1))
        claims = ClaimSums.blocked(*(np.asarray(s, np.float64)[:, None] for s in sums))
        questions.append(Question(name, claims, lambda _: "predicted"))
    return findings_of("class", questions, _ALARM / 2)


def _class_rows(table: _Table) -> tuple[ClassRow, ...]:
    """Return the predicted types by cost, gap times number of entities, the worst first."""
    matched, rows = table.matched, []
    for name in matched.types:
        mine = matched.predicted.type == name
        if n := int(mine.sum()):
            gold = int((matched.gold_type == name).sum())
            claimed, right = table.score[mine].mean(), table.right[mine].mean()
            rows.append(ClassRow(name, gold, n, float(claimed), float(right)))
    return tuple(sorted(rows, key=lambda row: -abs(row.gap) * row.predicted))


def _mistakes(table: _Table, most: int) -> tuple[Mistake, ...]:
    """Return the wrong entities with the highest scores; the row is that of the entity."""
    wrong = np.flatnonzero(~table.right)
    order = wrong[np.argsort(-table.score[wrong], kind="stable")][:most]
    return tuple(_mistake(table, int(row)) for row in order)


def _mistake(table: _Table, row: int) -> Mistake:
    matched = table.matched
    start, end = matched.predicted_span[row].tolist()
    where = {
        "document": matched.names[int(matched.predicted_document[row])], "start": start, "end": end
    }  # fmt: skip
    kind = str(matched.predicted.type[row])
    label = "another span" if matched.right["overlapping"][row] else "no such entity"
    return Mistake(row, float(table.score[row]), kind, label, where)


def _warnings(matched: MatchedEntities, bootstrap: int) -> tuple[str, ...]:
    documents = len(np.unique(matched.predicted_document))
    if not bootstrap or documents >= _FEW:
        return ()
    return (
        f"The entities come from {documents} documents: an interval needs at least {_FEW}, so "
        "these are wide and only rough.",
    )


def _provenance(table: _Table) -> dict[str, Any]:
    return {
        "n": len(table.score),
        "ignored": 0,
        "documents": table.matched.documents,
        "gold entities": len(table.found),
        "classes": len(table.matched.types),
        "kind": "entities",
        "bins": table.bins.count,
        "closed": table.bins.closed,
        "calibrant": __version__,
        "numpy": np.__version__,
        "python": sys.version.split()[0],
        "platform": platform.platform(),
    }
