"""The share of a prediction's time that the shift-aware calibrator takes, with its signals.

    python benchmarks/shift_share.py RUN [RUN …] [--data DATA …] [-o shift-share-cpu.json]

RUN is a folder of ``calibrant train`` whose calibrator is shift-aware (``--calibrator shift-aware``
makes one). Where there is a folder RUN-export, it is measured too. The test inputs of DATA are
predicted, some before the clock starts. ``calibrator`` is the share of ``ShiftAware.transform``, of
words and of entities; ``signals`` that of the distances that torch computes beside the logits (an
export computes them inside of ONNX). The median of the rounds is taken.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import calibrant
from calibrant.calibrators import ShiftAware
from calibrant.tasks import feature_signals
from machine import circumstances
from predict_speed import texts_of

PACKAGES = ("calibrant", "numpy", "torch", "transformers", "onnxruntime")


class Clock:
    """Seconds inside a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.seconds = function, 0.0

    def __call__(self, *args: Any, **options: Any) -> Any:
        start = time.perf_counter()
        try:
            return self.function(*args, **options)
        finally:
            self.seconds += time.perf_counter() - start


@contextmanager
def clocks() -> Iterator[dict[str, Clock]]:
    """Measure the calibrator and the signals."""
    apply, signals = Clock(ShiftAware.transform), Clock(feature_signals.feature_signals)

    def transform(self: Any, *args: Any, **options: Any) -> Any:
        return apply(self, *args, **options)

    with (
        patch.object(ShiftAware, "transform", transform),
        patch.object(feature_signals, "feature_signals", signals),
    ):
        yield {"calibrator": apply, "signals": signals}


def inputs_of(recipe: dict[str, Any], count: int) -> list[Any]:
    """Return texts, or images, of the test part of what a run was trained on."""
    if recipe["task"] == "image":
        from calibrant.tasks.image.pictures import load_pictures

        images = load_pictures(recipe["data"], size=recipe["image_size"] or None).images["test"]
        return list(np.resize(images, (count, *images.shape[1:])))
    texts = texts_of(recipe["data"], None, count)
    return [texts[i % len(texts)] for i in range(count)]


def measured(folder: Path, inputs: list[Any], rounds: int) -> dict[str, Any]:
    """Return the shares of a run, or of an export."""
    predictor, count = calibrant.load(str(folder)), len(inputs)
    predictor.predict(inputs[: count // 10])
    found: dict[str, list[float]] = {"calibrator": [], "signals": [], "seconds": []}
    for _ in range(rounds):
        with clocks() as parts:
            start = time.perf_counter()
            predictor.predict(inputs)
            took = time.perf_counter() - start
        if not parts["calibrator"].seconds:
            raise SystemExit(f"{folder}: its calibrator is not shift-aware.")
        found["seconds"].append(took)
        for name, part in parts.items():
            found[name].append(part.seconds / took)
    middle = {name: round(statistics.median(values), 5) for name, values in found.items()}
    return {"inputs": count, **middle}


def main() -> None:
    """Measure and print, and write the numbers if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--data", nargs="*", default=(), help="whose test part each run predicts")
    parser.add_argument("--inputs", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    found = {}
    for run, data in zip_longest(options.runs, options.data):
        recipe = json.loads((run / "recipe.json").read_text())
        recipe["data"] = data or recipe["data"]
        name, inputs = f"{recipe['task']}, {recipe['model']}", inputs_of(recipe, options.inputs)
        for folder in (run, run.with_name(f"{run.name}-export")):
            if folder.exists():
                kind = name if folder == run else f"{name}, export"
                found[kind] = measured(folder, inputs, options.rounds)
    text = json.dumps({"shares": found, "circumstances": circumstances(PACKAGES)}, indent=1)
    print(text)
    if options.output is not None:
        options.output.write_text(text + "\n")


if __name__ == "__main__":
    main()
