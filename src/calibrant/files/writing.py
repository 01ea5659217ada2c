"""Writing predictions: whole or not at all, and never over what is there unless told so."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
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
    write_parts = _WRITERS[suffix(target)] if target.suffix else _write_shards
    _check_target(target, overwrite)
    whole = predictions.chunks(_ROWS) if isinstance(predictions, Predictions) else predictions
    parts = iter(whole)
    first = next(parts, None)
    if first is None:
        raise InputError(f"{target}: no predictions to write.")
    for name in first.groups:
        if _TAKEN.fullmatch(name):
            raise InputError(f"{target}: a group may not be called '{name}'; rename it.")
    with _complete(target) as unfinished:
        write_parts(chain([first], parts), unfinished)


def _check_target(target: Path, overwrite: bool) -> None:
    if target.is_dir():
        raise InputError(f"{target}: a folder of that name exists; shards need a new one.")
    if target.exists() and not overwrite:
        raise InputError(f"{target}: exists already; say overwrite (--overwrite) to replace it.")
    if not target.parent.is_dir():
        raise InputError(f"{target}: there is no folder {target.parent}.")


def _write_shards(parts: Iterator[Predictions], folder: Path) -> None:
    folder.mkdir()
    for number, part in enumerate(parts):
        write_parquet(iter([part]), folder / f"part-{number:05}.parquet")


@contextmanager
def _complete(target: Path) -> Iterator[Path]:
    """A hidden path beside ``target`` that takes its place once it is written without an error."""
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        yield unfinished
        unfinished.replace(target)
    finally:
        if unfinished.is_dir():
            shutil.rmtree(unfinished)
        unfinished.unlink(missing_ok=True)
