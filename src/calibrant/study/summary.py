"""A study in a few sentences: what is there, what it says, what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from calibrant.report.numbers import counted
from calibrant.study.main_head import at_main_depth
from calibrant.study.runs import Run, cells, main_by_corpus, main_by_model, method_order
from calibrant.study.settings import told_by_corpus

__all__ = ["summarize", "told_settings"]


def summarize(
    runs: Sequence[Run],
    by: Sequence[str],
    missing: Sequence[str],
    extra: Sequence[str] = (),
) -> list[str]:
    """One screen of sentences."""
    said = [_records(runs), _methods(runs)]
    settings = told_settings(runs, by)
    said += [sentence for sentence in (settings, _depth(runs)) if sentence]
    said += extra
    if missing:
        said.append(f"Missing: {counted(len(missing), 'thing')}, listed below.")
    return said


def _records(runs: Sequence[Run]) -> str:
    corpora = sorted({run.corpus for run in runs})
    heads = _listed("width", (run.width for run in runs))
    heads += "; " + _listed("depth", (run.depth for run in runs))
    encoders = sorted({run.record.recipe.model for run in runs})
    word = "corpus" if len(corpora) == 1 else "corpora"
    told = f"{len(corpora)} {word} ({', '.join(corpora)})"
    return (
        f"{counted(len(runs), 'record')} of {told}; {heads}; {_seeds(runs)}; {', '.join(encoders)}."
    )


def _methods(runs: Sequence[Run]) -> str:
    methods = method_order({run.method for run in runs})
    return f"{counted(len(methods), 'method')}: {', '.join(methods)}."


def _seeds(runs: Sequence[Run]) -> str:
    """How many seeds the cells have: "2 to 5 seeds".

    A cell is a corpus, setting, method and head.
    """
    units: dict[str, list[Run]] = {}
    for run in runs:
        units.setdefault(run.unit, []).append(run)
    numbers = {len(cell) for members in units.values() for cell in cells(members).values()}
    low, high = min(numbers), max(numbers)
    return counted(low, "seed") if low == high else f"{low} to {high} seeds"


def _depth(runs: Sequence[Run]) -> str:
    """Of which depth the tables are, where there are several: "depth 1 (2 on gum)"."""
    units = {run.unit: [r for r in runs if r.unit == run.unit] for run in runs}
    if all(len({run.depth for run in members}) == 1 for members in units.values()):
        return ""
    main = {unit: {"depth": at_main_depth(members)[0].depth} for unit, members in units.items()}
    told = told_by_corpus(main).get("depth") or str(next(iter(main.values()))["depth"])
    return f"But for the table of depths, all are of heads of depth {told}."


def _listed(name: str, values: Iterable[int]) -> str:
    found = sorted(set(values))
    return f"{name}{'s' * (len(found) > 1)} {', '.join(map(str, found))}"


def told_settings(runs: Sequence[Run], by: Sequence[str] = ()) -> str:
    """What differs from corpus to corpus or model to model, and what stands apart."""
    told = told_by_corpus(main_by_corpus(runs, by))
    if models := main_by_model(runs, by):
        told |= told_by_corpus(models)
    said = [f"{key.replace('_', ' ')} {value}" for key, value in told.items()]
    apart = dict.fromkeys(run.unit for run in runs if run.setting)
    sentences = [f"Trained with {', '.join(said)}."] if said else []
    sentences += [f"Shown apart: {', '.join(apart)}."] if apart else []
    return " ".join(sentences)
