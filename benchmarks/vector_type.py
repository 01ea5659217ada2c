"""Is the hand-written vector type worth it? The ECE's compiled pass with it and without it.

python benchmarks/vector_type.py --json benchmarks/results/vector-type-cpu.json

Least processor time of seven calls each, in one process, float32 scores, 15 bins.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

import calibrant.metrics.top_bins as in_turn
from calibrant import Predictions
from calibrant.experiments.record import circumstances
from calibrant.metrics.bins import Bins
from calibrant.metrics.kernels import rows

SIZES = ((1_000_000, 10), (1_000_000, 3), (200_000, 16), (100_000, 100), (20_000, 1000))


def least(call):
    call()
    seconds = []
    for _ in range(7):
        began = time.process_time()
        call()
        seconds.append(time.process_time() - began)
    return 1e3 * min(seconds)


def measured(n, classes):
    random = np.random.default_rng(0)
    logits = random.normal(size=(n, classes)).astype(np.float32)
    labels = random.integers(0, classes, n)
    plain = Predictions.from_logits(logits, labels)
    given = Predictions.from_probabilities(plain.probabilities().astype(np.float32), labels)
    for p in (plain, given):
        lanes = least(lambda p=p: in_turn._in_lanes(p.kind, p.scores, p.labels, Bins()))
        without = least(lambda p=p: in_turn._in_float64(p, Bins(), rows))
        yield {"n": n, "classes": classes, "kind": p.kind, "with": lanes, "without": without}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    found = []
    for size in SIZES:
        for row in measured(*size):
            found.append(row)
            ratio = row["without"] / row["with"]
            print(f"{row['n']:>9,} × {row['classes']:<5}{row['kind']:14}", end="")
            print(f"{row['with']:7.2f} ms{row['without']:8.2f} ms   × {ratio:.2f}")
    if args.json:
        content = {"milliseconds": found, "circumstances": circumstances()}
        args.json.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
