"""Damaged csv, jsonl and parquet files of predictions."""

import gzip
import json

import numpy as np
from content import csv_bytes, parquet_bytes, parquet_columns, records, table
from nasty import CELLS, NAMES, VALUES, as_bytes, mutate_bytes, mutated_json


def hostile_csv(random, content):
    """The bytes of a csv with something odd in it, and its suffix."""
    header, rows = table(content)
    for _ in range(random.choice((0, 1, 1, 2))):
        row, column = random.randrange(len(rows)), random.randrange(len(header))
        kind = random.randrange(9)
        if kind < 3:
            rows[row] = [*rows[row][:column], random.choice(CELLS), *rows[row][column + 1 :]]
        elif kind == 3:
            header = [*header[:column], random.choice((*NAMES, *header)), *header[column + 1 :]]
        elif kind == 4:
            rows[row] = rows[row][:column]
        elif kind == 5:
            rows[row] = [*rows[row], "1"]
        elif kind == 6:
            header = [*header, random.choice(NAMES)]
            rows = [[*r, random.choice(CELLS)] for r in rows]
        elif kind == 7:
            rows = [rows[row]] * 2
        else:
            rows.insert(row, [""] if random.random() < 0.5 else list(header))
    return _as_text(random, csv_bytes(header, rows[: 0 if random.random() < 0.02 else None]), "csv")


def hostile_jsonl(random, content):
    """The bytes of a jsonl with something odd in it, and its suffix."""
    lines = [json.dumps(record) for record in records(content)]
    for _ in range(random.choice((0, 1, 1, 2))):
        at, kind = random.randrange(len(lines)), random.randrange(8)
        if kind < 4:
            try:
                lines[at] = mutated_json(random, json.loads(lines[at]))
            except (ValueError, RecursionError):  # It was odd already.
                lines[at] = random.choice(VALUES)
        elif kind == 4:
            lines[at] += random.choice(("", " ", ",", ";")) + lines[-1]
        elif kind == 5:
            lines.insert(at, random.choice(("", " ", "\t", "[]", "1", "null", "# a", "{}")))
        elif kind == 6:
            lines[at] = lines[at].replace(", ", ",\n", 1)
        else:
            first = lines[at].split(",")[0]
            lines[at] = first + ", " + lines[at][1:]
    return _as_text(random, as_bytes("\n".join(lines) + "\n"), "jsonl")


def _as_text(random, data, suffix):
    kind = random.randrange(12)
    if kind == 0:
        data = data.replace(b"\n", b"\r\n")
    elif kind == 1:
        data = b"\xef\xbb\xbf" + data
    elif kind == 2:
        data = data.rstrip(b"\n")
    elif kind == 3:
        data = data.decode("utf-8", "replace").encode(random.choice(("utf-16", "utf-32")))
    elif kind in (4, 5, 6):
        data = mutate_bytes(random, data)
    if random.random() < 0.2:
        data, suffix = gzip.compress(data, 1), suffix + ".gz"
        if random.random() < 0.4:
            data = mutate_bytes(random, data)
    return data, suffix


def hostile_parquet(random, content):
    """The bytes of a parquet file with something odd in it, and its suffix."""
    import pyarrow

    columns = parquet_columns(content)
    metadata = None if content.names is None else {"label_names": json.dumps(content.names)}
    for _ in range(random.choice((0, 1, 1, 2))):
        at, kind = random.randrange(len(columns)), random.randrange(6)
        if kind == 0:
            columns[at] = (
                random.choice((*NAMES[:18], *(name for name, _ in columns))),
                columns[at][1],
            )
        elif kind == 1:
            columns[at] = (columns[at][0], _odd_column(random, len(content.scores)))
        elif kind == 2:
            columns.append((random.choice(NAMES[:18]), _odd_column(random, len(content.scores))))
        elif kind == 3:
            key = random.choice(("label_names", "huggingface", "pandas", "ARROW:schema", ""))
            metadata = {**(metadata or {}), key: as_bytes(_odd_metadata(random))}
        elif kind == 4 and len(columns) > 1:
            del columns[at]
        else:
            columns = [(name, values[:0]) for name, values in columns]
    try:
        columns = [(as_bytes(name).decode("utf-8", "replace"), values) for name, values in columns]
        data = parquet_bytes(columns, metadata, **_options(random))
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError):
        data = parquet_bytes(parquet_columns(content), **_options(random))  # It cannot be written.
    if random.random() < 0.4:
        data = mutate_bytes(random, data)
    elif random.random() < 0.1:
        data = data.replace(b"label", b"l\xffbel")
    return data, "parquet"


def _options(random):
    return {
        "compression": random.choice(("none", "snappy", "gzip", "zstd")),
        "use_dictionary": random.random() < 0.5,
        "row_group_size": random.choice((1, 3, 1000)),
        "data_page_version": random.choice(("1.0", "2.0")),
        "write_page_checksum": random.random() < 0.5,
    }


def _odd_metadata(random):
    huggingface = {"info": {"features": {"label": {"names": ["a", "b"], "_type": "ClassLabel"}}}}
    return mutated_json(random, random.choice((huggingface, ["a", "b"], {"x": 1})))


def _odd_column(random, n):
    import pyarrow

    big = random.choice((0, 1, 2**31 - 1, -(2**31)))
    huge = random.choice((0, 1, 2**62, -(2**62), 2**63 - 1))
    some = [
        lambda: pyarrow.array([big] * n, pyarrow.int32()).cast(pyarrow.date32()),
        lambda: pyarrow.array([huge] * n, pyarrow.int64()).cast(pyarrow.timestamp("s", tz="UTC")),
        lambda: pyarrow.array([huge] * n, pyarrow.int64()).cast(pyarrow.duration("s")),
        lambda: pyarrow.array([big] * n, pyarrow.int32()).cast(pyarrow.time32("s")),
        lambda: pyarrow.array([None, *[huge] * (n - 1)], pyarrow.timestamp("us")),
        lambda: pyarrow.array([b"\xff"] * n).view(pyarrow.string()),
        lambda: pyarrow.array([b"a"] * n),
        lambda: pyarrow.nulls(n),
        lambda: pyarrow.array([None] * n, pyarrow.float64()),
        lambda: pyarrow.array(["a", "b"] * n)[:n].dictionary_encode(),
        lambda: pyarrow.array([[1.0]] * n),
        lambda: pyarrow.array([[]] * n, pyarrow.list_(pyarrow.float64())),
        lambda: pyarrow.array([[1.0, None]] * n),
        lambda: pyarrow.array([[[1.0, 2.0]]] * n),
        lambda: pyarrow.array([{"a": 1.0}] * n),
        lambda: pyarrow.array([[("a", 1)]] * n, pyarrow.map_(pyarrow.string(), pyarrow.int64())),
        lambda: pyarrow.array(np.zeros(n, np.float16)),
        lambda: pyarrow.array([np.nan] * n),
        lambda: pyarrow.array([1.5] * n),
        lambda: pyarrow.array([2**64 - 1] * n, pyarrow.uint64()),
        lambda: pyarrow.array([True] * n),
        lambda: pyarrow.array([12] * n).cast(pyarrow.decimal128(38, 2)),
        lambda: pyarrow.array([[1.0, 2.0]] * n, pyarrow.list_(pyarrow.float64(), 2)),
        lambda: pyarrow.array([["a"]] * n),
        lambda: pyarrow.array(["9" * 5000] * n),
    ]
    return random.choice(some)()
