"""How often the intervals of ``adapt`` hold where only class frequencies have changed.

    python benchmarks/class_shares.py --samples 100 -o class-shares-cpu.json

Classes are equally frequent in the validation data, and class k has a share in proportion to k in
the new data. ``honest`` scores are those of a temperature; those of ``naive Bayes`` have features
that share noise, and no temperature makes them honest. For each size it prints how often the joint
95 % intervals hold all true shares, how often that of the accuracy holds the accuracy, the mean
width, and the root of the mean squared error of a share. docs/watch-and-adapt.md has the figures.
"""

import argparse
import json
import platform
import time
import warnings
from pathlib import Path

import numpy as np

import calibrant
from calibrant import InputError, Predictions, accuracy, adapt
from calibrant.calibrators import CALIBRATORS

CASES = (("honest", "temperature"), ("naive Bayes", "temperature"), ("naive Bayes", "vector"))
REPLICATES = 200


def honest(n, shares, random):
    """Log-odds that are right up to a temperature, if the classes are equally frequent."""
    classes = len(shares)
    labels = random.choice(classes, n, p=shares)
    scores = random.normal(size=(n, classes)) + 2 * np.eye(classes)[labels]
    return Predictions.from_logits(scores, labels)


def naive_bayes(n, shares, random):
    """Log-odds of twelve features that share noise, but are taken as independent."""
    classes = len(shares)
    means = 0.8 * np.random.default_rng(5).normal(size=(classes, 12))
    labels = random.choice(classes, n, p=shares)
    noise = np.sqrt(0.6) * random.normal(size=(n, 1)) + np.sqrt(0.4) * random.normal(size=(n, 12))
    features = means[labels] + np.linspace(0.7, 1.3, classes)[labels, None] * noise
    return Predictions.from_logits(-((features[:, None] - means) ** 2).sum(axis=2) / 2, labels)


def measure(kind, calibrator, classes, rows, method, samples):
    """Return what is held in ``samples`` pairs of validation and new data of so many rows."""
    draw = honest if kind == "honest" else naive_bayes
    old, new = np.full(classes, 1 / classes), np.arange(1.0, classes + 1)
    new /= new.sum()
    held, refused = [], 0
    for seed in range(samples):
        random = np.random.default_rng(seed)
        valid, data = draw(rows[0], old, random), draw(rows[1], new, random)
        fitted = CALIBRATORS[calibrator].calibrator().fit(valid)
        try:
            found = adapt(fitted, valid, data, method=method, bootstrap=REPLICATES, seed=seed)
        except InputError:
            refused += 1
            continue
        low, high, after = np.array([(c.low, c.high, c.after) for c in found.classes]).T
        right, expected = accuracy(found.calibrator.transform(data)), found.expected_accuracy
        inside = bool(((low <= new) & (new <= high)).all())
        width, error = float((high - low).mean()), float(((after - new) ** 2).mean())
        held.append((inside, expected.low <= right <= expected.high, width, error))
    shares, correct, width, error = np.mean(held, axis=0).tolist() if held else [np.nan] * 4
    return {
        "scores": kind, "calibrator": calibrator, "classes": classes, "valid": rows[0],
        "new": rows[1], "method": method, "shares_held": shares, "accuracy_held": correct,
        "width": width, "rmse": error**0.5, "refused": refused,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("-o", "--output", type=Path, help="write the results to this file")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    started, rows = time.perf_counter(), []
    for classes in (3, 10):
        for kind, calibrator in CASES:
            for sizes in ((300, 500), (300, 5000), (3000, 500), (3000, 5000)):
                for method in ("em", "bbse"):
                    row = measure(kind, calibrator, classes, sizes, method, options.samples)
                    rows.append(row)
                    print(" ".join(f"{k}={v:.3g}" if isinstance(v, float) else f"{k}={v}"
                                   for k, v in row.items()), flush=True)  # fmt: skip
    if options.output is not None:
        content = {
            "program": "class_shares.py", "samples": options.samples, "replicates": REPLICATES,
            "seconds": round(time.perf_counter() - started), "calibrant": calibrant.__version__,
            "numpy": np.__version__, "python": platform.python_version(), "rows": rows,
        }  # fmt: skip
        options.output.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
