"""The numbers that a study shows: metrics as trained and after the calibrators."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from calibrant.errors import unknown_name
from calibrant.metrics import METRICS
from calibrant.metrics.table import quality_metrics
from calibrant.study.runs import Run

__all__ = [
    "SHIFT_METRICS",
    "StudyMeasure",
    "calibrators_of",
    "check_metrics",
    "in_parts",
    "measures_of",
    "score_of",
    "with_calibrators",
]

SHIFT_METRICS = ("accuracy", "ece", "aurc", "auroc")
_MOST_COLUMNS = 8  # Columns of a mean with its interval that fit on a screen.
# The calibrators that every table shows unless others are requested.
_USUAL_CALIBRATORS = ("identity", "temperature")


@dataclass(frozen=True)
class StudyMeasure:
    """A column: a metric after a calibrator, on a part ("test", "shift/typos-1")."""

    metric: str
    calibrator: str = "identity"
    part: str = "test"

    @property
    def title(self) -> str:
        """The head of the column.

        >>> StudyMeasure("ece").title, StudyMeasure("apcr", "temperature").title
        ('ECE', 'APCR (T)')
        """
        row = METRICS.get(self.metric)
        name = self.metric.replace("_", " ") if row is None else row.short
        if self.calibrator == "identity":
            return name
        after = "T" if self.calibrator == "temperature" else self.calibrator.replace("_", " ")
        return f"{name} ({after})"

    @property
    def digits(self) -> int:
        """The number of decimals in tables."""
        return METRICS[self.metric].digits if self.metric in METRICS else 4

    @property
    def sign(self) -> int:
        """1 if more is better, −1 if less is better, 0 if neither."""
        return METRICS[self.metric].better if self.metric in METRICS else -1

    def of(self, run: Run) -> float:
        """Return the value of a run; NaN if it has none."""
        return run.value(self.metric, self.calibrator, self.part)

    def to_dict(self) -> dict[str, str]:
        """Return the measure as data."""
        # "map" is the old key, until the format changes.
        return {
            "metric": self.metric,
            "calibrator": self.calibrator,
            "map": self.calibrator,
            "part": self.part,
        }


def calibrators_of(runs: Iterable[Run]) -> list[str]:
    """Return the calibrators in the records: identity, temperature, then by name."""
    found = {name for run in runs for name in run.record.results}
    first = [name for name in _USUAL_CALIBRATORS if name in found]
    return [*first, *sorted(found.difference(first))]


def _known_metrics(runs: Iterable[Run], part: str = "test") -> set[str]:
    each = ((run, name) for run in runs for name in calibrators_of([run]))
    return {metric for run, calibrator in each for metric in run.part(calibrator, part)}


def with_calibrators(runs: Sequence[Run], calibrators: Sequence[str] | None = None) -> list[Run]:
    """Return the runs with the numbers of the requested calibrators only.

    The default is identity and temperature, or all if no record has either. ``["all"]``
    requests all.
    """
    known = calibrators_of(runs)
    for name in calibrators or ():
        if name not in (*known, "all"):
            hint = "'measure' in a recipe names the calibrators of its records."
            raise unknown_name("calibrator of these records", name, known, hint)
    if calibrators is None:
        chosen = [name for name in _USUAL_CALIBRATORS if name in known] or known
    else:
        chosen = known if "all" in calibrators else list(calibrators)
    return [_with(run, chosen) for run in runs]


def _with(run: Run, calibrators: Collection[str]) -> Run:
    results = {name: parts for name, parts in run.record.results.items() if name in calibrators}
    return replace(run, record=replace(run.record, results=results))


def measures_of(
    runs: Sequence[Run], metrics: Sequence[str] | None = None, part: str = "test"
) -> list[StudyMeasure]:
    """Return the columns of the runs; a metric that no calibrator changes comes once."""
    known = _known_metrics(runs, part)
    found = []
    for calibrator in calibrators_of(runs):
        for metric in _chosen(metrics, known):
            measure, plain = (
                StudyMeasure(metric, calibrator, part),
                StudyMeasure(metric, "identity", part),
            )
            values = [measure.of(run) for run in runs]
            if all(map(math.isnan, values)):
                continue
            if calibrator == "identity" or not _same(values, [plain.of(run) for run in runs]):
                found.append(measure)
    return found


def in_parts(measures: Sequence[StudyMeasure]) -> dict[str, list[StudyMeasure]]:
    """Split measures into tables that fit a screen: words for the title → measures.

    The first part has no words. All measures of a calibrator stay together.

    >>> names = ("identity", "spline")
    >>> wide = [StudyMeasure(m, calibrator) for calibrator in names for m in ("ece", "nll") * 3]
    >>> {words: len(part) for words, part in in_parts(wide).items()}
    {'': 6, 'with spline': 6}
    """
    groups: dict[str, list[StudyMeasure]] = {}
    for measure in measures:
        groups.setdefault(measure.calibrator, []).append(measure)
    parts: list[list[str]] = [[]]
    for name, group in groups.items():
        before = sum(len(groups[other]) for other in parts[-1])
        if before and before + len(group) > _MOST_COLUMNS:
            parts.append([])
        parts[-1].append(name)
    return {
        f"with {', '.join(part).replace('_', ' ')}" if place else "": [
            measure for name in part for measure in groups[name]
        ]
        for place, part in enumerate(parts)
    }


def score_of(runs: Iterable[Run]) -> StudyMeasure:
    """Return the measure of predictive quality: the first one that any record has."""
    known = _known_metrics(runs)
    scores = quality_metrics()
    return StudyMeasure(next((metric for metric in scores if metric in known), scores[0]))


def check_metrics(runs: Iterable[Run], metrics: Iterable[str]) -> None:
    """Refuse a metric that no record has."""
    known = _known_metrics(runs)
    for metric in metrics:
        if metric not in known:
            raise unknown_name("metric", metric, known)


def _chosen(metrics: Sequence[str] | None, known: Collection[str]) -> list[str]:
    if metrics is not None:
        return [metric for metric in metrics if metric in known]
    score = next((metric for metric in quality_metrics() if metric in known), "")
    return [metric for metric in (score, "ece", "apcr") if metric in known]


def _same(ones: Sequence[float], others: Sequence[float]) -> bool:
    return all(
        a == b or (math.isnan(a) and math.isnan(b)) or abs(a - b) < 1e-12
        for a, b in zip(ones, others, strict=True)
    )
