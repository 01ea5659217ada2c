"""csv and jsonl again with other scores: cells and keys that are not scores are copied."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.files.jsonl import json_records
from calibrant.files.lines import csv_records, text_file
from calibrant.files.source import Layout

__all__ = ["rewrite_csv", "rewrite_jsonl"]


def rewrite_csv(
    path: Path,
    target: Path,
    layout: Layout,
    names: tuple[str, ...],
    parts: Iterator[np.ndarray],
) -> None:
    """Records whose score cells are replaced; the header gets the new names."""
    records = (record for _, record in csv_records(path))
    header = next(records)
    renamed = dict(zip(layout.scores, names, strict=True))
    replaced = set(names)
    kept = [i for i, name in enumerate(header) if name in renamed or name not in replaced]
    place = {name: k for k, name in enumerate(layout.scores)}
    with text_file(target, compressed=target.suffix.lower() == ".gz") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([renamed.get(header[i], header[i]) for i in kept])
        for part in parts:
            rows = part.reshape(len(part), -1).tolist()
            for record, scores in zip(islice(records, len(part)), rows, strict=True):
                writer.writerow(
                    scores[place[header[i]]] if header[i] in place else record[i] for i in kept
                )


def rewrite_jsonl(
    path: Path,
    target: Path,
    layout: Layout,
    names: tuple[str, ...],
    parts: Iterator[np.ndarray],
) -> None:
    """Objects whose scores are replaced: list by list, object by object, number by number."""
    records = (record for _, record in json_records(path))
    renamed, replaced = dict(zip(layout.scores, names, strict=True)), set(names)
    with text_file(target, compressed=target.suffix.lower() == ".gz") as file:
        for part in parts:
            for record, scores in zip(islice(records, len(part)), part.tolist(), strict=True):
                values = scores if layout.per_class else [scores]
                new = dict(zip(layout.scores, values, strict=True))
                written = {
                    renamed.get(key, key): _like(value, new[key]) if key in new else value
                    for key, value in record.items()
                    if key in renamed or key not in replaced
                }
                file.write(json.dumps(written, ensure_ascii=False) + "\n")


def _like(old: Any, new: Any) -> Any:
    """The new scores under the names of the old ones, where those were an object."""
    return dict(zip(old, new, strict=True)) if isinstance(old, dict) else new
