"""A file again with other scores: every other column, every row and their order stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

import numpy as np

from calibrant.errors import InputError
from calibrant.files.assemble import assemble
from calibrant.files.columns import USUAL, Columns, find_layout
from calibrant.files.paths import suffix
from calibrant.files.reading import open_source
from calibrant.files.rewriting_arrays import rewrite_npz, rewrite_safetensors
from calibrant.files.rewriting_parquet import rewrite_parquet
from calibrant.files.rewriting_text import rewrite_csv, rewrite_jsonl
from calibrant.files.source import Block, Layout, Source
from calibrant.outputs import new_file
from calibrant.predictions import Kind, Predictions

__all__ = ["rewrite"]

_CHUNK = 1 << 20  # Scores per chunk.
_NO_LABEL = "\0label"  # No column of a file has this name.

# Format → function of source, target, layout, new column names and the new scores by blocks.
_Rewriter = Callable[[Path, Path, Layout, tuple[str, ...], Iterator[np.ndarray]], None]
_REWRITERS: dict[str, _Rewriter] = {
    ".parquet": rewrite_parquet,
    ".npz": rewrite_npz,
    ".safetensors": rewrite_safetensors,
    ".csv": rewrite_csv,
    ".csv.gz": rewrite_csv,
    ".jsonl": rewrite_jsonl,
    ".jsonl.gz": rewrite_jsonl,
}


def rewrite(
    path: str | PathLike[str],
    target: str | PathLike[str],
    transform: Callable[[Predictions], Predictions],
    columns: Columns = USUAL,
    kind: Kind | None = None,
    *,
    groups: Sequence[str] = (),
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Write the file ``path`` to ``target`` with the probabilities that ``transform`` gives.

    All columns are kept, also those that calibrant cannot read, and all rows, also ignored ones;
    labels need not be there. Probabilities replace the probabilities that were read. Logits give
    way to probabilities, in columns called ``probabilities`` (or ``probabilities:NAME``, or
    ``probabilities_0``, …, after the pattern of the logits). The format stays.

    ``transform`` gets predictions chunk by chunk, with the columns ``groups``; their labels mean
    nothing. ``progress`` is told the number of rows of each chunk. npz and safetensors hold the new
    scores in memory, the others one chunk.
    """
    path, target = Path(path), Path(target)
    if _family(path) != _family(target):
        raise InputError(
            f"{target}: the format stays, so the name must end in {_family(path)} as {path} does."
        )
    source = open_source(path)
    layout = _layout(source, columns, kind, groups)
    parts = _Parts(source, layout, transform, progress)
    with new_file(target, overwrite=overwrite) as unfinished:
        _REWRITERS[suffix(target)](path, unfinished, layout, _new_names(layout), iter(parts))


def _family(path: Path) -> str:
    return suffix(path).removesuffix(".gz")


def _layout(source: Source, columns: Columns, kind: Kind | None, groups: Sequence[str]) -> Layout:
    """The scores and the wanted groups; the label is none of our business and may be missing."""
    some = next(iter(source.columns), None)  # A label column that is surely there.
    found = find_layout(source, replace(columns, label=some, groups=()), kind)
    for name in groups:
        if name not in source.columns:
            raise InputError(f"{source.path}: the map reads the column '{name}', which is missing.")
    return replace(found, label=found.scores[0], groups=tuple(groups))


def _new_names(layout: Layout) -> tuple[str, ...]:
    if layout.kind == "probabilities":
        return layout.scores
    if not layout.per_class:
        return ("probabilities",)
    for prefix in ("logits", "logit"):
        if all(name.startswith(prefix) for name in layout.scores):
            return tuple(f"probabilities{name.removeprefix(prefix)}" for name in layout.scores)
    if layout.label_names is None:
        return tuple(f"probabilities_{k}" for k in range(len(layout.scores)))
    return tuple(f"probabilities:{name}" for name in layout.label_names)


@dataclass(frozen=True, eq=False)
class _Parts:
    """The new scores by blocks, in the shape of those that were read."""

    source: Source
    layout: Layout
    transform: Callable[[Predictions], Predictions]
    progress: Callable[[int], None] | None

    def __iter__(self) -> Iterator[np.ndarray]:
        first, width = 0, len(self.layout.scores)
        for size in self.source.columns[self.layout.scores[0]] or ():
            width *= size or 64
        for block in self.source.blocks(max(1, _CHUNK // width), self.layout):
            yield self._mapped(block, first)
            first += len(block.numbers)
            if self.progress is not None:
                self.progress(len(block.numbers))
        if not first:
            raise InputError(f"{self.source.path}: no rows.")

    def _mapped(self, block: Block, first: int) -> np.ndarray:
        scores = block.columns[self.layout.scores[0]]
        shape = (len(scores), len(self.layout.scores)) if self.layout.per_class else scores.shape
        labels = np.zeros(shape[:-1] if len(shape) > 1 else shape, np.int64)
        labelled = Block({**block.columns, _NO_LABEL: labels}, block.numbers, block.unit)
        layout = replace(self.layout, label=_NO_LABEL)
        read = assemble(self.source.path, labelled, layout, layout.label_names, first)
        new = np.asarray(self.transform(read).numpy().probabilities())
        return new[:, 1] if len(shape) == 1 else new.reshape(shape)  # (n,): P(class 1) of two.
