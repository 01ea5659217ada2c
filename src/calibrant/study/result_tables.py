"""Tables of results: methods × head widths, pooled over widths, and against the head's depth."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Sized
from typing import Any

from calibrant.study.best import best_alike
from calibrant.study.estimate import estimate
from calibrant.study.labels import value_label
from calibrant.study.measures import Measure
from calibrant.study.paper import CITATION
from calibrant.study.paper_columns import paper_entries, printed_measures
from calibrant.study.runs import Run
from calibrant.study.table import Entry, Row, Table, as_entry, grouped

__all__ = ["at_main_depth", "depth_table", "pooled_table", "width_table"]

_BOLD = (
    "Mean ± half of a 95 % t-interval over seeds. Bold: the best mean{where}, and what the paired "
    "t-test over seeds cannot tell from it (5 %, Holm-corrected). (T): with the temperature that "
    "was fitted on the validation split."
)
_ONE_SEED = " One seed has no interval and allows no test: there only the best mean is bold."
Identity = tuple[Any, ...]


def width_table(runs: Sequence[Run], measures: Sequence[Measure], by: Sequence[str]) -> Table:
    """Table I of one unit: a row per method, head width and value of the keys asked for."""
    found = _gather(runs, lambda run: (run.shown, *_asked(run), run.width, run.method, run.extra))
    blocks = {key: key[1 + len(by)] for key in found}
    bold = _bold(found, measures, blocks, lambda run: run.seed)
    paper = printed_measures(runs, measures)
    rows = [
        Row(
            (*map(str, key[: 2 + len(by)]),),
            (
                _number_of(cell),
                *_estimates(cell, measures, bold[key]),
                *paper_entries(cell, paper),
            ),
            _keys(cell),
        )
        for key, cell in found.items()
    ]
    note = _BOLD.format(where=" of its width")
    return Table(
        "results",
        f"Results on {runs[0].unit}",
        ("method", *_heads(by), "width"),
        ("seeds", *(m.title for m in measures), *(f"paper’s {m.title}" for m in paper)),
        grouped(rows),
        note + _one_seed(found) + (f" The paper: {CITATION}." if paper else ""),
        runs[0].unit,
        tuple(measure.to_dict() for measure in measures),
    )


def pooled_table(
    runs: Sequence[Run], measures: Sequence[Measure], by: Sequence[str]
) -> Table | None:
    """The same averaged over head widths; None where there is one, or no method has them all."""
    widths = sorted({run.width for run in runs})
    found = _gather(runs, lambda run: (run.shown, *_asked(run), run.method, run.extra))
    found = {key: cell for key, cell in found.items() if {run.width for run in cell} == set(widths)}
    if len(widths) < 2 or not found:
        return None
    bold = _bold(found, measures, dict.fromkeys(found, 0), lambda run: (run.width, run.seed))
    paper = printed_measures(runs, measures)
    rows = []
    for key, cell in found.items():
        seeds = _complete_seeds(cell, len(widths))
        if not seeds:
            continue
        means = [estimate([_mean(seeds[seed], m) for seed in seeds]) for m in measures]
        entries = [
            as_entry(mean, m.digits, marked)
            for mean, m, marked in zip(means, measures, bold[key], strict=True)
        ]
        ours = [run for each in seeds.values() for run in each]
        labels = (*map(str, key[: 1 + len(by)]),)
        rows.append(
            Row(labels, (_number_of(seeds), *entries, *paper_entries(ours, paper)), _keys(ours))
        )
    shown = ", ".join(map(str, widths))
    return Table(
        "pooled",
        f"Averaged over widths {shown} on {runs[0].unit}",
        ("method", *_heads(by)),
        ("seeds", *(m.title for m in measures), *(f"paper’s {m.title}" for m in paper)),
        grouped(rows),
        "Each seed's mean over the widths, then mean ± half of a 95 % t-interval over seeds. Bold: "
        "the best mean, and what the paired t-test over seeds and widths cannot tell from it (5 %, "
        "Holm-corrected)." + _one_seed(found),
        runs[0].unit,
        tuple(measure.to_dict() for measure in measures),
    )


def depth_table(
    runs: Sequence[Run], measures: Sequence[Measure], by: Sequence[str]
) -> Table | None:
    """Results against the depth of the head, at the widths that have several; None without."""
    runs = with_several_depths(runs)
    if not runs:
        return None
    found = _gather(
        runs, lambda run: (run.shown, *_asked(run), run.width, run.depth, run.method, run.extra)
    )
    blocks = {key: key[1 + len(by) : 3 + len(by)] for key in found}
    bold = _bold(found, measures, blocks, lambda run: run.seed)
    rows = [
        Row(
            (*map(str, key[: 3 + len(by)]),),
            (_number_of(cell), *_estimates(cell, measures, bold[key])),
            _keys(cell),
        )
        for key, cell in found.items()
    ]
    return Table(
        "depth",
        f"Depth of the head on {runs[0].unit}",
        ("method", *_heads(by), "width", "depth"),
        ("seeds", *(m.title for m in measures)),
        grouped(rows),
        _BOLD.format(where=" of its width and depth") + _one_seed(found),
        runs[0].unit,
        tuple(measure.to_dict() for measure in measures),
    )


def at_main_depth(runs: Sequence[Run]) -> list[Run]:
    """The runs of the depth that most have: the others are for the table of depths."""
    if not runs:
        return []
    counts = Counter(run.depth for run in runs)
    main = min(counts, key=lambda depth: (-counts[depth], depth))
    return [run for run in runs if run.depth == main]


def with_several_depths(runs: Sequence[Run]) -> list[Run]:
    """The runs at widths that were run at more than one depth."""
    depths: dict[int, set[int]] = {}
    for run in runs:
        depths.setdefault(run.width, set()).add(run.depth)
    return [run for run in runs if len(depths[run.width]) > 1]


def _gather(runs: Iterable[Run], identity: Callable[[Run], Identity]) -> dict[Identity, list[Run]]:
    found: dict[Identity, list[Run]] = {}
    for run in runs:
        found.setdefault(identity(run), []).append(run)
    return found


def _asked(run: Run) -> tuple[str, ...]:
    return tuple("default" if value is None else value_label(value) for value in run.by)


def _heads(by: Sequence[str]) -> list[str]:
    return [key.replace("_", " ") for key in by]


def _bold(
    found: Mapping[Identity, Sequence[Run]],
    measures: Sequence[Measure],
    blocks: Mapping[Identity, Hashable],
    pair: Callable[[Run], Hashable],
) -> dict[Identity, list[bool]]:
    """Per row and measure, whether it is the best of its block or like it."""
    bold: dict[Identity, list[bool]] = {key: [] for key in found}
    for measure in measures:
        for block in dict.fromkeys(blocks.values()):
            keys = [key for key in found if blocks[key] == block]
            columns = [{pair(run): measure.of(run) for run in found[key]} for key in keys]
            for key, marked in zip(keys, best_alike(columns, measure.sign), strict=True):
                bold[key].append(marked and len(keys) > 1)
    return bold


def _estimates(
    cell: Sequence[Run], measures: Sequence[Measure], bold: Sequence[bool]
) -> list[Entry]:
    return [
        as_entry(estimate([measure.of(run) for run in cell]), measure.digits, marked)
        for measure, marked in zip(measures, bold, strict=True)
    ]


def _number_of(seeds: Sized) -> Entry:
    return Entry(str(len(seeds)), float(len(seeds)), math.nan, 1)


def _keys(cell: Iterable[Run]) -> tuple[str, ...]:
    return tuple(sorted(run.key for run in cell))


def _one_seed(found: Mapping[Identity, Sequence[Run]]) -> str:
    alone = any(len({run.seed for run in cell}) == 1 for cell in found.values())
    return _ONE_SEED if alone else ""


def _complete_seeds(cell: Sequence[Run], widths: int) -> dict[int, list[Run]]:
    seeds: dict[int, list[Run]] = {}
    for run in cell:
        seeds.setdefault(run.seed, []).append(run)
    return {seed: runs for seed, runs in sorted(seeds.items()) if len(runs) == widths}


def _mean(runs: Sequence[Run], measure: Measure) -> float:
    return sum(measure.of(run) for run in runs) / len(runs)
