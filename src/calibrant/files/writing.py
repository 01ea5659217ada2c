"""Writing predictions: whole or not at all, and never over what is there unless told so."""

from __future__ import annotations

import os
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


def write(
    predictions: Predictions | Iterable[Predictions],
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
) -> None:
    """Write predictions, or a stream of them, to ``path`` in the format of its suffix.

    The file appears under its name when it is complete. What is there already is kept, with an
    error, unless ``overwrite``.
    """
    target = Path(path)
    write_parts = _WRITERS[suffix(target)]
    if target.exists() and not overwrite:
        raise InputError(f"{target}: exists already; say overwrite (--overwrite) to replace it.")
    if not target.parent.is_dir():
        raise InputError(f"{target}: there is no folder {target.parent}.")
    whole = predictions.chunks(_ROWS) if isinstance(predictions, Predictions) else predictions
    parts = iter(whole)
    first = next(parts, None)
    if first is None:
        raise InputError(f"{target}: no predictions to write.")
    with _complete(target) as unfinished:
        write_parts(chain([first], parts), unfinished)


@contextmanager
def _complete(target: Path) -> Iterator[Path]:
    """A hidden file beside ``target`` that takes its place once it is written without an error."""
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        yield unfinished
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
