"""How fast the calibrators are fitted, against scikit-learn, netcal, probmetrics and torch.

All contestants run in one process, in turns, on the same float32 inputs; the fastest of each one's
rounds counts (the machine may be busy), and so do the ratios. Every contestant's NLL is measured
alike, in float64: a fit that stops early is no rival. Memory is measured in separate processes.

    python benchmarks/calibrators.py                # about six minutes on two cores
    python benchmarks/calibrators.py --quick        # a tenth of the rows
    python benchmarks/calibrators.py --json benchmarks/results/calibrators.json
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from calibrant import Predictions
from calibrant.calibrators import HistogramBinning, Isotonic, Temperature
from calibrant.calibrators.isotonic import _IsotonicCurve
from calibrant.calibrators.likelihood import mean_nll
from calibrant.calibrators.moments import Sweep
from machine import circumstances, write_results

PACKAGES = ("calibrant", "numpy", "numba", "torch", "scikit-learn", "netcal", "probmetrics")
SLOW = 4.0  # Seconds; contestants that take longer run in fewer rounds.
Contest = dict[str, Callable[[], Any]]


def inputs(n: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels drawn from softmax(z), and the logits 2.5 z of an overconfident model."""
    generator = np.random.default_rng(0)
    z = 2 * generator.standard_normal((n, classes), dtype=np.float32)
    noise = generator.gumbel(size=(n, classes)).astype(np.float32)
    return np.float32(2.5) * z, (z + noise).argmax(axis=1)


# Temperature: each contestant returns T.


def temperature_contest(logits: np.ndarray, labels: np.ndarray) -> Contest:
    import torch
    from netcal.scaling import TemperatureScaling
    from probmetrics.calibrators import TemperatureScalingCalibrator
    from probmetrics.distributions import CategoricalLogits
    from sklearn.calibration import _TemperatureScaling

    made, tensor, targets = (
        Predictions.from_logits(logits, labels),
        *map(torch.from_numpy, (logits, labels)),
    )
    # In float32 netcal returns T = 1 for any data.
    probabilities = made.probabilities().astype(np.float64)

    def probmetrics() -> float:
        fitted = TemperatureScalingCalibrator(opt="bisection")  # Faster than its L-BFGS.
        fitted.fit_torch(CategoricalLogits(tensor), targets)
        return 1 / float(fitted.invtemp_)

    def netcal() -> float:
        return 1 / float(TemperatureScaling().fit(probabilities, labels).temperature[0])

    return {
        "calibrant": lambda: Temperature().fit(made).temperature_,
        "calibrant, with validation": lambda: (
            Temperature().fit(Predictions.from_logits(logits, labels)).temperature_
        ),
        "calibrant, NumPy alone": lambda: numpy_alone(made),
        "scikit-learn": lambda: 1 / float(_TemperatureScaling().fit(logits, labels).beta_),
        "netcal": netcal,
        "probmetrics": probmetrics,
        "torch L-BFGS": lambda: torch_lbfgs(tensor, targets),
    }


def numpy_alone(predictions: Predictions) -> float:
    os.environ["CALIBRANT_KERNELS"] = "numpy"
    try:
        return Temperature().fit(predictions).temperature_
    finally:
        del os.environ["CALIBRANT_KERNELS"]


def torch_lbfgs(logits: Any, labels: Any) -> float:
    """As most people write it, with the line search that keeps it from diverging."""
    import torch

    temperature = torch.ones(1, requires_grad=True)
    optimizer = torch.optim.LBFGS([temperature], max_iter=50, line_search_fn="strong_wolfe")

    def closure() -> Any:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(logits / temperature, labels)
        loss.backward()
        return loss

    optimizer.step(closure)
    return float(temperature.detach())


# Isotonic regression and histogram binning: each contestant returns something comparable.


def isotonic_contest(scores: np.ndarray, hits: np.ndarray) -> Contest:
    from sklearn.isotonic import IsotonicRegression

    wide = scores.astype(np.float64)

    def ours() -> float:
        return float(_IsotonicCurve(0.0).fit(wide, hits)["values_"].mean())

    def theirs() -> float:
        fitted = IsotonicRegression(out_of_bounds="clip").fit(wide, hits)
        return float(np.repeat(fitted.y_thresholds_, 1).mean())

    return {"calibrant": ours, "scikit-learn": theirs}


def one_vs_rest_contest(probabilities: np.ndarray, labels: np.ndarray) -> Contest:
    from netcal.binning import HistogramBinning as NetcalHistogram
    from sklearn.isotonic import IsotonicRegression

    made = Predictions.from_probabilities(probabilities, labels)

    def isotonic_by_scikit_learn() -> np.ndarray:
        columns = [
            IsotonicRegression(out_of_bounds="clip").fit(p, labels == k).predict(p)
            for k, p in enumerate(probabilities.T)
        ]
        result = np.stack(columns, axis=1)
        return result / result.sum(axis=1, keepdims=True)

    def ours(calibrator: Any) -> np.ndarray:
        return np.asarray(calibrator.fit(made).transform(made).scores)

    return {
        "calibrant isotonic, fit and apply": lambda: ours(Isotonic(0.0)),
        "scikit-learn isotonic, fit and apply": isotonic_by_scikit_learn,
        "calibrant histogram, fit and apply": lambda: ours(HistogramBinning(15)),
        "netcal histogram, fit and apply": lambda: (
            NetcalHistogram(15).fit(probabilities, labels).transform(probabilities)
        ),
        "scikit-learn histogram, fit and apply": lambda: discretized(probabilities, labels),
    }


def discretized(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Histogram binning from scikit-learn's parts; it has no such calibrator."""
    from sklearn.preprocessing import KBinsDiscretizer

    bins = KBinsDiscretizer(
        15, encode="ordinal", strategy="quantile", quantile_method="averaged_inverted_cdf"
    )
    index = bins.fit_transform(probabilities).astype(int)
    result = np.empty(probabilities.shape)
    for k in range(probabilities.shape[1]):
        count = np.bincount(index[:, k], minlength=15)
        hits = np.bincount(index[labels == k, k], minlength=15)
        result[:, k] = (hits / np.maximum(count, 1))[index[:, k]]
    return result / np.maximum(result.sum(axis=1, keepdims=True), 1e-12)


# Measuring


def timed(contestants: Contest, rounds: int) -> tuple[dict[str, Any], dict[str, dict[str, float]]]:
    """The result of each, and its least wall and processor seconds, run in turns."""
    results = {name: run() for name, run in contestants.items()}  # Also the warm-up.
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
    for turn in range(rounds):
        for name, run in contestants.items():
            if times[name] and times[name][0][0] > SLOW and turn >= 2:
                continue
            start = time.perf_counter(), time.process_time()
            run()
            times[name].append((time.perf_counter() - start[0], time.process_time() - start[1]))
    least = {
        name: {"wall": min(t[0] for t in pairs), "processor": min(t[1] for t in pairs)}
        for name, pairs in times.items()
    }
    return results, least


def temperature_times(n: int, classes: int, rounds: int) -> dict[str, Any]:
    logits, labels = inputs(n, classes)
    found, seconds = timed(temperature_contest(logits, labels), rounds)
    rows = {
        name: {
            **seconds[name],
            "temperature": found[name],
            "nll": mean_nll(Predictions.from_logits(logits.astype(float) / found[name], labels)),
        }
        for name in found
    }
    ours = rows["calibrant"]
    rivals = {
        name: row
        for name, row in rows.items()
        if not name.startswith("calibrant") and row["nll"] < ours["nll"] + 1e-3
    }
    fitted = Temperature().fit(Predictions.from_logits(logits, labels))
    return {
        "rows": rows,
        "passes": fitted.fitted_on_["passes"],
        "gradient": abs(Sweep(logits, labels)(1 / ours["temperature"]).first) / ours["temperature"],
        "fastest rival / calibrant, wall": min(r["wall"] for r in rivals.values()) / ours["wall"],
        "fastest rival / calibrant, processor": (
            min(r["processor"] for r in rivals.values()) / ours["processor"]
        ),
        "nll above the best rival": ours["nll"] - min(r["nll"] for r in rivals.values()),
    }


def binning_times(n: int, rounds: int) -> dict[str, Any]:
    logits, labels = inputs(n, 10)
    probabilities = Predictions.from_logits(logits.astype(np.float64), labels).probabilities()
    column, hits = np.ascontiguousarray(probabilities[:, 0]), labels == 0
    _, single = timed(isotonic_contest(column, hits), rounds)
    part = slice(0, n // 10)
    _, whole = timed(one_vs_rest_contest(probabilities[part], labels[part]), rounds)

    def ratio(table: dict[str, dict[str, float]], theirs: str, ours: str) -> dict[str, float]:
        return {clock: table[theirs][clock] / table[ours][clock] for clock in table[ours]}

    end = ", fit and apply"
    return {
        f"isotonic fit, {n:,} scores": single,
        f"one against the rest, {n // 10:,} × 10": whole,
        "ratios": {
            "isotonic fit: scikit-learn": ratio(single, "scikit-learn", "calibrant"),
            **{
                f"{kind} map: {rival}": ratio(
                    whole, f"{rival} {kind}{end}", f"calibrant {kind}{end}"
                )
                for kind, rival in (
                    ("isotonic", "scikit-learn"),
                    ("histogram", "scikit-learn"),
                    ("histogram", "netcal"),
                )
            },
        },
    }


def memory(n: int) -> dict[str, Any]:
    """How many MB the process grows at most while a temperature is fitted on n × 10 (Linux)."""
    logits, labels = inputs(n, 10)
    predictions = Predictions.from_logits(logits, labels)
    os.environ["CALIBRANT_KERNELS"] = "numba"
    Temperature().fit(predictions[:1000])  # Import and compile, which is no matter of n.
    reset, status = Path("/proc/self/clear_refs"), Path("/proc/self/status")
    if not status.exists():
        return {"n": n, "MB": None}
    reset.write_text("5")  # The high-water mark starts again at the present size.

    def kilobytes(field: str) -> int:
        line = next(row for row in status.read_text().splitlines() if row.startswith(field))
        return int(line.split()[1])

    before = kilobytes("VmRSS")
    Temperature().fit(predictions)
    return {"n": n, "data MB": logits.nbytes / 2**20, "MB": (kilobytes("VmHWM") - before) / 1024}


def show(title: str, result: dict[str, Any]) -> None:
    print(f"\n{title}")
    for name, row in result["rows"].items():
        print(
            f"  {name:28s}{row['wall'] * 1e3:10.1f} ms{row['processor'] * 1e3:10.1f} ms processor"
            f"   T {row['temperature']:.6f}   NLL {row['nll']:.9f}"
        )
    for name, value in result.items():
        if name != "rows":
            print(f"  {name}: {value:.3g}")


def run_all(quick: bool) -> dict[str, Any]:
    scale, rounds = (10, 3) if quick else (1, 5)
    results = circumstances(PACKAGES)
    for n, classes in ((1_000_000 // scale, 10), (100_000 // scale, 100)):
        title = f"temperature, {n:,} × {classes}"
        results[title] = temperature_times(n, classes, rounds)
        show(title, results[title])
    results["binning"] = binning_times(1_000_000 // scale, rounds)
    print("\nbinning", json.dumps(results["binning"], indent=2))
    results["memory"] = [
        json.loads(
            subprocess.check_output([sys.executable, __file__, "--memory", str(n)], text=True)
        )
        for n in (1_000_000 // scale, 4_000_000 // scale)
    ]
    print("\npeak extra memory of a temperature fit:", *results["memory"], sep="\n  ")
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--memory", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    if options.memory:
        print(json.dumps(memory(options.memory)))
        return
    write_results(run_all(options.quick), options.json)


if __name__ == "__main__":
    main()
