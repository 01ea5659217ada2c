"""How `calibrant audit` grows: processor seconds and memory of files of n rows and K classes.

python benchmarks/growth.py                # 1,000 rows of 10 to 50,000 classes
python benchmarks/growth.py --sizes 1000x1000 10000000x10
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

SIZES = [(1000, 10), (1000, 100), (1000, 1000), (1000, 10_000), (1000, 50_000), (100_000, 100)]
CHUNK = 1 << 22  # Scores drawn at a time.


def write(path, rows, classes):
    """Parquet of logits in which the label stands out."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    random, step = np.random.default_rng(0), max(1, CHUNK // classes)
    writer = None
    for start in range(0, rows, step):
        count = min(step, rows - start)
        logits = random.standard_normal((count, classes), np.float32)
        labels = random.integers(0, classes, count)
        logits[np.arange(count), labels] += np.float32(np.log(classes))
        values = pa.array(logits.reshape(-1))
        column = pa.FixedSizeListArray.from_arrays(values, classes)
        table = pa.table({"logits": column, "label": labels})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    writer.close()


def measured(path):
    """Processor seconds and peak megabytes of one audit in a separate process."""
    child = subprocess.Popen(
        [sys.executable, "-m", "calibrant", "audit", str(path)], stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"audit failed on {path}")
    scale = 1024 if sys.platform != "darwin" else 1024**2  # Kilobytes, on macOS bytes.
    return used.ru_utime + used.ru_stime, used.ru_maxrss / scale


def size(text):
    rows, classes = text.split("x")
    return int(rows), int(classes)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=size, nargs="+", default=SIZES, metavar="ROWSxCLASSES")
    args = parser.parse_args()
    print(f"{'rows':>12} {'classes':>8} {'processor s':>12} {'peak MB':>8} {'ns per score':>13}")
    with tempfile.TemporaryDirectory() as folder:
        for rows, classes in args.sizes:
            path = Path(folder) / "predictions.parquet"
            write(path, rows, classes)
            seconds, megabytes = measured(path)
            each = 1e9 * seconds / (rows * classes)
            print(f"{rows:12,} {classes:8,} {seconds:12.1f} {megabytes:8.0f} {each:13.1f}")
            path.unlink()


if __name__ == "__main__":
    main()
