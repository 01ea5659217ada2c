"""The accuracy that NannyML's CBPE estimates for the models of ``shift_study.py``, beside others.

    python benchmarks/estimation_under_shift.py conll2003-0.npz … -o estimation-under-shift.jsonl
    python benchmarks/estimation_under_shift.py -o estimation-under-shift.jsonl --summary

Reads files of ``collect_signals.py``. CBPE is fitted on the clean validation part and estimates the
accuracy of each test part, as one chunk. ``--summary`` prints one table with the estimates that
``shift_study.py`` has recorded for the same parts: the mean confidence after the calibrator that is
chosen on clean validation (CBPE with our default), ATC, and the shift-aware calibrator, whose fit
never saw the tested kind. Mean absolute errors in points, over seeds, kinds and strengths.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calibrant import Predictions
from estimation import NannyML
from shift_study import CLEAN, Parts, parts_of

STUDY = Path(__file__).parent / "results" / "shift-study.jsonl"
SAME = ("casing", "lower-case", "upper-case")  # The encoder reads lower case only.
# Setting of the study, which number of it, and how the table calls it.
ROWS = (
    ("NannyML", "confidence", "NannyML's CBPE"),
    ("default", "confidence", "CBPE with the calibrator chosen on clean data"),
    ("default", "atc", "ATC with the same calibrator"),
    ("as trained", "atc", "ATC with raw confidences"),
    ("shift-aware", "confidence", "CBPE with shift-aware"),
    ("shift-aware", "atc", "ATC with shift-aware"),
    ("shift-aware, batches of 100", "confidence", "CBPE with shift-aware, batches of 100"),
)


def estimates(parts: Parts) -> Iterator[dict[str, Any]]:
    """Yield what NannyML says of each test part of a file."""
    estimator = NannyML(_plain(parts.get("valid", CLEAN, ())))
    for name in parts_of(parts):
        if name.rpartition("-")[0] in SAME:
            continue
        test = _plain(parts.get("test", name, ()))
        right = np.asarray(test.scores).argmax(1) == test.labels
        yield {
            "setting": "NannyML", "test": name, "accuracy": round(float(right.mean()), 6),
            "confidence": round(estimator(test)[0], 6),
        }  # fmt: skip


def _plain(p: Predictions) -> Predictions:
    return Predictions.from_probabilities(p.probabilities().astype(np.float64), p.labels)


def summary(records: Sequence[Mapping[str, Any]]) -> None:
    """Print the mean absolute errors of each estimate, by data set."""
    found: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for r in records:
        stem, _, strength = r["test"].rpartition("-")
        if stem in SAME:
            continue
        data = f"{r['data']}, {r['model']}"
        for setting, column, name in ROWS:
            if r["setting"] == setting and r.get(column) is not None:
                error = 100 * abs(r[column] - r["accuracy"])
                found[data, name][strength if stem else r["test"]].append(error)
                found[data, name]["all damage"] += [error] if stem else []
    heads = (CLEAN, "1", "3", "5", "all damage", "wnut17", "outside")
    for data in dict.fromkeys(data for data, _ in found):
        print(f"\n| {data} | " + " | ".join(heads) + " |\n|---|" + "---|" * len(heads))
        for *_, name in ROWS:
            cells = found[data, name]
            values = [f"{np.mean(cells[h]):.1f}" if cells[h] else "–" for h in heads]
            if cells:
                print(f"| {name} | " + " | ".join(values) + " |")


def main() -> None:
    """Estimate, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--summary", action="store_true")
    options = parser.parse_args()
    if options.summary:
        lines = [*options.output.read_text().splitlines(), *STUDY.read_text().splitlines()]
        summary([json.loads(line) for line in lines])
        return
    import nannyml

    with options.output.open("a") as output:
        for parts in map(Parts, options.files):
            recipe = parts.about["recipe"]
            about = {name: recipe[name] for name in ("data", "model", "seed")}
            for found in estimates(parts):
                line = {**about, **found, "nannyml": nannyml.__version__}
                output.write(json.dumps(line, separators=(",", ":")) + "\n")
                output.flush()
            print(parts.path, flush=True)


if __name__ == "__main__":
    main()
