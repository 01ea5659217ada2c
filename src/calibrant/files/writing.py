"""Writing predictions: whole or not at all, and never over what is there unless told so."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path

from calibrant.errors import InputError
from calibrant.files.csv import write_csv
from calibrant.files.jsonl import write_jsonl
from calibrant.files.npz import write_npz
from calibrant.files.parquet import write_parquet
from calibrant.files.paths import suffix
from calibrant.files.safetensors import write_safetensors
from calibrant.inputs import first_repeated
from calibrant.outputs import new_file, new_folder
from calibrant.predictions import Predictions

__all__ = ["write"]

_WRITERS: dict[str, Callable[[Iterator[Predictions], Path], None]] = {
    ".parquet": write_parquet,
    ".npz": write_npz,
    ".safetensors": write_safetensors,
    ".csv": partial(write_csv, compressed=False),
    ".csv.gz": partial(write_csv, compressed=True),
    ".jsonl": partial(write_jsonl, compressed=False),
    ".jsonl.gz": partial(write_jsonl, compressed=True),
}

_ROWS = 1 << 20  # Rows per part of predictions that are given whole.


# Group columns of these names could not be told from scores and labels again.
_TAKEN = re.compile(r"labels?|label_names|(logits?|prob(abilit(y|ies)|s)?)([:_].*)?")


def write(
    predictions: Predictions | Iterable[Predictions],
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
) -> None:
    """Write predictions, or a stream of them, to ``path`` in the format of its suffix.

    A path without a suffix becomes a new folder of parquet shards, one per part of the stream.
    The file or folder appears under its name when it is complete. What is there already is kept,
    with an error, unless ``overwrite``; a folder is never replaced.
    Rows that were ignored are not written. npz and safetensors hold the whole in memory once.
    """
    target = Path(path)
    write_parts = _WRITERS[suffix(target)] if target.suffix else None
    whole = predictions.chunks(_ROWS) if isinstance(predictions, Predictions) else predictions
    parts = iter(whole)
    first = next(parts, None)
    if first is None:
        raise InputError(f"{target}: no predictions to write.")
    _check_names(target, first)
    parts = chain([first], parts)
    if write_parts is None:
        _write_shards(parts, target)
        return
    with new_file(target, overwrite=overwrite) as unfinished:
        write_parts(parts, unfinished)


def _check_names(target: Path, part: Predictions) -> None:
    for name in part.groups:
        if _TAKEN.fullmatch(name):
            raise InputError(f"{target}: a group may not be called '{name}'; rename it.")
    by_name = target.name.lower().endswith((".csv", ".csv.gz", ".jsonl", ".jsonl.gz"))
    twice = first_repeated(part.label_names or ())
    if by_name and twice is not None:
        raise InputError(
            f"{target}: two classes are called '{twice}', but csv and jsonl tell classes by name; "
            "write another format."
        )


def _write_shards(parts: Iterable[Predictions], folder: Path) -> None:
    if os.path.lexists(folder):
        raise InputError(f"{folder} exists; shards need a folder of their own.")
    with new_folder(folder) as unfinished:
        for number, part in enumerate(parts):
            write_parquet(iter([part]), unfinished / f"part-{number:05}.parquet")
