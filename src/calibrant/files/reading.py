"""Reading predictions, at once or in chunks of bounded memory, from one file or many shards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from pathlib import Path

from calibrant.errors import InputError
from calibrant.files.assemble import assemble
from calibrant.files.columns import USUAL, Columns, find_layout
from calibrant.files.csv import CsvSource
from calibrant.files.jsonl import JsonlSource
from calibrant.files.npz import npz_source
from calibrant.files.parquet import ParquetSource
from calibrant.files.paths import Paths, expand, suffix
from calibrant.files.safetensors import safetensors_source
from calibrant.files.source import Layout, Shape, Source
from calibrant.predictions import Kind, Predictions

__all__ = ["count_rows", "open_source", "read", "stream"]

_SOURCES: dict[str, Callable[[Path], Source]] = {
    ".parquet": ParquetSource,
    ".npz": npz_source,
    ".safetensors": safetensors_source,
    ".csv": CsvSource,
    ".csv.gz": CsvSource,
    ".jsonl": JsonlSource,
    ".jsonl.gz": JsonlSource,
}

_CHUNK = 1 << 21  # Scores per chunk: 8 megabytes in float32.


def read(paths: Paths, columns: Columns = USUAL, kind: Kind | None = None) -> Predictions:
    """All predictions of ``paths``: a file, a folder of shards, a glob, or several.

    Whether the scores are logits or probabilities is said by the name of their column, by
    ``columns`` or by ``kind``; it is never guessed from the values.

    >>> from tempfile import TemporaryDirectory
    >>> p = Predictions.from_logits([[2.0, 0.0], [0.0, 1.0]], [0, 1], label_names=["cat", "dog"])
    >>> with TemporaryDirectory() as folder:
    ...     p.write(f"{folder}/dev.npz")
    ...     read(f"{folder}/dev.npz").names
    ('cat', 'dog')
    """
    return Predictions.concatenate(stream(paths, columns, kind))


def stream(
    paths: Paths,
    columns: Columns = USUAL,
    kind: Kind | None = None,
    *,
    rows: int | None = None,
) -> Iterator[Predictions]:
    """The predictions of ``paths`` in chunks of at most ``rows`` rows (about 2 million scores).

    Shards are checked against each other before the first chunk: kind, label names and classes
    must agree. A chunk in which every row is labelled −100 has no rows, and counts them.
    """
    if rows is not None and rows < 1:
        raise InputError(f"rows must be at least 1, got {rows}.")
    sources, layouts = _open(paths, columns, kind)
    return _chunks(sources, layouts, _agree(sources, layouts), rows)


def count_rows(paths: Paths, columns: Columns = USUAL, kind: Kind | None = None) -> int | None:
    """The number of examples, ignored ones included, where files tell it without being read."""
    sources, layouts = _open(paths, columns, kind)
    total = 0
    for source, layout in zip(sources, layouts, strict=True):
        rows = source.length(layout.label)
        if rows is None:
            return None
        total += rows * _size(source.columns[layout.label])
    return total


def open_source(path: Path) -> Source:
    """One file, opened far enough to know its columns."""
    return _SOURCES[suffix(path)](path)


def _open(paths: Paths, columns: Columns, kind: Kind | None) -> tuple[list[Source], list[Layout]]:
    sources = [open_source(path) for path in expand(paths)]
    return sources, [find_layout(source, columns, kind) for source in sources]


def _size(shape: Shape) -> int:
    return prod(width or 64 for width in shape or ())  # 64: a guess, where a file does not tell.


def _agree(sources: list[Source], layouts: list[Layout]) -> tuple[str, ...] | None:
    """Check that the shards hold the same kind of scores; the label names that they share."""
    first, names, named = layouts[0], None, sources[0]
    for source, found in zip(sources, layouts, strict=True):
        if found.kind != first.kind:
            raise InputError(
                f"{source.path} holds {found.kind}, but {sources[0].path} {first.kind}; "
                "say which to use (--kind), or read them apart."
            )
        if names is None and found.label_names is not None:
            names, named = found.label_names, source
        elif found.label_names not in (None, names):
            raise InputError(
                f"{source.path} has other label names than {named.path}: "
                f"{_difference(found.label_names or (), names or ())}."
            )
    return names


def _difference(these: tuple[str, ...], those: tuple[str, ...]) -> str:
    if len(these) != len(those):
        return f"{len(these)} against {len(those)}"
    k = next(k for k, (a, b) in enumerate(zip(these, those, strict=True)) if a != b)
    return f"class {k} is '{these[k]}' against '{those[k]}'"


def _chunks(
    sources: list[Source], layouts: list[Layout], names: tuple[str, ...] | None, rows: int | None
) -> Iterator[Predictions]:
    kept = ignored = classes = first = 0
    for source, layout in zip(sources, layouts, strict=True):
        width = len(layout.scores) * _size(source.columns[layout.scores[0]])
        for block in source.blocks(rows or max(1, _CHUNK // width), layout):
            chunk = assemble(source.path, block, layout, names, first)
            classes = classes or chunk.classes
            if chunk.classes != classes:
                raise InputError(
                    f"{source.path} has {chunk.classes} classes from {block.unit} "
                    f"{block.numbers[0]} on, but {sources[0].path} {classes}."
                )
            kept, ignored = kept + len(chunk), ignored + chunk.ignored
            first += len(block.numbers)
            yield chunk
    if not kept:
        where = sources[0].path if len(sources) == 1 else f"{len(sources)} files"
        raise InputError(
            f"{where}: all {ignored} rows are labelled −100, which marks rows to ignore."
            if ignored
            else f"{where}: no rows."
        )
