"""Step time of HeadNoise over cross-entropy when the whole step is one captured CUDA graph.

    python benchmarks/overhead_graph.py --json benchmarks/results/overhead-cuda-graph.json

A BERT-base-sized encoder (random weights), 32 sentences of 128 pieces, bfloat16; methods take turns
and medians are compared, so that drift of the clock does not matter.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from transformers import BertConfig, BertForTokenClassification

from calibrant.methods import create
from calibrant.tasks.encoders.heads import with_head
from calibrant.tasks.ner.subword_windows import Pieces
from calibrant.training.loop import Loop, Schedule, Windows

METHODS = ("cross_entropy", "head_noise", "head_noise_error_regularization")
WINDOWS, LENGTH, BATCH, STEPS, ROUNDS, CLASSES = 512, 128, 32, 20, 14, 9


def windows():
    random = np.random.default_rng(0)
    ids = random.integers(1000, 20000, WINDOWS * LENGTH).astype(np.int32)
    labels = random.integers(0, CLASSES, WINDOWS * LENGTH).astype(np.int32)
    labels[::LENGTH] = -100
    words = np.tile(np.arange(LENGTH, dtype=np.int32), WINDOWS)
    starts = np.arange(WINDOWS + 1) * LENGTH
    return Windows(Pieces(ids, labels, words, starts, np.arange(WINDOWS)), "cuda")


def loop(method, data):
    torch.manual_seed(0)
    model = with_head(BertForTokenClassification(BertConfig(num_labels=CLASSES)), CLASSES)
    return Loop(model, create(method), data, Schedule(epochs=40, batch=BATCH, dtype="bfloat16"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    data = windows()
    running = {name: loop(name, data).steps() for name in METHODS}
    times = {name: [] for name in METHODS}
    for _ in range(ROUNDS):
        for name, steps in running.items():
            torch.cuda.synchronize()
            began = time.perf_counter()
            for _ in range(STEPS):
                next(steps)
            torch.cuda.synchronize()
            times[name].append((time.perf_counter() - began) / STEPS * 1e3)
    plain = times[METHODS[0]][2:]  # The first two rounds warm up.
    rows = {
        name: {
            "ms": statistics.median(taken[2:]),
            "overhead": statistics.median(a / b - 1 for a, b in zip(taken[2:], plain, strict=True)),
        }
        for name, taken in times.items()
    }
    for name, row in rows.items():
        print(f"{name:35s} {row['ms']:8.2f} ms  {row['overhead']:+.1%}")
    if args.json:
        about = {"torch": torch.__version__, "device": torch.cuda.get_device_name()}
        args.json.write_text(json.dumps({"rows": rows, **about}, indent=1))


if __name__ == "__main__":
    main()
