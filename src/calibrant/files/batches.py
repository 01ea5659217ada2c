"""Arrow record batches that an engine or a remote file gives, as a source of predictions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from calibrant.files.format import Block, Layout
from calibrant.files.parquet import ParquetSource

__all__ = ["BatchSource", "Place"]


class Place(str):
    """Where rows come from, as messages name it; an address such as s3://… is no path."""

    __slots__ = ()

    @property
    def suffix(self) -> str:
        """The end of the name, as that of a path."""
        return "." + self.rpartition(".")[2] if "." in self else ""


class BatchSource(ParquetSource):
    """Record batches of one schema."""

    def __init__(self, place: str, schema: Any) -> None:
        self._take_schema(Place(place), schema)
        self._rows, self.schema = 0, schema

    def length(self, column: str) -> int | None:  # noqa: ARG002 - the same for all
        """Return None: the batches are not known in advance."""
        return None

    def blocks_of(self, batches: Iterable[Any], layout: Layout, first: int = 0) -> Iterator[Block]:
        """Yield one block per batch; ``first`` is the number of the first row, for messages."""
        for batch in batches:
            yield self._block(batch, range(first, first + batch.num_rows), layout)
            first += batch.num_rows

    def _batches(
        self, rows: int, layout: Layout, names: Sequence[str], coded: Sequence[str] = ()
    ) -> Iterator[tuple[Block, Any]]:
        raise NotImplementedError("The rows of a BatchSource come from blocks_of.")
