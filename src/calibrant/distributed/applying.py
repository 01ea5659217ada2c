"""Apply a calibrator to a table that an engine holds: a dataset of Ray, a frame of Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calibrant.calibrators import Calibrator
from calibrant.distributed.engines import open_dataset
from calibrant.errors import InputError
from calibrant.extras import require
from calibrant.files.batches import BatchSource
from calibrant.files.columns import DEFAULT_COLUMNS, Columns
from calibrant.files.format import FileKind, NewScores
from calibrant.files.writing import new_scores

__all__ = ["apply", "check_rows_suffice"]


def apply(
    calibrator: Calibrator,
    table: Any,
    *,
    columns: Columns = DEFAULT_COLUMNS,
    kind: FileKind | None = None,
) -> Any:
    """Return a ``ray.data.Dataset`` or Spark DataFrame with calibrated probabilities.

    Like ``calibrant apply``, it keeps all rows and all other columns. Nothing is computed until
    the result is read or written.
    """
    check_rows_suffice(calibrator, "apply it to files")
    dataset: Any = open_dataset(table).dataset
    if not hasattr(dataset, "with_batches"):
        raise InputError("Parquet files are copied by calibrant.distributed.apply_to_files.")
    change = _Change(calibrator, columns, kind, dataset.schema())
    return dataset.with_batches(change, change.schema())


def check_rows_suffice(calibrator: Calibrator, remedy: str) -> None:
    """Refuse a calibrator that reads more than the rows of a batch."""
    if calibrator.signals_:
        raise InputError(
            f"{calibrator.name} reads means over sentences, which batches of a table may cut: "
            f"{remedy}."
        )


@dataclass(frozen=True)
class _Change:
    """Replaces the scores of a record batch, on a worker."""

    calibrator: Calibrator
    columns: Columns
    kind: FileKind | None
    given: Any  # The Arrow schema of the table.

    def schema(self) -> Any:
        """Return the Arrow schema of the result: scores become doubles under their new names."""
        arrow = require("pyarrow", "files", "Applying a calibrator to a table")
        source, new = self._opened()
        fields = []
        for name in filter(new.keeps, source.columns):
            field = self.given.field(name)
            if name in new.renamed:
                single = source.columns[name] == ()
                kind = arrow.float64() if single else arrow.list_(arrow.float64())
                field = arrow.field(new.renamed[name], kind)
            fields.append(field)
        return arrow.schema(fields)

    def __call__(self, batch: Any) -> Any:
        """Return the batch as a table with new scores."""
        if not batch.num_rows:
            return self.schema().empty_table()
        source, new = self._opened()
        block = next(source.blocks_of([batch], new.layout))
        return source.rewritten(new.of(block, 0), batch, new).cast(self.schema())

    def _opened(self) -> tuple[BatchSource, NewScores]:
        source = BatchSource("table", self.given)
        transform, groups = self.calibrator.transform, self.calibrator.groups_
        return source, new_scores(source, transform, self.columns, self.kind, groups=groups)
