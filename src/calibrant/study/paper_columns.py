"""The papers' numbers as columns beside ours."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from calibrant.study.measures import Measure
from calibrant.study.paper import CITATION, paper_value
from calibrant.study.paper_cifar10 import cifar10_source, cifar10_value
from calibrant.study.runs import Run
from calibrant.study.table import Entry, number_entry

__all__ = ["citation", "paper_entries", "printed_beside", "printed_measures"]

_MOST = 9  # Columns of results, ours and the paper's, that fit side by side.
_DIGITS = {"entity_f1": 3, "ece": 3, "apcr": 2}  # Of Table I; the other papers print more.


def printed_measures(runs: Sequence[Run], measures: Iterable[Measure]) -> list[Measure]:
    """The measures that the paper has a number for in any of the runs' places."""
    return [
        measure
        for measure in measures
        if any(not math.isnan(_printed(run, measure)) for run in runs)
    ]


def printed_beside(runs: Sequence[Run], measures: Sequence[Measure]) -> list[Measure]:
    """The same where the paper's columns fit beside ours; none where they have their own table."""
    printed = printed_measures(runs, measures)
    return printed if len(measures) + len(printed) <= _MOST else []


def citation(runs: Sequence[Run]) -> str:
    """Where the paper's numbers of these runs stand."""
    found = dict.fromkeys(cifar10_source(run.record.recipe) for run in runs)
    return "; ".join(source for source in found if source is not None) or CITATION


def paper_entries(runs: Sequence[Run], measures: Sequence[Measure]) -> list[Entry]:
    """The paper's number in the place of the runs; of several widths, the mean."""
    return [
        number_entry(_mean([_printed(run, measure) for run in _one_per_width(runs)]), digits)
        for measure in measures
        for digits in (_digits(runs[0], measure),)
    ]


def _printed(run: Run, measure: Measure) -> float:
    """Table I is of heads of depth 1; its rows are compared with any options of the method."""
    recipe = run.record.recipe
    found = cifar10_value(recipe, measure.metric, measure.map)
    if found is None and run.depth == 1 and measure.map == "identity":
        found = paper_value(run.corpus, recipe.method, run.width, measure.metric)
    return math.nan if found is None else found


def _digits(run: Run, measure: Measure) -> int:
    return 4 if cifar10_source(run.record.recipe) else _DIGITS.get(measure.metric, 4)


def _one_per_width(runs: Iterable[Run]) -> list[Run]:
    return list({run.width: run for run in runs}.values())


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
