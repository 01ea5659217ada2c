"""Time an audit of top labels against one read of its columns.

``python benchmarks/top_labels.py [ROWS]`` writes two parquet files: true and predicted labels as
text with confidences (the form of an API or a log), and predicted labels as numbers with
confidences and correctness. For each it times pyarrow's read of the columns into an Arrow table,
calibrant's stream of them, and the audit without and with intervals, after one run that compiles.
Multiples are of the read in the same table; both sides may use all processors.
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
LABELS = np.array([f"label number {k}" for k in range(20)], object)


def written(folder: Path, rows: int) -> dict[str, Path]:
    """Write both files of this many rows, with twenty labels."""
    random = np.random.default_rng(0)
    confidence = random.uniform(0.3, 1, rows).astype(np.float32)
    predicted = random.integers(0, 20, rows).astype(np.int32)
    correct = random.random(rows) < confidence**1.5
    true = np.where(correct, predicted, (predicted + 1) % 20)
    tables = {
        "numbers": {"pred_label": predicted, "confidence": confidence, "correct": correct},
        "text": {
            "true_label": LABELS[true],
            "pred_label": LABELS[predicted],
            "confidence": confidence,
        },
    }
    for name, table in tables.items():
        pq.write_table(pa.table(table), folder / f"{name}.parquet")
    return {name: folder / f"{name}.parquet" for name in tables}


def seconds(work: Callable[[], object]) -> tuple[float, float]:
    """Return the least time that passed, and the least time of processors, of a few runs."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter(), time.process_time()
        work()
        times.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    return min(t[0] for t in times), min(t[1] for t in times)


def main() -> None:
    """Print the times, and each as a multiple of one read."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    with tempfile.TemporaryDirectory() as folder:
        for name, path in written(Path(folder), rows).items():
            audit(stream(path), bootstrap=0)
            print(f"labels as {name}")
            read = None
            for what, work in {
                "pyarrow reads the columns": lambda path=path: pq.read_table(path),
                "calibrant streams them": lambda path=path: [len(part) for part in stream(path)],
                "audit without intervals": lambda path=path: audit(stream(path), bootstrap=0),
                "audit with intervals": lambda path=path: audit(stream(path)),
            }.items():
                took = seconds(work)
                read = read or took
                times = (f"{took[k]:6.2f} s ({took[k] / read[k]:4.1f} times)" for k in (0, 1))
                print(f"  {what:27} {next(times)} passed, {next(times)} of processors")


if __name__ == "__main__":
    main()
