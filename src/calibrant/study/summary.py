"""A study in a few sentences: its runs, what is missing, and where the numbers come from."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from calibrant.charts.numbers import counted
from calibrant.study.grouping import at_main_depth, by_unit
from calibrant.study.measures import measures_of
from calibrant.study.runs import Run, cells, main_by_corpus, main_by_model, method_order
from calibrant.study.settings import describe_by_corpus, shared_settings

__all__ = ["describe_settings", "missing", "origins", "summarize"]


def summarize(
    runs: Sequence[Run],
    by: Sequence[str],
    missing: Sequence[str],
    extra: Sequence[str] = (),
) -> list[str]:
    """Summarise the study in one screen of sentences."""
    sentences = [_records(runs), _methods(runs)]
    settings = describe_settings(runs, by)
    sentences += [sentence for sentence in (settings, _main_depth(runs)) if sentence]
    sentences += extra
    if missing:
        sentences.append(f"Some runs or numbers are missing: {counted(len(missing), 'gap')}.")
    return sentences


def _records(runs: Sequence[Run]) -> str:
    corpora = sorted({run.corpus for run in runs})
    own = [run for run in runs if not run.record.recipe.wrapped]  # Others have heads of their own.
    heads = f"heads of {_numbers('width', (run.width for run in own))}"
    heads += f" and {_numbers('depth', (run.depth for run in own))}; "
    encoders = sorted({run.record.recipe.model for run in runs})
    word = "corpus" if len(corpora) == 1 else "corpora"
    named = f"{len(corpora)} {word} ({', '.join(corpora)})"
    records, models = counted(len(runs), "record"), ", ".join(encoders)
    return f"{records} of {named}; {models}; {heads if own else ''}{_seeds(runs)}."


def _methods(runs: Sequence[Run]) -> str:
    methods = method_order({run.method for run in runs})
    return f"{counted(len(methods), 'method')}: {', '.join(methods)}."


def _seeds(runs: Sequence[Run]) -> str:
    """Count the seeds of the cells: "2 to 5 seeds".

    A cell is a corpus, setting, method and head.
    """
    numbers = {len(cell) for members in by_unit(runs).values() for cell in cells(members).values()}
    low, high = min(numbers), max(numbers)
    return counted(low, "seed") if low == high else f"{low} to {high} seeds"


def _main_depth(runs: Sequence[Run]) -> str:
    """Name the depth of the tables if there are several: "depth 1 (2 on gum)"."""
    units = by_unit(runs)
    if all(len({run.depth for run in members}) == 1 for members in units.values()):
        return ""
    main = {unit: {"depth": at_main_depth(members)[0].depth} for unit, members in units.items()}
    depth = describe_by_corpus(main).get("depth") or str(next(iter(main.values()))["depth"])
    return f"All tables except the depth table use heads of depth {depth}."


def _numbers(name: str, values: Iterable[int]) -> str:
    found = sorted(set(values))
    return f"{name}{'s' * (len(found) > 1)} {', '.join(map(str, found))}"


def describe_settings(runs: Sequence[Run], by: Sequence[str] = ()) -> str:
    """Describe the settings that differ between corpora or models, and the separate units."""
    differing = describe_by_corpus(main_by_corpus(runs, by))
    if models := main_by_model(runs, by):
        differing |= describe_by_corpus(models)
    settings = [f"{key.replace('_', ' ')} {value}" for key, value in differing.items()]
    apart = dict.fromkeys(run.unit for run in runs if run.setting)
    sentences = [f"Trained with {', '.join(settings)}."] if settings else []
    sentences += [f"Compared separately: {', '.join(apart)}."] if apart else []
    return " ".join(sentences)


def origins(runs: Sequence[Run], by: Sequence[str] = ()) -> dict[str, Any]:
    """Collect records, versions, hardware, commits, time and speed of training, and notes."""
    main, models = main_by_corpus(runs, by), main_by_model(runs, by)
    found: dict[str, Any] = {
        "records": len(runs),
        "corpora": sorted({run.corpus for run in runs}),
        "models": _counted(run.record.recipe.model for run in runs),
        "seeds": sorted({run.seed for run in runs}),
        "settings unless a unit says otherwise": {
            key: value for key, value in shared_settings(main).items() if value not in ("", {}, [])
        }
        | describe_by_corpus(main)
        | (describe_by_corpus(models) if models else {}),
        "training": _training(runs),
        "circumstances": _circumstances(runs),
    }
    notes = {
        corpus: sorted(
            {
                n
                for run in runs
                if run.corpus == corpus
                for n in run.record.training.get("notes", [])
            }
        )
        for corpus in found["corpora"]
    }
    if any(notes.values()):
        found["notes"] = {corpus: each for corpus, each in notes.items() if each}
    return found


def _circumstances(runs: Sequence[Run]) -> dict[str, dict[str, int]]:
    """Count the records of each version, machine and commit."""
    names = sorted({name for run in runs for name in run.record.circumstances})
    return {
        name: _counted(
            "unknown" if (value := run.record.circumstances.get(name)) is None else str(value)
            for run in runs
        )
        for name in names
    }


def _counted(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))


def _training(runs: Sequence[Run]) -> dict[str, Any]:
    """Sum steps and seconds, and divide into examples (sentences, images) per second."""
    timed = [
        run
        for run in runs
        if run.record.training.get("seconds") and run.record.training.get("steps")
    ]
    if not timed:
        return {"steps and seconds": "not recorded"}
    seconds = sum(float(run.record.training["seconds"]) for run in timed)
    steps = sum(int(run.record.training["steps"]) for run in timed)
    examples = sum(int(run.record.training["steps"]) * run.record.recipe.batch for run in timed)
    return {
        "records with times": len(timed),
        "steps": steps,
        "hours, summed over runs": round(seconds / 3600, 3),
        "examples, at most": examples,
        "examples a second within one run": round(examples / seconds, 1),
        "read this as": "steps × batch / seconds; runs side by side on one device each count the "
        "time that they shared, so the device did more",
    }


def missing(runs: Sequence[Run], metrics: Sequence[str] | None = None) -> list[str]:
    """List the seeds that other cells of a corpus have, and numbers that records lack."""
    sentences = _missing_corpora(runs)
    for unit, members in by_unit(runs).items():
        seeds = {run.seed for run in members}
        lacking: dict[tuple[int, ...], list[str]] = {}
        for cell in cells(members).values():
            gone = tuple(sorted(seeds - {run.seed for run in cell}))
            if gone:
                lacking.setdefault(gone, []).append(_cell_name(cell[0]))
        for gone, names in sorted(lacking.items()):
            word = "seed" if len(gone) == 1 else "seeds"
            sentences.append(f"{unit}: {word} {', '.join(map(str, gone))} of {_listed(names)}.")
        for measure in measures_of(members, metrics):
            names = [run.key for run in members if math.isnan(measure.of(run))]
            if names:
                sentences.append(f"{unit}: {measure.title} in {_listed(names)}.")
            names = [run.key for run in members if math.isinf(measure.of(run))]
            if names:
                sentences.append(
                    f"{unit}: tests of {measure.title}, which is infinite in {_listed(names)}."
                )
    return sentences


def _missing_corpora(runs: Sequence[Run]) -> list[str]:
    """List the methods, with any options, that were run on some corpora only."""
    places: dict[str, set[str]] = {}
    for run in runs:
        if not run.setting:
            places.setdefault(run.record.recipe.method, set()).add(run.corpus)
    everywhere = set().union(*places.values())
    lacking: dict[tuple[str, ...], list[str]] = {}
    for method, found in places.items():
        if found != everywhere:
            lacking.setdefault(tuple(sorted(everywhere - found)), []).append(method)
    return [
        f"{', '.join(gone)}: any run of {_listed(names)}."
        for gone, names in sorted(lacking.items())
    ]


def _cell_name(run: Run) -> str:
    return " ".join([run.method, f"{run.width}×{run.depth}", *(value for _, value in run.extra)])


def _listed(names: Sequence[str], most: int = 6) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
