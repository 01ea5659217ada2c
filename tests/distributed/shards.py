"""Predictions, and the same in shards of parquet."""

from functools import partial
from itertools import pairwise

import numpy as np

from calibrant import Predictions
from calibrant.distributed import engines
from calibrant.distributed.parquet_parts import plan_parts
from calibrant.files import write


def random_predictions(n=6000, classes=4, seed=0, *, sentences=0, names=None):
    """Return overconfident logits, of independent rows or of sentences of ten words."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, n)
    logits = 2.5 * (random.normal(size=(n, classes)) + 1.2 * np.eye(classes)[labels])
    groups = {"site": np.array(["A", "B", "C"])[random.integers(0, 3, n)]}
    if sentences:
        groups["sentence"] = np.arange(n) // sentences
    return Predictions.from_logits(
        logits.astype(np.float32), labels, label_names=names, groups=groups
    )


def write_shards(predictions, folder, cuts, groups=2):
    """Write the rows between the cuts as one parquet file each, in ``groups`` row groups."""
    folder.mkdir(parents=True, exist_ok=True)
    edges = [0, *cuts, len(predictions)]
    for number, (start, stop) in enumerate(pairwise(edges)):
        part = predictions[start:stop]
        size = max(1, -(-len(part) // groups))
        pieces = [part[i : i + size] for i in range(0, len(part), size)]
        write(iter(pieces), folder / f"part-{number:03}.parquet")
    return folder


def make_parts_small(monkeypatch):
    """Let every row group be a part of its own."""
    monkeypatch.setattr(engines, "plan_parts", partial(plan_parts, scores=1))
