"""The paper's numbers as columns beside ours."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from calibrant.study.measures import Measure
from calibrant.study.paper import PRINTED, paper_value
from calibrant.study.runs import Run
from calibrant.study.table import Entry, number_entry

__all__ = ["paper_entries", "printed_measures"]

_DIGITS = {"entity_f1": 3, "ece": 3, "apcr": 2}


def printed_measures(runs: Sequence[Run], measures: Iterable[Measure]) -> list[Measure]:
    """The measures that the paper has a number for in any of the runs' places."""
    return [
        measure
        for measure in measures
        if measure.map == "identity"
        and measure.metric in PRINTED
        and any(not math.isnan(_printed(run, measure)) for run in runs)
    ]


def paper_entries(runs: Sequence[Run], measures: Sequence[Measure]) -> list[Entry]:
    """The paper's number in the place of the runs; of several widths, the mean."""
    return [
        number_entry(_mean([_printed(run, measure) for run in _one_per_width(runs)]), digits)
        for measure in measures
        for digits in (_DIGITS[measure.metric],)
    ]


def _printed(run: Run, measure: Measure) -> float:
    """Table I is of heads of depth 1; its rows are compared with any options of the method."""
    method = run.record.recipe.method
    found = paper_value(run.corpus, method, run.width, measure.metric)
    return math.nan if found is None or run.depth != 1 else found


def _one_per_width(runs: Iterable[Run]) -> list[Run]:
    return list({run.width: run for run in runs}.values())


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
