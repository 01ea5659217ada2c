"""The tables of calibration under shift, in points, from the records of the studies.

    python benchmarks/shift_tables.py

Reads ``results/shift-study.jsonl`` and ``results/estimation-under-shift.jsonl``. The tested kind of
corruption is never in a fit. Numbers are means over seeds and kinds; kinds that change nothing to
an encoder that reads lower case only are left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shift_study import SAME

RESULTS = Path(__file__).parent / "results"
WORDS = {
    "typos": "typos", "ocr": "scanner errors", "dropped-characters": "dropped characters",
    "swapped-characters": "swapped characters", "dropped-words": "dropped words",
}  # fmt: skip
DATA = {
    ("ncbi-disease", "minilm"): "NCBI-disease, words",
    ("gum", "minilm"): "GUM, words",
    ("clinc150", "minilm"): "CLINC150, texts",
    ("cifar10", "resnet18"): "CIFAR-10, ResNet-18",
    ("cifar10", "vit_tiny"): "CIFAR-10, ViT-tiny",
}
CONLL = ("conll2003", "minilm")
BATCHES = "shift-aware, batches of 100"

Record = Mapping[str, Any]


def records() -> list[Record]:
    """Return the records without kinds that change nothing, and models tested in every setting."""
    names = ("shift-study", "estimation-under-shift")
    lines = [x for n in names for x in (RESULTS / f"{n}.jsonl").read_text().splitlines()]
    found = [json.loads(line) for line in lines]
    whole = {model(r) for r in found if r["setting"] == "shift-aware"}
    return [
        r for r in found
        if r["test"].rpartition("-")[0] not in SAME and (r["seed"] is None or model(r) in whole)
    ]  # fmt: skip


def model(record: Record) -> tuple[Any, ...]:
    """Return which model a record is of."""
    return record["data"], record["model"], record["seed"]


RECORDS = records()


def chosen(data: tuple[str, str], setting: str, tests: str) -> list[Record]:
    """Return the records of one setting; ``tests`` is a name, a strength, or "damage"."""

    def fits(test: str) -> bool:
        kind, _, strength = test.rpartition("-")
        return tests in (test, strength if kind else "", "damage" if kind else "")

    return [
        r for r in RECORDS
        if (r["data"], r["model"]) == data and r["setting"] == setting and fits(r["test"])
    ]  # fmt: skip


def mean(
    data: tuple[str, str], setting: str, tests: str, column: str | Callable[[Record], float]
) -> str:
    """Return the mean of a column in points, or nothing if there is no record."""
    read = column if callable(column) else (lambda r: r[column])
    values = [read(r) for r in chosen(data, setting, tests)]
    return f"{100 * np.mean(values):.1f}" if values else ""


def off(column: str) -> Callable[[Record], float]:
    """Return the error of an estimate of the accuracy."""
    return lambda r: abs(r[column] - r["accuracy"])


def seeds(data: tuple[str, str], setting: str) -> str:
    """Return how many models there are."""
    return str(len({r["seed"] for r in RECORDS if (r["data"], r["model"]) == data
                    and r["setting"] == setting}))  # fmt: skip


def table(title: str, heads: Sequence[str], rows: Iterator[Sequence[str]]) -> None:
    """Print one table."""
    print(f"\n{title}\n\n| | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def by_kind(settings: Mapping[str, str], column: str, more: Sequence[tuple[str, str]]) -> Any:
    """Yield the rows of CoNLL-2003: clean, each kind at strengths 3 and 5, and further cells."""
    for setting, name in settings.items():
        cells = [mean(CONLL, setting, "clean", column)]
        for kind in WORDS:
            both = [mean(CONLL, setting, f"{kind}-{s}", column) for s in (3, 5)]
            cells.append(", ".join(both) if both[0] else "")
        yield name, *cells, *(mean(CONLL, setting, test, what) for test, what in more)


def other_rows(settings: Sequence[str], tests: Sequence[str], column: Any) -> Any:
    """Yield one row per data set: each setting in turn for each part."""
    for data, name in DATA.items():
        cells = [mean(data, setting, test, column) for test in tests for setting in settings]
        if any(cells):
            yield f"{name} ({seeds(data, settings[0])})", *cells


def estimate_rows(tests: Sequence[str]) -> Any:
    """Yield the errors of each estimate of the accuracy."""
    for data, name in {CONLL: "CoNLL-2003, words", **DATA}.items():
        for setting, column, what in (
            ("NannyML", "confidence", "NannyML's CBPE"),
            ("default", "confidence", "CBPE, calibrator chosen on clean data"),
            ("default", "atc", "ATC, the same calibrator"),
            ("shift-aware", "confidence", "CBPE, shift-aware"),
            (BATCHES, "confidence", "CBPE, shift-aware with batches"),
        ):
            cells = [mean(data, setting, test, off(column)) for test in tests]
            if any(cells):
                yield f"{name}: {what}", *cells


def main() -> None:
    """Print all tables."""
    heads = ["clean", *(f"{name} 3, 5" for name in WORDS.values())]
    words = {
        "as trained": "as trained", "ensemble of 5": "five models together",
        "temperature": "temperature", "default": "chosen on clean validation",
        "shift-aware": "shift-aware", "shift-aware, with distance": "with the distance",
    }  # fmt: skip
    more = [("wnut17", "ece"), ("wnut17", "entity_words_ece")]
    table("CoNLL-2003, words", [*heads, "WNUT17", "its entity words"], by_kind(words, "ece", more))
    entities = {
        "entities, clean": "learned from clean validation",
        "entities, shift-aware": "shift-aware",
        "entities, with distance": "with the distance",
    }
    rows = by_kind(entities, "ece", more[:1])
    table("CoNLL-2003, whole entities", [*heads, "WNUT17"], rows)
    tests = ("clean", "3", "5", "damage")
    title = "Whole entities of other corpora: clean, shift-aware, with distance"
    table(title, [t for t in tests for _ in entities], other_rows([*entities], tests, "ece"))
    settings = ("temperature", "default", "shift-aware", BATCHES)
    heads = [f"{test}: {setting}" for test in tests for setting in settings]
    table("Other data (models)", heads, other_rows(settings, tests, "ece"))
    title = "Error of the estimated accuracy"
    tests = ("clean", "1", "3", "5", "damage", "wnut17", "outside")
    table(title, tests, estimate_rows(tests))


if __name__ == "__main__":
    main()
