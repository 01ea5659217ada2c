"""Time an audit of top labels against one read of its columns.

``python benchmarks/top_labels.py [ROWS] [--json PATH]`` writes two parquet files: true and
predicted labels as text with confidences (the form of an API or a log), and predicted labels as
numbers with confidences and correctness. For each it times three reads: pyarrow's into an Arrow
table, which for numbers is little more than a copy; pandas' into a data frame; and pyarrow's into
NumPy with the checks that no audit can do without (checksums of pages, nothing missing, confidences
in 0..1, which predictions are right). Then calibrant's stream of the columns, and the audit without
and with intervals, after one run that compiles. Both sides may use all processors.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from calibrant import audit
from calibrant.files import stream
from machine import circumstances, write_results

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


def checked_read(path: Path) -> np.ndarray:
    """Return which predictions are right, after the checks of a careful reader."""
    table = pq.read_table(path, page_checksum_verification=True)
    if any(column.null_count for column in table.columns):
        raise ValueError("a value is missing")
    confidence = table["confidence"].to_numpy()
    if not (confidence.min() >= 0 and confidence.max() <= 1):
        raise ValueError("a confidence is outside of 0..1")
    if "correct" in table.column_names:
        return np.asarray(table["correct"].to_numpy())
    return np.asarray(pc.equal(table["true_label"], table["pred_label"]).to_numpy())


def measured(path: Path) -> dict[str, tuple[float, float]]:
    """Return the seconds of each way to read or audit a file."""
    audit(stream(path), bootstrap=0)
    work: dict[str, Callable[[], object]] = {
        "pyarrow, an Arrow table": lambda: pq.read_table(path),
        "pandas, a data frame": lambda: pd.read_parquet(path),
        "pyarrow, checked, in NumPy": lambda: checked_read(path),
        "calibrant streams them": lambda: [len(part) for part in stream(path)],
        "audit without intervals": lambda: audit(stream(path), bootstrap=0),
        "audit with intervals": lambda: audit(stream(path)),
    }
    return {what: seconds(task) for what, task in work.items()}


def main() -> None:
    """Print the times, and the audit as a multiple of each read."""
    parser = argparse.ArgumentParser(description="an audit of top labels against one read")
    parser.add_argument("rows", nargs="?", type=int, default=10_000_000)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    results: dict[str, object] = {"rows": args.rows, "repeats": REPEATS}
    with tempfile.TemporaryDirectory() as folder:
        for name, path in written(Path(folder), args.rows).items():
            print(f"labels as {name}")
            found = measured(path)
            whole = found["audit without intervals"]
            for what, (passed, used) in found.items():
                multiples = f"audit: {whole[0] / passed:4.1f} times, {whole[1] / used:4.1f} of them"
                print(f"  {what:27} {passed:6.2f} s, {used:6.2f} s of processors; {multiples}")
            results[name] = {
                what: {"passed": t[0], "processors": t[1]} for what, t in found.items()
            }
    packages = ("calibrant", "numpy", "numba", "pandas", "pyarrow")
    write_results({**results, **circumstances(packages)}, args.json)


if __name__ == "__main__":
    main()
