"""Turn predictions, whole or as a stream, into an :class:`Audit`."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from calibrant import __version__
from calibrant.arguments import check_kind, takes_no_labels
from calibrant.auditing.collect import Collector, collect, taken
from calibrant.auditing.entities import entity_view
from calibrant.auditing.estimate import Estimator
from calibrant.auditing.evidence import MATERIAL, class_findings, whole_p_value
from calibrant.auditing.pixels import pixel_view
from calibrant.auditing.positive import least_gap, positive_findings, positive_view
from calibrant.auditing.record import Audit, ClassRow, Finding, Measure, TopView
from calibrant.auditing.verdict import left_out, verdict, warnings
from calibrant.claims import Claims
from calibrant.errors import InputError
from calibrant.labels import describe_ignored
from calibrant.metrics import (
    METRICS,
    Bins,
    CalibrationState,
    Confidences,
    ConfidenceSketch,
    chance_ece,
    risk_points,
)
from calibrant.metrics.bins import Closed
from calibrant.metrics.entities import Reduction
from calibrant.metrics.metric import percent
from calibrant.metrics.sample import Sample
from calibrant.metrics.segmentation_example import Scene
from calibrant.metrics.sketch import Sketched
from calibrant.old_names import renamed_arguments
from calibrant.predictions import Predictions

__all__ = ["MOST_SORTED", "audit", "check_bins", "conclude"]

ALARM = 0.05  # The risk that the verdict doubts confidences that are honest.
_OF_CLAIMS = " Of “right or wrong”, as the scores of all classes are not known."
# More would hold single examples, and cost gigabytes: each bin has sums per class and block.
MOST_BINS = 10_000
MOST_SORTED = 1_000_000  # Above, ranks come from a sketch, in which confidences are off by 0.0003.


@renamed_arguments(by="keep_together")
@takes_no_labels
def audit(
    source: Predictions | Claims | Iterable[Predictions] | Iterable[Claims],
    *,
    bins: int = 15,
    closed: Closed = "right",
    bootstrap: int = 1000,
    level: float = 0.95,
    keep_together: str | None = "auto",
    per: str | Sequence[str] = (),
    reduction: Reduction = "product",
    mistakes: int = 20,
    seed: int = 0,
    sample: int = 10_000_000,
    scenes: Sequence[Scene] = (),
    provenance: Mapping[str, Any] | None = None,
) -> Audit:
    """Measure how far these confidences can be trusted.

    ``source`` is predictions or a stream of chunks (``calibrant.files.stream``), of which the audit
    keeps a few numbers per example. Intervals come from ``bootstrap`` replicates (0: none) over the
    groups of dependent examples in the column ``keep_together`` ("auto": sentence or image if there
    is one, else single examples; ``by`` is its old name). ``per`` names columns of subgroups, such
    as site or language: each subgroup gets a row with intervals, and a test whether its gap is that
    of all others. Binary predictions get a view of the positive class.
    Labels in BIO, IOB1 or BIOES tags add a view of entities, whose confidence is the ``reduction``
    of the confidences of their words. Predictions with a group ``image`` are pixels: they add a
    view of images with example ``scenes`` and, if there is a group ``border``, one of borders.
    Claims (top labels with a confidence) get every metric that does not need all classes.

    Metrics that need ranks (adaptive ECE, AURC, …) sort every confidence of up to a million
    examples. Of more they take a :class:`~calibrant.metrics.ConfidenceSketch` of all, in which a
    confidence is off by at most 0.0003. With a smaller ``sample`` they sort a seeded sample of so
    many examples instead. Their explanations say so.

    >>> p = Predictions.from_probabilities([0.9] * 100, [1] * 70 + [0] * 30)
    >>> print(audit(p, bootstrap=0).verdict[0])
    Overconfident by 20.0 points: the model says 90.0 % on average and is right 70.0 % of the time.
    """
    estimate = Estimator(bootstrap, level, seed)  # Its settings are checked before the long part.
    check_bins(bins)
    # A sketch of all says more than a sample that is too large to be sorted.
    few = sample <= MOST_SORTED
    kept: Sample[Confidences] | Sketched = Sample(sample, seed) if few else Sketched(MOST_SORTED)
    columns = (per,) if isinstance(per, str) else tuple(per)
    settings = (Bins(bins, closed), keep_together, reduction, mistakes, kept, columns)
    collector = Collector(*settings, intervals=bootstrap > 0)
    found = collect(_chunks(source), collector)
    return conclude(found, estimate, scenes=scenes, provenance=provenance)


def conclude(
    found: Collector,
    estimate: Estimator,
    *,
    scenes: Sequence[Scene] = (),
    provenance: Mapping[str, Any] | None = None,
) -> Audit:
    """Return the audit of rows that were collected."""
    if found.state is None or not found.rows:
        raise _nothing(found)
    settings: dict[str, Any] = {"bootstrap": estimate.replicates, "level": estimate.level}
    settings |= {"keep_together": found.by, "seed": estimate.seed}
    settings["by"] = found.by  # Its old name.
    about = {**(provenance or {}), **_provenance(found), **settings}
    return _concluded(found, replace(estimate, independent=found.by is None), scenes, about)


def check_bins(bins: int) -> None:
    """Refuse more bins than there is memory for."""
    if bins > MOST_BINS:
        raise InputError(f"audit expects at most {MOST_BINS:,} bins, got {bins:,}.")


def _chunks(source: Any) -> Iterable[Predictions | Claims]:
    if not isinstance(source, Iterable) or isinstance(source, (str, np.ndarray)):
        check_kind("audit", source, Predictions, Claims)
    chunks: Any = [source] if isinstance(source, (Predictions, Claims)) else source
    return cast(Iterable[Predictions | Claims], chunks)


def _concluded(
    found: Collector, estimate: Estimator, scenes: Sequence[Scene], provenance: Mapping[str, Any]
) -> Audit:
    """Return what the collected sums say."""
    state = found.total()
    views = _views(found, state, estimate, scenes)
    confidences = found.take_confidences()
    chance, p_value, findings = _evidence(found, state)
    ranked = _sketch_of_many(confidences)
    measures = _measures(found, ranked, estimate)
    least = next((m.low or 0.0 for m in measures if m.name == "ece"), 0.0)
    return Audit(
        label_names=found.label_names,
        state=state,
        confidences=confidences,
        measures=measures,
        verdict=(
            *verdict(
                state, chance, findings, p_value, found.unlabelled, least, found.top is not None
            ),
            *left_out(found),
        ),
        classes=_class_rows(state, found.label_names),
        mistakes=tuple(found.mistakes),
        provenance=provenance,
        findings=findings,
        warnings=warnings(found, estimate.replicates),
        at_risk=risk_points(ranked),
        per=tuple(p.table(estimate, grouped=found.grouped) for p in found.per_group),
        **views,
    )


def _views(
    found: Collector, state: CalibrationState, estimate: Estimator, scenes: Sequence[Scene]
) -> dict[str, Any]:
    """Return the views of entities, pixels, the positive class and top labels, or None."""
    assert found.state is not None
    blocked = found.state.without_classes()
    entities = pixels = positive = None
    if found.entities is not None:
        entities = entity_view(found.entities, blocked, found.reduction, estimate)
    if found.pixels is not None:
        pixels = pixel_view(found.pixels, found.state, state, found.label_names, estimate, scenes)
    if found.positive is not None and found.state.classwise:
        ranked = _sketch_of_many(taken(found.positive))
        positive = positive_view(found.state, ranked, found.label_names[1], estimate)
    top = _top_view(found, estimate)
    return {"entities": entities, "pixels": pixels, "positive": positive, "top": top}


def _evidence(
    found: Collector, state: CalibrationState
) -> tuple[tuple[float, float], float | None, tuple[Finding, ...]]:
    """Return what chance explains, and the classes and groups that it does not explain.

    All examples, each class and each group are tested, and share the risk of a false alarm; of two
    classes, the positive one is a question of its own. All examples are tested twice: for their
    ECE, and for their mean (None if chance explains it).
    """
    assert found.state is not None
    assert found.groups is not None
    grouped = found.grouped
    binary = found.positive is not None and found.state.classwise
    level = ALARM / (2 + bool(found.groups.any) + binary)
    blocked = found.state if grouped else None
    whole = state if blocked is None else blocked
    chance = chance_ece(whole, quantile=1 - level / 2)
    p_value = whole_p_value(whole, grouped=grouped)
    sums = found.label_sums
    tested = found.label_names if not grouped or sums is None or sums.blocked else ()
    least = least_gap(state) if binary else MATERIAL
    classes = class_findings(state, tested, blocked=blocked, level=level, least=least)
    if binary and found.label_names[1] not in {finding.name for finding in classes}:
        positive = positive_findings(whole, found.label_names[1], grouped=grouped, level=level)
        classes = (*positive, *classes)
    findings = (*classes, *found.groups.findings(grouped=grouped, level=level))
    return chance, p_value if p_value <= level / 2 else None, findings


def _top_view(found: Collector, estimate: Estimator) -> TopView | None:
    if found.top is None or not found.top.n.sum():
        return None
    measures = estimate("labels", {"top": found.top}, found.bins.count)
    return TopView(measures, found.top.total())


def _nothing(found: Collector) -> InputError:
    rows = describe_ignored(found.ignored, found.unlabelled) if found.ignored else "no rows"
    return InputError(f"Nothing to audit: {rows}.")


def _measures(
    found: Collector, confidences: Confidences | ConfidenceSketch, estimate: Estimator
) -> tuple[Measure, ...]:
    assert found.state is not None
    sources: dict[str, Any] = {
        "state": found.state.without_classes(),
        "classwise": found.classwise,
        "confidences": confidences,
    }
    if not found.classwise_known:
        del sources["classwise"]
    if found.parts:  # A long stream does not keep all of its scores.
        sources["scores"] = Predictions.concatenate(found.parts)
    measures = estimate("classes", sources, found.bins.count)
    if found.of_claims and found.top is None:  # Of many labels, each is right or wrong anyhow.
        measures = tuple(
            replace(m, meaning=m.meaning + _OF_CLAIMS) if m.name in ("nll", "brier") else m
            for m in measures
        )
    if found.top is not None:
        measures = tuple(_of_labels(m) for m in measures)
    note = _how_sorted(found, confidences)
    ranked = [name for name, row in METRICS.items() if row.source == ("confidences",)]
    return tuple(replace(m, meaning=m.meaning + note) if m.name in ranked else m for m in measures)


def _sketch_of_many(
    confidences: Confidences | ConfidenceSketch,
) -> Confidences | ConfidenceSketch:
    """Return the confidences, or a sketch of them where sorting takes longer than reading."""
    if isinstance(confidences, ConfidenceSketch):
        return confidences
    return ConfidenceSketch.of(confidences) if len(confidences) > MOST_SORTED else confidences


def _how_sorted(found: Collector, confidences: Confidences | ConfidenceSketch) -> str:
    """Return what a reader must know about metrics that need ranks, or nothing."""
    note = ""
    if isinstance(found.sample, Sample) and not found.sample.whole:
        note = f" From a sample of {found.sample.held:,} of {found.rows:,} examples."
    if isinstance(confidences, ConfidenceSketch):
        note += " From a sketch, in which a confidence is off by at most 0.0003."
    return note


def _of_labels(measure: Measure) -> Measure:
    """Return a measure of many labels under a name that fits: a claim is "this label applies"."""
    share = percent(measure.value)
    if measure.name == "accuracy":
        title, meaning = "Labels that apply", f"{share} of all labels of all examples apply."
    elif measure.name == "mean_confidence":
        title, meaning = "Mean probability", f"On average a label is given {share}."
    else:
        return measure
    return replace(measure, title=title, meaning=meaning)


def _class_rows(state: CalibrationState, names: tuple[str, ...]) -> tuple[ClassRow, ...]:
    """Return the predicted classes by cost, gap times number of predictions, the worst first."""
    rows = [
        ClassRow(
            name,
            round(state.label_count[k]),
            round(state.predicted_count[k]),
            float(state.predicted_confidence[k] / state.predicted_count[k]),
            float(state.predicted_correct[k] / state.predicted_count[k]),
        )
        for k, name in enumerate(names)
        if state.predicted_count[k]
    ]
    return tuple(sorted(rows, key=lambda row: -abs(row.gap) * row.predicted))


def _provenance(found: Collector) -> dict[str, Any]:
    bins = found.bins
    return {
        "n": found.rows,
        "ignored": found.ignored,
        "unlabelled": found.unlabelled,
        **({"effective_n": found.effective} if found.weighted else {}),
        **_about_sample(found.sample),
        "classes": len(found.label_names),
        "kind": found.kind,
        "dtype": found.dtype,
        "bins": bins.count,
        "closed": bins.closed,
        "edges": [round(edge, 6) for edge in bins.edges().tolist()],
        "calibrant": __version__,
        "numpy": np.__version__,
        "python": sys.version.split()[0],
        "platform": platform.platform(),
    }


def _about_sample(sample: Any) -> dict[str, int]:
    return {} if sample.whole else {"sampled": sample.held}
