"""The accuracy that NannyML's CBPE estimates for the models of ``shift_study.py``.

    python benchmarks/estimation_under_shift.py conll2003-0.npz … -o estimation-under-shift.jsonl

Reads files of ``collect_signals.py``. CBPE is fitted on the clean validation part and estimates the
accuracy of each test part, as one chunk. ``shift_tables.py`` prints its errors beside those of the
estimates that ``shift_study.py`` has recorded for the same parts.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from calibrant import Predictions
from estimation import NannyML
from shift_study import CLEAN, SAME, Parts, parts_of


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


def main() -> None:
    """Estimate."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
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
