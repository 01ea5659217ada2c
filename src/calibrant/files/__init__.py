"""Predictions in files: parquet, npz, safetensors, csv and jsonl, at once or as a stream.

docs/files.md shows each format with its column names.
"""

from __future__ import annotations

from calibrant.files.columns import Columns
from calibrant.files.formats import (
    FORMATS,
    Fingerprint,
    Paths,
    expand,
    fingerprints,
    notes,
    suffixes,
)
from calibrant.files.frame import from_frame
from calibrant.files.label_names import read_label_names
from calibrant.files.reading import count_rows, read, stream
from calibrant.files.unlabelled import LABELLED, stream_top_labels, stream_unlabelled
from calibrant.files.writing import rewrite, write

__all__ = [
    "FORMATS",
    "LABELLED",
    "Columns",
    "Fingerprint",
    "Paths",
    "count_rows",
    "expand",
    "fingerprints",
    "from_frame",
    "notes",
    "read",
    "read_label_names",
    "rewrite",
    "stream",
    "stream_top_labels",
    "stream_unlabelled",
    "suffixes",
    "write",
]
