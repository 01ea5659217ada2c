"""Writes are atomic and replace nothing; fingerprints identify the files."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from calibrant import InputError, Predictions
from calibrant.files import count_rows, fingerprints, read, suffixes, write

WHOLE = (".parquet", ".npz", ".safetensors", ".pt", ".pth", ".arrow", ".feather")
PREDICTIONS = Predictions.from_logits(np.eye(4, 3), [0, 1, 2, 1], groups={"fold": [1, 1, 2, 2]})


@pytest.mark.parametrize("suffix", suffixes())
def test_nothing_is_overwritten_unless_requested(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"p{suffix}"
    path.write_text("precious")
    with pytest.raises(InputError, match="exists; pass overwrite=True"):
        PREDICTIONS.write(path)
    assert path.read_text() == "precious"
    PREDICTIONS.write(path, overwrite=True)
    assert len(read(path)) == 4


@pytest.mark.parametrize("suffix", [*suffixes(), ""])
def test_a_failure_leaves_what_was_there(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"p{suffix}"
    if suffix:
        PREDICTIONS.write(path)
    before = sorted(tmp_path.iterdir())
    content = path.read_bytes() if suffix else b""

    def broken() -> Iterator[Predictions]:
        yield PREDICTIONS
        raise KeyError("the model fell over")

    with pytest.raises(KeyError):
        write(broken(), path, overwrite=True)
    assert sorted(tmp_path.iterdir()) == before
    assert not suffix or path.read_bytes() == content


def test_a_folder_of_shards(tmp_path: Path) -> None:
    folder = tmp_path / "shards"
    write(PREDICTIONS.chunks(3), folder)
    assert sorted(p.name for p in folder.iterdir()) == ["part-00000.parquet", "part-00001.parquet"]
    assert np.array_equal(read(folder).scores, PREDICTIONS.scores)
    assert count_rows(folder) == 4
    with pytest.raises(InputError, match="shards need a new folder"):
        write(PREDICTIONS, folder, overwrite=True)


def test_where_it_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no folder"):
        PREDICTIONS.write(tmp_path / "none" / "shards")
    with pytest.raises(InputError, match="there is no folder"):
        PREDICTIONS.write(tmp_path / "none" / "p.npz")
    with pytest.raises(InputError, match="no predictions to write"):
        write([], tmp_path / "p.npz")
    for name in ("label", "labels", "logits", "logits_0", "prob:x", "label_names"):
        with pytest.raises(InputError, match="may not be called"):
            Predictions.from_logits(np.eye(2), [0, 1], groups={name: [1, 2]}).write(
                tmp_path / "p.npz"
            )
    assert list(tmp_path.iterdir()) == []


def test_two_classes_of_one_name(tmp_path: Path) -> None:
    """ImageNet has two cranes and two maillots."""
    cranes = Predictions.from_logits(np.eye(3), [0, 1, 2], label_names=["crane", "cat", "crane"])
    for suffix in suffixes():
        if suffix in WHOLE:
            cranes.write(tmp_path / f"p{suffix}")
            assert read(tmp_path / f"p{suffix}").labels.tolist() == [0, 1, 2]
        else:
            with pytest.raises(InputError, match="two classes are called 'crane'"):
                cranes.write(tmp_path / f"p{suffix}")
    np.savez(
        tmp_path / "q.npz", logits=np.eye(2, 3), labels=["cat", "crane"], label_names=cranes.names
    )
    with pytest.raises(InputError, match=r"Two classes are called 'crane'.* at row 1"):
        read(tmp_path / "q.npz")


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "jsonl", "parquet"])
def test_half_a_character_is_refused_and_nothing_left(tmp_path: Path, suffix: str) -> None:
    p = Predictions.from_logits(np.eye(2), [0, 1], groups={"text": ["x\udc00", "y"]})
    with pytest.raises(InputError, match=r"half of a character \(a lone surrogate\)"):
        p.write(tmp_path / f"p.{suffix}")
    assert not list(tmp_path.iterdir())


def test_fingerprints(tmp_path: Path) -> None:
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    contents = [b"x" * 3_000_001, b""]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    found = fingerprints(str(tmp_path / "*.csv"))
    assert [f.path for f in found] == [str(path) for path in paths]
    assert [f.size for f in found] == [3_000_001, 0]
    assert [f.sha256 for f in found] == [hashlib.sha256(c).hexdigest() for c in contents]


def test_rows_are_counted_where_files_tell(tmp_path: Path) -> None:
    for suffix in suffixes():
        PREDICTIONS.write(tmp_path / f"p{suffix}")
        known = suffix in WHOLE
        assert count_rows(tmp_path / f"p{suffix}") == (4 if known else None)


@pytest.mark.parametrize("suffix", ["parquet", "npz", "safetensors"])
def test_streaming_needs_bounded_memory(tmp_path: Path, suffix: str) -> None:
    """A file of 120 MB in one row group is streamed in far less than its size."""
    rng = np.random.default_rng(0)
    n = 3_000_000
    logits = rng.standard_normal((n, 10), dtype=np.float32)
    path = tmp_path / f"p.{suffix}"
    if suffix == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        lists = pa.FixedSizeListArray.from_arrays(logits.ravel(), 10)
        table = pa.table({"logits": lists, "label": np.zeros(n, np.int64)})
        pq.write_table(table, path, row_group_size=n)
    else:
        Predictions.from_logits(logits, np.zeros(n, np.int64)).write(path)
    program = (
        "import resource, sys; from calibrant.files import stream\n"
        "used = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024\n"
        "chunks = stream(sys.argv[1]); n = len(next(chunks)); before = used()\n"
        "n += sum(map(len, chunks)); print(n, used() - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    rows, grown = done.stdout.split()
    assert int(rows) == n
    assert float(grown) < 64  # megabytes


def test_numpy_alone_suffices(tmp_path: Path) -> None:
    """npz, safetensors, csv and jsonl need no extra; parquet says which it needs."""
    program = (
        "import sys; from pathlib import Path\n"
        "for name in ('pyarrow', 'safetensors', 'torch', 'pandas', 'polars'):\n"
        "    sys.modules[name] = None\n"
        "import numpy as np; from calibrant import Predictions, MissingExtraError\n"
        "p = Predictions.from_logits(np.eye(3), [0, 1, 2], groups={'g': ['a', 'b', 'c']})\n"
        "for suffix in ('npz', 'safetensors', 'csv', 'csv.gz', 'jsonl', 'jsonl.gz'):\n"
        "    p.write(f'p.{suffix}'); assert len(Predictions.read(f'p.{suffix}')) == 3\n"
        "Path('p.parquet').touch()\n"
        "for call in (lambda: p.write('q.parquet'), lambda: Predictions.read('p.parquet')):\n"
        "    try: call()\n"
        "    except MissingExtraError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.splitlines() == [
        f"{what} parquet needs pyarrow, which is not installed: pip install 'calibrant[files]'"
        for what in ("Writing", "Reading")
    ]
