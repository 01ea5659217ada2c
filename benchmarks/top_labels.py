"""Time an audit of top labels against one read of its columns.

``python benchmarks/top_labels.py [ROWS]`` writes a parquet file of predicted labels, confidences
and correctness, and times pyarrow's read of the three columns, calibrant's stream of them, and the
audit without and with intervals.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from calibrant import audit
from calibrant.files import stream

REPEATS = 3


def written(path: Path, rows: int) -> None:
    """Write a file of this many rows, with twenty labels."""
    random = np.random.default_rng(0)
    confidence = random.uniform(0.3, 1, rows).astype(np.float32)
    table = {
        "pred_label": random.integers(0, 20, rows).astype(np.int32),
        "confidence": confidence,
        "correct": random.random(rows) < confidence**1.5,
    }
    pq.write_table(pa.table(table), path)


def seconds(work: Callable[[], object]) -> float:
    """Return the least of a few times."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    """Print the times, and each as a multiple of one read."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "top.parquet"
        written(path, rows)
        names = ["pred_label", "confidence", "correct"]
        one = seconds(lambda: [c.to_numpy() for c in pq.read_table(path, columns=names).columns])
        for what, work in {
            "pyarrow reads the columns": lambda: pq.read_table(path, columns=names),
            "calibrant streams them": lambda: [len(part) for part in stream(path)],
            "audit without intervals": lambda: audit(stream(path), bootstrap=0),
            "audit with intervals": lambda: audit(stream(path)),
        }.items():
            took = seconds(work)
            print(f"{what:28} {took:7.2f} s  {took / one:6.1f} times one read")


if __name__ == "__main__":
    main()
