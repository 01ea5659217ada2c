"""From the rows of a part to predictions, on a worker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from calibrant.claims import Claims
from calibrant.distributed.engine import Dataset, Part, Rows
from calibrant.distributed.left_out import LeftOut
from calibrant.errors import InputError
from calibrant.files.batches import BatchSource
from calibrant.files.columns import DEFAULT_COLUMNS, Columns, find_layout
from calibrant.files.format import FileKind, Layout
from calibrant.files.reading import agree, assemble
from calibrant.predictions import Predictions

__all__ = ["ClassCount", "Reader", "reader_of"]

_CHUNK = 1 << 21  # Scores per chunk, as in files.stream.
_LEAST = 16


@dataclass(frozen=True)
class Reader:
    """Makes predictions of the rows of any part; ``layout`` is that of the whole table."""

    columns: Columns
    kind: FileKind | None
    layout: Layout
    names: tuple[str, ...] | None
    width: int

    def chunks(self, part: Part) -> Iterator[Predictions | Claims]:
        """Yield the predictions of a part, a chunk at a time."""
        rows, before, source = max(1, _CHUNK // max(_LEAST, self.width)), 0, None
        seen = ClassCount()
        for found in part.tables(self.layout.names, rows):
            if source is None or source.path != found.place or source.schema != found.batch.schema:
                source = self._source(found)
            for block in source.blocks_of([found.batch], self.layout, found.first):
                first = part.start + LeftOut.of(part).rows + before
                chunk = assemble(source.path, block, self.layout, self.names, first)
                seen = seen + ClassCount(chunk.classes, found.place)
                yield chunk
            before += found.batch.num_rows

    def _source(self, found: Rows) -> BatchSource:
        source = BatchSource(found.place, found.batch.schema)
        layout = find_layout(source, self.columns, self.kind)
        same = replace(layout, label_names=self.layout.label_names)
        if same != self.layout:
            raise InputError(
                f"{found.place}: its columns differ from those of the other partitions: "
                f"{', '.join(same.names)} ({same.kind}) against {', '.join(self.layout.names)} "
                f"({self.layout.kind})."
            )
        return source


@dataclass(frozen=True)
class ClassCount:
    """How many classes rows have, on which all must agree, and where they are."""

    classes: int = 0  # 0 where there are no rows.
    place: str = ""

    def __add__(self, other: ClassCount) -> ClassCount:
        """Return either; raise an error if they do not belong together."""
        if 0 not in (self.classes, other.classes) and self.classes != other.classes:
            raise InputError(
                f"Partitions differ in the number of classes: {self.classes} in {self.place}, "
                f"{other.classes} in {other.place}."
            )
        return self if self.classes else other


def reader_of(
    dataset: Dataset,
    columns: Columns = DEFAULT_COLUMNS,
    kind: FileKind | None = None,
    schemas: Sequence[tuple[str, Any]] = (),
) -> Reader:
    """Find the columns of a dataset; ``schemas`` are those of its files, which must agree."""
    named: Iterable[tuple[str, Any]] = schemas or [("dataset", dataset.schema())]
    sources = [BatchSource(place, schema) for place, schema in named]
    layouts = [find_layout(source, columns, kind) for source in sources]
    names = agree(list(sources), layouts)
    for source, layout in zip(sources, layouts, strict=True):
        if layout.names != layouts[0].names:
            raise InputError(
                f"{source.path}: its columns differ from those of {sources[0].path}: "
                f"{', '.join(layout.names)} against {', '.join(layouts[0].names)}."
            )
    first = layouts[0]
    shape = sources[0].columns[first.scores[0]] or ()
    width = len(first.scores) * (shape[0] or 64 if shape else 1)
    return Reader(columns, kind, replace(first, label_names=names), names, width)
