"""Structured vector and matrix scaling against probmetrics: processor seconds and objectives.

python benchmarks/structured_scaling.py --threads 1 2 --rounds 3 -o structured-scaling-cpu.json

Each fit runs in a separate process, after one fit of a small problem that compiles and imports
what there is to compile and import; the libraries take turns. Both minimise the objective of Berta
et al. (2026); its value at each solution is computed here, in float64, by one function. A fit that
runs past the limit is stopped: "stopped_after" is the processor time that it had used. Numbers are
medians over the rounds; a fit of more than a minute of processor time is made once.
"""

import argparse
import itertools
import json
import os
import platform
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

CASES = [(1_000_000, 10), (50_000, 100), (50_000, 1000)]
MAPS = ("structured-vector", "structured-matrix")


def data(n, classes):
    """Float32 logits, twice too large and biased, of classes that resemble each other."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, n)
    alike = (0.7 * rng.normal(size=(classes, classes))).astype(np.float32)
    logits = rng.normal(size=(n, classes)).astype(np.float32) + alike[labels]
    logits[np.arange(n), labels] += 3 + 2.5 * np.log10(classes)
    labels = (logits + rng.gumbel(size=logits.shape).astype(np.float32)).argmax(axis=1)
    return 2 * logits + 0.5 * rng.normal(size=classes).astype(np.float32), labels


def objective(logits, labels, temperature, weights, intercepts):
    """Mean NLL plus the penalty of the paper, in chunks."""
    n, k = logits.shape
    total, size = 0.0, max(1, 2**22 // k)
    for start in range(0, n, size):
        x = log_softmax(logits[start : start + size].astype(np.float64) / temperature)
        x = x * weights if weights.ndim == 1 else x @ weights.T
        part = labels[start : start + size]
        total -= log_softmax(x + intercepts)[np.arange(len(part)), part].sum()
    own = weights if weights.ndim == 1 else np.diag(weights)
    off = 0.0 if weights.ndim == 1 else (weights**2).sum() - (own**2).sum()
    penalty = k / n * ((intercepts**2).sum() + ((own - 1) ** 2).sum()) + k * (k - 1) / n * off
    return float(total / n + penalty)


def log_softmax(x):
    x = x - x.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def fit_ours(name, logits, labels):
    from calibrant import Predictions
    from calibrant.calibrators import CALIBRATORS

    fitted = CALIBRATORS[name].calibrator().fit(Predictions.from_logits(logits, labels))
    return fitted.temperature_, fitted.weights_, fitted.intercepts_


def fit_probmetrics(name, probabilities, labels):
    from probmetrics.calibrators import SMSCalibrator, SVSCalibrator

    is_vector = name == "structured-vector"
    fitted = (SVSCalibrator if is_vector else SMSCalibrator)()
    fitted.fit(probabilities, labels)
    if is_vector:
        return fitted.v_, fitted.b_
    return fitted.W_[:, :-1], fitted.W_[:, -1]


def measure(library, name, n, classes):
    """Seconds, and the objective at the solution; the temperature of both is ours."""
    warnings.simplefilter("ignore")
    os.environ["CALIBRANT_KERNELS"] = "numba"  # Loaded now, not while the clock runs.
    small = data(11_000, 100)  # Large enough for the code of large problems.
    logits, labels = data(n, classes)
    temperature, *_ = fit_ours("structured-vector", *small)
    if library == "calibrant":
        fit_ours(name, *small)
        began, wall = time.process_time(), time.perf_counter()
        temperature, weights, intercepts = fit_ours(name, logits, labels)
    else:
        fit_probmetrics(name, softmax(small[0]), small[1])
        probabilities = softmax(logits)
        began, wall = time.process_time(), time.perf_counter()
        weights, intercepts = fit_probmetrics(name, probabilities, labels)
    seconds, wall = time.process_time() - began, time.perf_counter() - wall
    if library != "calibrant":
        from calibrant import Predictions
        from calibrant.calibrators import Temperature

        temperature = Temperature().fit(Predictions.from_logits(logits, labels)).temperature_
    value = objective(logits, labels, temperature, weights.astype(np.float64), intercepts)
    return {"seconds": round(seconds, 3), "wall": round(wall, 3), "objective": round(value, 9)}


def softmax(logits):
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def in_a_process(library, name, n, classes, limit, threads):
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, __file__, "--one", library, name, str(n), str(classes)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, check=True, env=environment
        )
    except subprocess.TimeoutExpired:
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return {"stopped_after": round(used, 1)}
    return json.loads(done.stdout)


def compared(name, n, classes, threads, rounds, limit):
    """One row: both libraries in turn, medians over the rounds."""
    made = {"calibrant": [], "probmetrics": []}
    for _ in range(rounds):
        for library, found in made.items():
            if not found or found[0].get("seconds", np.inf) < 60:
                found.append(in_a_process(library, name, n, classes, limit, threads))
    ours, theirs = (_median(found) for found in made.values())
    used = theirs.get("seconds", theirs.get("stopped_after"))
    return {
        "n": n,
        "classes": classes,
        "map": name,
        "threads": threads,
        "ours": ours,
        "probmetrics": theirs,
        "ratio": round(used / ours["seconds"], 1),
        "wall_ratio": round(theirs["wall"] / ours["wall"], 1) if "wall" in theirs else None,
    }


def _median(found):
    whole = [one for one in found if "seconds" in one]
    if not whole:
        return found[0]
    values = {key: round(float(np.median([one[key] for one in whole])), 9) for key in whole[0]}
    return {**values, "rounds": [one["seconds"] for one in whole]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--limit", type=float, default=900, help="wall seconds of one fit (900)")
    parser.add_argument("--threads", type=int, nargs="+", default=[1], help="of OpenMP, BLAS (1)")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--case", type=int, nargs=2, metavar=("N", "K"), help="this size alone")
    parser.add_argument("-o", "--output", type=Path, help="also write the numbers here")
    args = parser.parse_args()
    if args.one:
        library, name, n, classes = args.one
        print(json.dumps(measure(library, name, int(n), int(classes))))
        return
    rows = []
    for case, name, threads in itertools.product(
        [args.case] if args.case else CASES, MAPS, args.threads
    ):
        rows.append(compared(name, *case, threads, args.rounds, args.limit))
        print(json.dumps(rows[-1]), flush=True)
    if args.output:
        import probmetrics.__about__
        import torch

        versions = {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "torch": torch.__version__,
            "probmetrics": probmetrics.__about__.__version__,
        }
        content = {"processor": platform.processor() or platform.machine(), "versions": versions}
        args.output.write_text(json.dumps({**content, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
