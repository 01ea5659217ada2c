"""How often bootstrap intervals hold the truth: percentile against basic, metric by metric.

Draws samples from models whose calibration is known, and prints for each metric how often the 95 %
interval holds the true value, how often it holds the estimate itself, and its mean width. The
figures in docs/decisions/0005-basic-intervals.md come from

    python benchmarks/interval_coverage.py --samples 100
"""

import argparse

import numpy as np

from calibrant import Predictions
from calibrant.metrics import (
    accumulate,
    accuracy,
    adaptive_ece,
    assign_blocks,
    aurc,
    auroc,
    brier,
    classwise_ece,
    confidences,
    debiased_ece,
    ece,
    interval,
    ks_error,
    mce,
    nll,
    overconfidence_error,
    smooth_ece,
)

ADDITIVE = [ece, mce, overconfidence_error, classwise_ece, debiased_ece, accuracy, nll, brier]
SORTED = [adaptive_ece, ks_error, smooth_ece, aurc, auroc]
UNCALIBRATED = [accuracy, nll, brier, aurc, auroc]  # Those that are not 0 for honest confidences.
CLASSES = 4


def draw(rng, n, power):
    """Predictions that are right with probability confidence^power: honest where power is 1."""
    confidence = 1 - 0.7 * rng.beta(1, 6, n)
    first = np.where(rng.random(n) < confidence**power, 0, rng.integers(1, CLASSES, n))
    scores = np.repeat(((1 - confidence) / (CLASSES - 1))[:, None], CLASSES, axis=1)
    scores[:, 0] = confidence
    turn = rng.integers(CLASSES, size=n)  # Turn the columns, so that the classes are alike.
    columns = (np.arange(CLASSES) - turn[:, None]) % CLASSES
    return Predictions.from_probabilities(
        np.take_along_axis(scores, columns, axis=1), (first + turn) % CLASSES
    )


def truth(rng, power):
    """The metrics of a million examples; the errors of an honest model are 0 by definition."""
    large = draw(rng, 1_000_000, power)
    state, each = accumulate(large), confidences(large)
    values = {m: m(state) for m in ADDITIVE} | {m: m(each) for m in SORTED}
    return {m: v if power != 1 or m in UNCALIBRATED else 0.0 for m, v in values.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument("--n", type=int, default=1000)
    options = parser.parse_args()
    for power in (1.0, 1.3, 2.0):
        report(options, power)


def report(options, power):
    rng = np.random.default_rng(0)
    true, seen = truth(rng, power), {}
    for _ in range(options.samples):
        p = draw(rng, options.n, power)
        block = assign_blocks(p)
        state, each = accumulate(p, block=block, blocks=1000), confidences(p, block)
        for metric in ADDITIVE + SORTED:
            source, estimate = (each if metric in SORTED else state), metric(p)
            for method in ("percentile", "basic"):
                low, high = interval(metric, source, replicates=options.replicates, method=method)
                row = (
                    low <= true[metric] <= high,
                    low - 1e-12 <= estimate <= high + 1e-12,
                    high - low,
                )
                seen.setdefault((metric, method), []).append(row)
    for (metric, method), rows in seen.items():
        covered, held, width = np.mean(rows, axis=0)
        print(
            f"n={options.n} power={power} {metric.__name__:22} {method:10} "
            f"true={true[metric]:.4f} covers={covered:.2f} holds={held:.2f} width={width:.4f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
