"""Results of one corpus: methods × head widths, and averaged over widths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from calibrant.study.best import best_alike
from calibrant.study.estimate import estimate
from calibrant.study.main_head import at_main_width
from calibrant.study.measures import Measure
from calibrant.study.paper_columns import citation, paper_entries, printed_measures
from calibrant.study.rows import (
    asked_heads,
    asked_labels,
    bold_marks,
    estimates,
    gather,
    number_of,
    one_seed,
    record_keys,
)
from calibrant.study.runs import Run
from calibrant.study.table import Row, Table, as_entry, grouped

__all__ = ["BOLD", "result_tables"]

BOLD = (
    "Mean ± half of a 95 % t-interval over seeds. Bold: the best mean{where}, and what the paired "
    "t-test over seeds cannot tell from it (5 %, Holm-corrected). (T): with the temperature that "
    "was fitted on the validation split."
)
_POOLED = (
    "Each seed's mean over the widths, of the seeds that were run at all of them, then mean ± half "
    "of a 95 % t-interval over seeds. Bold: the best mean, and what the paired t-test over seeds "
    "cannot tell from it (5 %, Holm-corrected). (T): with the temperature that was fitted on the "
    "validation split."
)


def result_tables(
    runs: Sequence[Run], measures: Sequence[Measure], by: Sequence[str]
) -> list[Table]:
    """Averages over widths, the main width where those lack a method, and, as a detail, all."""
    whole, pooled = _width_table(runs, measures, by), _pooled_table(runs, measures, by)
    if len({run.width for run in runs}) == 1:
        return [whole]
    tables = [] if pooled is None else [pooled]
    main = at_main_width(runs)
    if pooled is None or len(pooled.rows) < len({(run.method, run.extra) for run in runs}):
        title = f"{whole.title}, width {main[0].width}"
        name = f"results-{main[0].width}"
        tables.append(replace(_width_table(main, measures, by), name=name, title=title))
    return [*tables, replace(whole, title=f"{whole.title}, all widths", closed=True)]


def _width_table(runs: Sequence[Run], measures: Sequence[Measure], by: Sequence[str]) -> Table:
    """Table I of one unit: a row per method, head width and value of the keys asked for."""
    labels = 2 + len(by)
    cells = gather(
        runs, lambda run: (run.shown, *asked_labels(run), run.width, run.method, run.extra)
    )
    bold = bold_marks(cells, measures, lambda key: key[labels - 1], lambda run: run.seed)
    paper = printed_measures(runs, measures)
    rows = [
        Row(
            (*map(str, key[:labels]),),
            (number_of(cell), *estimates(cell, measures, bold[key]), *paper_entries(cell, paper)),
            record_keys(cell),
        )
        for key, cell in cells.items()
    ]
    cited = f" The paper: {citation(runs)}." if paper else ""
    return Table(
        "results",
        f"Results on {runs[0].unit}",
        ("method", *asked_heads(by), "width"),
        _heads(measures, paper),
        grouped(rows),
        BOLD.format(where=" of its width") + one_seed(cells) + cited,
        runs[0].unit,
        tuple(measure.to_dict() for measure in measures),
    )


def _pooled_table(
    runs: Sequence[Run], measures: Sequence[Measure], by: Sequence[str]
) -> Table | None:
    """The same averaged over head widths; None where there is one, or no method has them all."""
    widths = sorted({run.width for run in runs})
    cells = gather(runs, lambda run: (run.shown, *asked_labels(run), run.method, run.extra))
    complete = {key: _complete_seeds(cell, len(widths)) for key, cell in cells.items()}
    complete = {key: seeds for key, seeds in complete.items() if seeds}
    if len(widths) < 2 or not complete:
        return None
    marks = [
        best_alike([_by_seed(seeds, measure) for seeds in complete.values()], measure.sign)
        for measure in measures
    ]
    paper = printed_measures(runs, measures)
    rows = []
    for place, (key, seeds) in enumerate(complete.items()):
        bold = [alike[place] and len(complete) > 1 for alike in marks]
        labels = (*map(str, key[: 1 + len(by)]),)
        rows.append(_pooled_row(labels, seeds, measures, bold, paper))
    used = {
        key: [run for each in seeds.values() for run in each] for key, seeds in complete.items()
    }
    return Table(
        "pooled",
        f"Averaged over widths {', '.join(map(str, widths))} on {runs[0].unit}",
        ("method", *asked_heads(by)),
        _heads(measures, paper),
        grouped(rows),
        _POOLED + one_seed(used),
        runs[0].unit,
        tuple(measure.to_dict() for measure in measures),
    )


def _pooled_row(
    labels: tuple[str, ...],
    seeds: dict[int, list[Run]],
    measures: Sequence[Measure],
    bold: Sequence[bool],
    paper: Sequence[Measure],
) -> Row:
    entries = [
        as_entry(estimate(list(_by_seed(seeds, measure).values())), measure.digits, marked)
        for measure, marked in zip(measures, bold, strict=True)
    ]
    runs = [run for each in seeds.values() for run in each]
    return Row(labels, (number_of(seeds), *entries, *paper_entries(runs, paper)), record_keys(runs))


def _complete_seeds(cell: Sequence[Run], widths: int) -> dict[int, list[Run]]:
    """The runs of each seed that was run at every width."""
    seeds: dict[int, list[Run]] = {}
    for run in cell:
        seeds.setdefault(run.seed, []).append(run)
    return {seed: runs for seed, runs in sorted(seeds.items()) if len(runs) == widths}


def _by_seed(seeds: Mapping[int, Sequence[Run]], measure: Measure) -> dict[int, float]:
    """Each seed's mean over its widths."""
    return {seed: sum(map(measure.of, runs)) / len(runs) for seed, runs in seeds.items()}


def _heads(measures: Sequence[Measure], paper: Sequence[Measure]) -> tuple[str, ...]:
    return ("seeds", *(m.title for m in measures), *(f"paper’s {m.title}" for m in paper))
