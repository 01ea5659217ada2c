"""The live files of Delta and Iceberg tables, without deleted rows, by the libraries of both.

A table is read as it was when its files were listed, in every pass of a fit.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import unquote

from calibrant.distributed.data_files import DataFile
from calibrant.errors import InputError
from calibrant.extras import require
from calibrant.inputs import door

__all__ = ["METADATA", "delta_files", "iceberg_files", "iceberg_of_catalog", "newest_metadata"]

METADATA = ".metadata.json"  # How the name of a file of Iceberg's metadata ends.

# Features that do not change what a data file says; of deleted rows we look for ourselves.
_HARMLESS = {"deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
_HINT = "version-hint.text"  # The number of the version that counts.
_NO_LOG = "its log cannot be read"


def delta_files(folder: str) -> list[DataFile]:
    """Return the files of the newest version of a Delta table, in the order of their names."""
    delta = require("deltalake", "delta", f"Reading {folder}, a Delta table,")
    arrow = require("pyarrow", "files", "Reading a Delta table")
    with door(folder, _NO_LOG):
        table = delta.DeltaTable(folder)
        _check_features(folder, table)
        fields = {field.name: field.type for field in arrow.schema(table.schema().to_arrow())}
        names = table.metadata().partition_columns
        found = arrow.table(table.get_add_actions(flatten=True)).to_pylist()
    files = []
    for each in sorted(found, key=lambda each: str(each["path"])):
        path = unquote(each["path"])  # As it is on the disk, which may have a % of its own.
        whole = path if "://" in path else f"{folder.rstrip('/')}/{path}"
        added = tuple((name, each[f"partition.{name}"], fields[name]) for name in names)
        files.append(DataFile(whole, added))
    return files


def _check_features(folder: str, table: Any) -> None:
    features = {*(table.protocol().reader_features or ())} - _HARMLESS
    if features or table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
        named = ", ".join(sorted(features)) or "columnMapping"
        raise _through_spark(folder, f"the Delta table uses {named}")
    if any(batch.num_rows for batch in table.deletion_vectors()):
        raise _through_spark(folder, "rows of the Delta table are deleted by deletion vectors")


def iceberg_files(metadata: str) -> list[DataFile]:
    """Return the files of the table that a file of metadata, ``….metadata.json``, describes."""
    tables = require("pyiceberg.table", "iceberg", f"Reading {metadata}, an Iceberg table,")
    with door(metadata, _NO_LOG):
        return _planned(metadata, tables.StaticTable.from_metadata(metadata, _endpoint()))


def _endpoint() -> dict[str, str]:
    """Return where S3 is, if the variable says so that fsspec and Delta's library read, too."""
    found = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    return {"s3.endpoint": found} if found else {}


def iceberg_of_catalog(name: str) -> list[DataFile]:
    """Return the files of ``[CATALOG/]NAMESPACE.TABLE`` of a catalog that pyiceberg knows."""
    place = f"iceberg:{name}"
    catalogs = require("pyiceberg.catalog", "iceberg", f"Reading {place}")
    catalog, _, table = name.rpartition("/")
    with door(place, _NO_LOG):
        return _planned(place, catalogs.load_catalog(catalog or None).load_table(table))


def _planned(place: str, table: Any) -> list[DataFile]:
    columns = tuple((field.field_id, field.name) for field in table.schema().fields)
    tasks = list(table.scan().plan_files())
    if any(task.delete_files for task in tasks):
        raise _through_spark(place, "rows of the Iceberg table are deleted by files of deletes")
    other = next((t.file.file_path for t in tasks if t.file.file_format.value != "PARQUET"), None)
    if other is not None:
        raise InputError(f"{place}: {other} of the table is no parquet file.")
    return [
        DataFile(path, columns=columns) for path in sorted(_local(t.file.file_path) for t in tasks)
    ]


def newest_metadata(names: Iterable[str], read: Callable[[str], str]) -> str:
    """Return which file of metadata counts, of those in the folder ``metadata`` of a table.

    >>> newest_metadata(["00000-a.metadata.json", "00001-b.metadata.json"], str)
    '00001-b.metadata.json'
    >>> names = ["v1.metadata.json", "v2.metadata.json", "version-hint.text"]
    >>> newest_metadata(names, lambda name: "1")
    'v1.metadata.json'
    """
    found: dict[int, list[str]] = {}
    for name in names:
        if (number := re.match(r"v?(\d+)(-.*)?(\.gz)?\.metadata\.json", name)) is not None:
            found.setdefault(int(number[1]), []).append(name)
    hint = read(_HINT).strip() if _HINT in names else ""
    version = int(hint) if hint.isdigit() else max(found, default=-1)
    if len(found.get(version, [])) != 1:
        raise InputError(
            "Which version of an Iceberg table counts is not clear from its folder: name the table "
            "as iceberg:CATALOG/NAMESPACE.TABLE, or a file of its metadata."
        )
    return found[version][0]


def _local(path: str) -> str:
    return path.removeprefix("file://") if path.startswith("file:///") else path


def _through_spark(place: str, why: str) -> InputError:
    return InputError(
        f"{place}: {why}, which is not read here: rewrite its files (OPTIMIZE, REORG or "
        "rewrite_data_files), or read it as a DataFrame of Spark."
    )
