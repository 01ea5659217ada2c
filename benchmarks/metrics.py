"""ECE and the whole additive suite against torchmetrics, netcal and one plain read of the data.

"from arrays" is the whole way from arrays of scores and labels to the number, with all checks, in
one pass (`TopBins`); torchmetrics' own checks are on in one of its lines and off in another.

All contestants run in one process, in turns, on the same float32 inputs; medians and their ratios
count, of wall time and of processor time, which other programs on the machine disturb less but
which knows nothing of a second core. Each memory figure, and the audit of a 10,000,000 × 10
parquet, has its own process.

    python benchmarks/metrics.py                   # about two minutes on two cores
    python benchmarks/metrics.py --quick           # a tenth of the rows
    python benchmarks/metrics.py --json benchmarks/results/metrics.json
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from calibrant import Predictions
from calibrant.files import stream, write
from calibrant.metrics import (
    TopBins,
    accumulate,
    accuracy,
    brier,
    classwise_ece,
    ece,
    mce,
    nll,
    overconfidence_error,
    top_label,
)
from machine import circumstances, cores, load, write_results

BINS = 15
PACKAGES = ("calibrant", "numpy", "numba", "torch", "torchmetrics", "netcal", "pyarrow")
SUITE = (accuracy, nll, brier, ece, mce, overconfidence_error, classwise_ece)
Contest = dict[str, Callable[[], float]]


def inputs(n: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Logits of an overconfident model that is right about three times in four, and labels."""
    generator = np.random.default_rng(seed)
    logits = generator.standard_normal((n, classes), dtype=np.float32)
    labels = generator.integers(0, classes, n)
    logits[np.arange(n), labels] += np.float32(2 + np.log(classes) / 2)
    logits *= np.float32(1.5)
    return logits, labels


def suite(predictions: Predictions) -> float:
    """Everything additive from one pass; the ECE, as every contestant returns it."""
    state = accumulate(predictions, BINS)
    return {metric: float(metric(state)) for metric in SUITE}[ece]


def contest(kind: str, logits: np.ndarray, labels: np.ndarray) -> Contest:
    """The contestants, each a function that returns the ECE (the plain read a sum)."""
    import torch
    from torchmetrics.classification import MulticlassCalibrationError
    from torchmetrics.functional.classification import multiclass_calibration_error

    classes = logits.shape[1]
    make, add_up = getattr(Predictions, f"from_{kind}"), getattr(TopBins, f"from_{kind}")
    scores = logits if kind == "logits" else torch.from_numpy(logits).softmax(1).numpy()
    made, tensor, targets = make(scores, labels), torch.from_numpy(scores), torch.from_numpy(labels)
    measure = MulticlassCalibrationError(classes, n_bins=BINS)

    def by_function(checked: bool) -> Callable[[], float]:
        return lambda: float(
            multiclass_calibration_error(
                tensor, targets, classes, n_bins=BINS, validate_args=checked
            )
        )

    def by_class() -> float:
        measure.reset()
        measure.update(tensor, targets)
        return float(measure.compute())

    def by_netcal() -> float:  # Takes probabilities alone; the softmax counts.
        from netcal.metrics import ECE

        given = tensor.softmax(1).numpy() if kind == "logits" else scores
        return float(ECE(BINS).measure(given, labels))

    contestants = {
        "calibrant ece": lambda: ece(made),
        "calibrant ece, from arrays": lambda: ece(add_up(scores, labels, BINS)),
        "calibrant ece, by Predictions": lambda: ece(make(scores, labels)),
        "calibrant suite": lambda: suite(made),
        "calibrant suite, by Predictions": lambda: suite(make(scores, labels)),
        "torchmetrics function": by_function(True),
        "torchmetrics function, unchecked": by_function(False),
        "torchmetrics class": by_class,
        "netcal": by_netcal,
        "plain read": lambda: plain_read(scores),
    }
    if find_spec("netcal") is None:
        print("netcal is not installed and left out")
        del contestants["netcal"]
    return contestants


def plain_read(scores: np.ndarray) -> float:
    """np.add.reduce of equal parts of the data, one per core: the fastest read there is."""
    parts = np.array_split(scores.reshape(-1), cores())
    return float(sum(threads().map(np.add.reduce, parts)))


@cache
def threads() -> ThreadPoolExecutor:
    """Started once, so that the read is all that counts."""
    return ThreadPoolExecutor(cores())


def timed(contestants: Contest, rounds: int) -> dict[str, dict[str, float]]:
    """Median seconds of each by two clocks, run in turns so that a busy moment hits all alike.

    And the least wall time, which is what an idle machine would show.
    """
    values = {name: run() for name, run in contestants.items()}  # Also the warm-up.
    errors = [v for name, v in values.items() if name != "plain read"]
    # The others work in float32, and torchmetrics has its own bin for 1.0.
    np.testing.assert_allclose(errors, errors[0], atol=1e-4)
    clocks = {"wall": time.perf_counter, "processor": time.process_time}
    times: dict[str, dict[str, list[float]]] = {
        clock: {name: [] for name in contestants} for clock in clocks
    }
    for _ in range(rounds):
        for name, run in contestants.items():
            starts = {clock: now() for clock, now in clocks.items()}
            run()
            for clock, now in clocks.items():
                times[clock][name].append(now() - starts[clock])
    found = {
        clock: {name: float(np.median(seconds)) for name, seconds in taken.items()}
        for clock, taken in times.items()
    }
    return {**found, "least wall": {name: min(taken) for name, taken in times["wall"].items()}}


def ratios(seconds: dict[str, float]) -> dict[str, float]:
    """What the targets speak of; above 1 is faster than the other, except for the last two."""
    rivals = {"torchmetrics": min(v for k, v in seconds.items() if k.startswith("torchmetrics"))}
    if "netcal" in seconds:
        rivals["netcal"] = seconds["netcal"]
    ours = ("calibrant ece", "calibrant ece, from arrays")
    found = {f"{o}: {rival}": rivals[rival] / seconds[o] for o in ours for rival in rivals}
    found["calibrant suite: torchmetrics' ece"] = (
        rivals["torchmetrics"] / seconds["calibrant suite"]
    )
    for name in ("ece", "suite"):
        found[f"calibrant {name} / plain read"] = (
            seconds[f"calibrant {name}"] / seconds["plain read"]
        )
    return found


def peak_memory(action: Callable[[], object]) -> float | None:
    """How many MB the process grew at most during ``action`` (Linux)."""
    reset, status = Path("/proc/self/clear_refs"), Path("/proc/self/status")
    if not status.exists():
        return None
    reset.write_text("5")  # The high-water mark starts again at the present size.

    def kilobytes(field: str) -> int:
        line = next(row for row in status.read_text().splitlines() if row.startswith(field))
        return int(line.split()[1])

    before = kilobytes("VmRSS")
    action()
    return (kilobytes("VmHWM") - before) / 1024


def load_kernels(predictions: Predictions) -> None:
    """Import and compile, whose time and memory are no matter of n."""
    os.environ["CALIBRANT_KERNELS"] = "numba"
    suite(predictions)
    top_label(predictions)
    del os.environ["CALIBRANT_KERNELS"]


def memory(n: int, kind: str) -> dict[str, Any]:
    """Peak extra memory of the whole suite on n × 10, validation included, kernels loaded."""
    logits, labels = inputs(n, 10)
    make = Predictions.from_logits if kind == "logits" else Predictions.from_probabilities
    if kind == "probabilities":
        np.exp(logits, out=logits)
        logits /= logits.sum(axis=1, keepdims=True)
    load_kernels(make(logits[:1000], labels[:1000]))
    return {"n": n, "kind": kind, "MB": peak_memory(lambda: suite(make(logits, labels)))}


def first_call() -> dict[str, Any]:
    """Seconds until the kernels answer in a fresh process, first to compile and then from disk."""
    code = (
        "import time, numpy as np; start = time.perf_counter();"
        "from calibrant import Predictions; from calibrant.metrics import accumulate, ece;"
        "p = Predictions.from_logits(np.zeros((1000, 10), np.float32), np.zeros(1000, int));"
        "accumulate(p); ece(p); print(time.perf_counter() - start)"
    )
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder, "CALIBRANT_KERNELS": "numba"}
        run = [sys.executable, "-c", code]
        seconds = [float(subprocess.check_output(run, env=environment)) for _ in range(2)]
        plain = {**environment, "CALIBRANT_KERNELS": "numpy"}
        without = float(subprocess.check_output(run, env=plain))
    return {"compiled": seconds[0], "from the cache": seconds[1], "numpy alone": without}


def audit_file(path: str) -> dict[str, Any]:
    """Stream a file through the audit, and through the additive suite alone."""
    from calibrant.auditing import audit

    result: dict[str, Any] = {}
    load_kernels(next(iter(stream(path)))[:1000])
    actions: dict[str, Callable[[], object]] = {
        "additive suite": lambda: sum(accumulate(chunk) for chunk in stream(path)),
        "audit, 1000 replicates": lambda: audit(stream(path)),
    }
    for name, action in actions.items():
        start = time.perf_counter()
        grown = peak_memory(action)
        result[name] = {"seconds": time.perf_counter() - start, "MB": grown}
    return result


def write_parquet(path: str, n: int) -> None:
    def parts() -> Iterator[Predictions]:
        for start in range(0, n, 250_000):
            yield Predictions.from_logits(*inputs(min(n, 250_000), 10, seed=start))

    write(parts(), path)


def in_own_process(*arguments: object) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", *(str(a) for a in arguments)]
    return dict(json.loads(subprocess.check_output(command, text=True)))


def show_times(title: str, seconds: dict[str, dict[str, float]]) -> None:
    found = {clock: ratios(taken) for clock, taken in seconds.items()}
    print(f"\n{title:52s}" + "".join(f"{clock:>12s}" for clock in seconds))
    for name in seconds["wall"]:
        print(f"  {name:50s}" + "".join(f"{t[name] * 1e3:12.1f}" for t in seconds.values()), "ms")
    for name in found["wall"]:
        print(f"  {name:50s}" + "".join(f"{r[name]:12.1f}" for r in found.values()), "×")


def run_all(quick: bool) -> dict[str, Any]:
    n = 100_000 if quick else 1_000_000
    import torch

    results: dict[str, Any] = {**circumstances(PACKAGES), "first call, s": first_call()}
    results |= {"torch's threads": torch.get_num_threads(), "times": {}}
    print("first call, s:", results["first call, s"])
    os.environ["CALIBRANT_KERNELS"] = "numba"
    for classes in (10, 100):
        rounds = (5 if quick else 9) if classes > 10 else 25  # A busy moment weighs more there.
        logits, labels = inputs(n, classes)
        for kind in ("probabilities", "logits"):
            title = f"{n:,} × {classes}, {kind}"
            seconds = timed(contest(kind, logits, labels), rounds)
            found = {clock: ratios(taken) for clock, taken in seconds.items()}
            results["times"][title] = {"seconds": seconds, "ratios": found}
            show_times(title, seconds)
    results["load after the times"] = load()
    del os.environ["CALIBRANT_KERNELS"]
    sizes = (100_000, 1_000_000) if quick else (100_000, 1_000_000, 10_000_000)
    results["memory"] = [
        in_own_process("memory", size, kind)
        for size in sizes
        for kind in ("probabilities", "logits")
    ]
    print("\npeak extra memory of the suite:", *results["memory"], sep="\n  ")
    rows = 10 * n
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/predictions.parquet"
        write_parquet(path, rows)
        results["audit"] = {"rows": rows, **in_own_process("audit", path)}
    print(f"\naudit of a {rows:,} × 10 parquet:", json.dumps(results["audit"], indent=2))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", module="netcal|torchmetrics|pyro")
    if options.child:
        task, *rest = options.child
        result = memory(int(rest[0]), rest[1]) if task == "memory" else audit_file(rest[0])
        print(json.dumps(result))
        return
    write_results(run_all(options.quick), options.json)


if __name__ == "__main__":
    main()
