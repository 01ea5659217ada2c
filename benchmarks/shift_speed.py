"""How fast the shift-aware calibrator is fitted and applied, by NumPy alone.

    python benchmarks/shift_speed.py [--words 1000000] [-o shift-speed-cpu.json]

Generated words with nine tags in sentences of fifteen, with the signals of a run. Fitting is as for
CoNLL-2003: 51,362 validation words and fifteen copies of them; ``rule_s`` is the time of the whole
rule that decides whether the calibrator is chosen, the fit included. The best of three is taken.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from calibrant import Predictions
from calibrant.calibrators import Isotonic, ShiftAware
from calibrant.comparison.cross_validation import make_folds
from calibrant.comparison.under_shift import judge_under_shift, with_corruption
from calibrant.experiments.record import circumstances

CLASSES, SENTENCE, VALID = 9, 15, 51_362
KINDS, STRENGTHS = ("typos", "ocr", "dropped", "swapped", "words"), (1, 3, 5)
SIGNALS = {"pieces": ("pieces",), "all": ("pieces", "energy", "norm", "distance", "own_distance")}


def words(n: int, damage: float, names: tuple[str, ...], seed: int) -> Predictions:
    """Return words of which more are wrong with more pieces; the other signals follow damage."""
    random = np.random.default_rng(seed)
    labels, pieces = random.integers(0, CLASSES, n), 1 + random.poisson(0.3 + damage, n)
    wrong = random.random(n) < np.minimum(0.06 * pieces, 0.9)
    shown = np.where(wrong, random.integers(0, CLASSES, n), labels)
    logits = (6 * np.eye(CLASSES)[shown] + random.normal(size=(n, CLASSES))).astype(np.float32)
    signals = {name: damage + random.normal(size=n).astype(np.float32) for name in names}
    tags = ("O", *(f"B-{k}" for k in range(CLASSES - 1)))
    return Predictions.from_logits(
        logits,
        labels,
        label_names=tags,
        groups={"sentence": np.arange(n) // SENTENCE},
        signals={**signals, "pieces": pieces.astype(np.float32)},
    )


def best(function: Callable[[], Any], times: int = 3) -> float:
    """Return the least seconds of some calls."""
    took = []
    for _ in range(times):
        start = time.perf_counter()
        function()
        took.append(time.perf_counter() - start)
    return min(took)


def measured(names: tuple[str, ...], count: int, valid: int) -> dict[str, float]:
    """Return seconds of fitting and choosing, and words per second of applying."""
    clean = with_corruption(words(valid, 0.0, names, 0), "")
    damaged = [
        with_corruption(words(valid, strength / 2, names, number), f"{kind}-{strength}")
        for number, (kind, strength) in enumerate((k, s) for k in KINDS for s in STRENGTHS)
    ]
    copies = Predictions.concatenate(damaged)
    whole, new = Predictions.concatenate([clean, copies]), words(count, 1.0, names, 99)
    fitted = ShiftAware()
    fit_s = best(lambda: fitted.fit(whole), 1)
    folds = make_folds(clean, 5, seed=0)
    rule_s = best(lambda: judge_under_shift(Isotonic(), clean, copies, folds), 1)
    return {
        "fit_s": fit_s,
        "rule_s": rule_s,
        "words_per_s": count / best(lambda: fitted.transform(new)),
    }


def main() -> None:
    """Measure and print, and write the numbers if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--words", type=int, default=1_000_000)
    parser.add_argument("--valid", type=int, default=VALID)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    found = {name: measured(s, options.words, options.valid) for name, s in SIGNALS.items()}
    content = {"signals": found, "words": options.words, "circumstances": circumstances()}
    text = json.dumps(content, indent=1)
    print(text)
    if options.output is not None:
        options.output.write_text(text + "\n")


if __name__ == "__main__":
    main()
