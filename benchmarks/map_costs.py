"""Processor seconds to fit and to apply each calibrator on one core, and to compare them all.

OMP_NUM_THREADS=1 CALIBRANT_KERNELS=numpy python benchmarks/map_costs.py --rows 100000 --classes 10
OMP_NUM_THREADS=1 python benchmarks/map_costs.py --rows 5000 --classes 100 --compare
"""

import argparse
import time
import warnings

import numpy as np

from calibrant import Predictions
from calibrant.calibrators import CALIBRATORS
from calibrant.comparison import compare

TAGS = ("O", *(f"{part}-{kind}" for kind in "ABCDE" for part in "BI"))


def overconfident(rows, classes, seed=0):
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, rows)
    logits = 3 * (random.normal(size=(rows, classes)) + 2 * np.eye(classes)[labels])
    names = TAGS[:classes] if classes <= len(TAGS) else None
    position = {"position": np.arange(rows) % 20}
    return Predictions.from_logits(
        logits.astype(np.float32), labels, label_names=names, groups=position
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--map", action="append", choices=list(CALIBRATORS), help="default: all")
    parser.add_argument("--compare", action="store_true", help="compare(valid, test) instead")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.compare:
        valid, test = (overconfident(args.rows, args.classes, seed) for seed in range(2))
        began = time.process_time()
        found = compare(valid, test)
        seconds = time.process_time() - began
        print(f"{args.rows:,} × {args.classes}, {len(found.rows)} calibrators: {seconds:.1f} s")
        return
    predictions = overconfident(args.rows, args.classes)
    print(f"{args.rows:,} × {args.classes}: seconds to fit, to apply")
    for name in args.map or CALIBRATORS:
        began = time.process_time()
        fitted = CALIBRATORS[name].calibrator().fit(predictions)
        middle = time.process_time()
        fitted.transform(predictions)
        print(f"{name:22s} {middle - began:6.2f} {time.process_time() - middle:6.2f}", flush=True)


if __name__ == "__main__":
    main()
