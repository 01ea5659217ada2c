"""The numbers of training runs, as people and as programs read them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.cli.table import render_table
from calibrant.errors import printable
from calibrant.metrics import METRICS
from calibrant.metrics.metric import percent
from calibrant.tasks import task_of
from calibrant.tasks.task import Task

if TYPE_CHECKING:
    from calibrant.experiments.record import Record
    from calibrant.study.statistics import Estimate

__all__ = [
    "content",
    "content_over_seeds",
    "describe_entities",
    "listed_results",
    "show",
    "show_over_seeds",
]

_MAPS = {"identity": "as trained", "temperature": "with temperature"}
_MUCH = 0.05  # Of F1, from which on it is worth cutting words beforehand.
_REDUCTIONS = {"product": "product", "min": "least", "mean": "mean"}


def show(record: Record, folder: Path) -> str:
    """Format the test numbers of one run, and what to look at next."""
    task = task_of(record.recipe.task)
    titles = _titles([record])
    results = record.by_calibrator()
    numbers = {kind: results[kind]["test"] for kind in titles}
    shown = {kind: [_number(numbers[kind][name]) for name in task.shown] for kind in titles}
    shifted = "".join(f"\n\n{_shift_table(record, kind)}" for kind in _MAPS if record.recipe.shift)
    lines = [f"{_table(shown, titles, task)}{shifted}\n"]
    lines += _nothing_learned([record])
    if "calibrator" in record.training:
        lines.append(f"Predictions are made with: {record.training['calibrator']}")
    lines.append(f"Temperature {results['temperature']['temperature']:.4f}")
    lines += describe_entities(results[record.training.get("calibrator", "identity")])
    if "outside" in results["identity"]:
        found = [f"{results[k]['outside']['auroc']:.4f} {t}" for k, t in _MAPS.items()]
        lines.append(f"AUROC of in- against out-of-scope: {', '.join(found)}")
    lines += describe_raw_text(record.training.get("raw_text"))
    lines.append(printable(f"Report: {folder / 'report.html'}"))
    return "\n".join(
        [*lines, *([task.hint.format(run=printable(str(folder)))] if task.hint else [])]
    )


def _nothing_learned(runs: Sequence[Record]) -> list[str]:
    """Describe the first run that is no better than the most frequent class."""
    notes = [run.training["nothing_learned"] for run in runs if "nothing_learned" in run.training]
    if len(runs) > 1 and notes:
        return [f"{len(notes)} of {len(runs)} seeds: {notes[0]}"]
    return notes


def describe_entities(numbers: Mapping[str, Any]) -> list[str]:
    """Describe how honest the learned confidences of entities are; empty if not measured."""
    found = numbers.get("entities", {})
    if not found.get("examples"):
        return []
    return [
        f"Confidence of a whole entity, learned from the {_REDUCTIONS[found['reduction']]} of its "
        f"words: ECE {found['ece']:.4f}"
    ]


def describe_raw_text(found: Mapping[str, Any] | None) -> list[str]:
    """Describe how raw text is cut, and what that costs against the words of the corpus."""
    if not found:
        return []
    into = "sentences and words" if found["sentences"] else "words, and not into sentences,"
    # Data that is raw text itself has no other words to compare with.
    same = f"gives {percent(found['words'])} of the corpus' words (F1) and "
    lines = [
        f"Raw text is cut into {into} by splitter '{found['splitter']}', which "
        f"{same if 'raw' in found['test'] else ''}fits {percent(found['entities'])} of the "
        "corpus' entities."
    ]
    titles = {"raw": "as raw text", "corpus": "with the corpus' words"}
    for kind, title in titles.items():
        if kind in found["test"] and "raw" in found["test"]:
            numbers = found["test"][kind]
            accepted = (
                f"{percent(numbers['accepted'])} of the entities are accepted, of which "
                f"{percent(numbers['risk'])} are wrong"
            )
            lines.append(
                f"Test split {title}: F1 {100 * numbers['entity_f1']:.2f} %; at a target risk of "
                f"{100 * found['target_risk']:g} % "
                f"{accepted if numbers['accepted'] else 'nothing is accepted'}."
            )
    return lines + _suggest_tokens(found["test"])


def _suggest_tokens(test: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Suggest to cut texts into words beforehand, if raw text costs much F1."""
    if not {"raw", "corpus"} <= test.keys():
        return []
    lost = test["corpus"]["entity_f1"] - test["raw"]["entity_f1"]
    if lost < _MUCH:
        return []
    return [
        f"Raw text costs {100 * lost:.1f} points of F1. If you can cut texts into words in the "
        "same way as the corpus, give 'calibrant predict' these words: --tokens."
    ]


def show_over_seeds(records: Mapping[Path, Record]) -> str:
    """Format the test numbers of several seeds: mean ± half of a 95 % interval."""
    runs = list(records.values())
    task = task_of(runs[0].recipe.task)
    titles = _titles(runs)
    shown = {
        kind: [_over_seeds(runs, name, kind).show(4) for name in task.shown] for kind in titles
    }
    table = _table(shown, titles, task)
    folders = "\n".join(f"  {printable(str(folder))}" for folder in records)
    nothing = "".join(f"\n\n{line}" for line in _nothing_learned(runs))
    return (
        f"{table}{nothing}{_entities_over_seeds(runs)}\n\n"
        f"Mean ± half of a 95 % t-interval over {len(runs)} seeds. Each is a separate run:\n"
        f"{folders}"
    )


def _entities_over_seeds(runs: Sequence[Record]) -> str:
    from calibrant.study.statistics import estimate

    used = [run.by_calibrator()[run.training.get("calibrator", "identity")] for run in runs]
    if not all(map(describe_entities, used)):
        return ""
    found = estimate([numbers["entities"]["ece"] for numbers in used]).show(4)
    return f"\n\nLearned confidence of whole entities: ECE {found}"


def content(record: Record, folder: Path, there: bool) -> dict[str, Any]:
    """Return one run as data."""
    return {
        "run": str(folder),
        "finished_before": there,
        **_named(record.training.get("calibrator")),
        "results": listed_results(record.by_calibrator()),
        "training": record.training,
    }


def listed_results(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the numbers of each calibrator as a list, so that no key depends on a name."""
    return [{**_named(name), **_with_former_names(numbers)} for name, numbers in results.items()]


def _named(calibrator: str | None) -> dict[str, str | None]:
    return {"calibrator": calibrator, "map": calibrator}  # "map": until the format changes.


def _with_former_names(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of a calibrator, with the earlier names of metrics in every split."""
    from calibrant.metrics.table import with_former_names

    return {
        key: _with_former_names(value) if isinstance(value, Mapping) else value
        for key, value in with_former_names(numbers).items()
    }


def content_over_seeds(
    records: Mapping[Path, Record], there: Mapping[Path, bool]
) -> dict[str, Any]:
    """Return runs that differ in the seed alone as data: each, and over all of them."""
    runs = list(records.values())
    over = [
        {
            **_named(kind),
            **{
                name: dict(zip(("mean", "half"), _over_seeds(runs, name, kind)[:2], strict=True))
                for name in task_of(runs[0].recipe.task).shown
            },
        }
        for kind in _titles(runs)
    ]
    each = [content(record, folder, there[folder]) for folder, record in records.items()]
    return {"seeds": [r.recipe.seed for r in runs], "test": over, "runs": each}


def _over_seeds(runs: Sequence[Record], metric: str, kind: str) -> Estimate:
    from calibrant.study.statistics import estimate

    return estimate([float(run.by_calibrator()[kind]["test"][metric]) for run in runs])


def _shift_table(record: Record, kind: str) -> str:
    found = {"test": record.results[kind]["test"], **record.results[kind]["shift"]}
    score = task_of(record.recipe.task).score_metric
    names = list(dict.fromkeys((score, "accuracy", "ece", "aurc")))
    titles = [METRICS[name].short for name in names]
    rows = [[part, *(_number(numbers[name]) for name in names)] for part, numbers in found.items()]
    return render_table([_MAPS[kind], *titles], rows, right=range(1, 1 + len(names)))


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.4f}"


def _titles(runs: Sequence[Record]) -> dict[str, str]:
    """Return the calibrators to show: always two, and the chosen one if all runs chose the same."""
    chosen = {run.training.get("calibrator", "temperature") for run in runs}
    more = {name: f"with {name}" for name in chosen if len(chosen) == 1 and name not in _MAPS}
    return {**_MAPS, **more}


def _table(numbers: Mapping[str, Sequence[str]], titles: Mapping[str, str], task: Task) -> str:
    rows = [[title, *numbers[kind]] for kind, title in titles.items()]
    headers = ["test", *(METRICS[name].short for name in task.shown)]
    return render_table(headers, rows, right=range(1, len(headers)))
