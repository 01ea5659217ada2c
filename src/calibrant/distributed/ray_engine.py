"""Ray: parts as tasks, and datasets of Ray Data, whose results are joined in a tree of tasks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.auditing.collect import MOST_ROWS
from calibrant.distributed.engine import FAN_IN, Caught, CaughtJoin, Join, Rows, Task, raised
from calibrant.distributed.parquet_parts import SCORES, row_width
from calibrant.distributed.ray_cluster import task_error
from calibrant.errors import CalibrantError
from calibrant.extras import require
from calibrant.metrics.blocks import hash_values
from calibrant.progress import Progress

__all__ = ["RayDataset", "RayEngine"]

_RETRIES = 5  # Of a task whose worker or node is lost.
_WAITING = 4  # Tasks per processor that are submitted ahead.
_RESULT = "result"
_SMALL = 1 << 16  # Bytes: a result of fewer may be an error.


class RayEngine:
    """Runs parts as tasks of the cluster that this process is connected to.

    Ray runs a task again if its worker or node is lost, and computes a result again that was lost
    with its node: each counts once.
    """

    def __init__(self) -> None:
        self.ray = require("ray", "ray", "An engine of Ray")

    @property
    def workers(self) -> int:
        """The processors of the cluster."""
        return max(1, int(self.ray.cluster_resources().get("CPU", 1)))

    def map(self, task: Callable[[Any], bytes], parts: Sequence[Any]) -> Iterator[bytes]:
        """Yield the results as they arrive, with a bounded number of tasks at a time."""
        for result in self._results(task, parts):
            yield self._get(result)

    def reduce(self, task: Callable[[Any], bytes], join: Join, parts: Sequence[Any]) -> bytes:
        """Join results by tasks while others are still computed; they do not pass through here."""
        return self.tree(self._results(task, parts), join)

    def tree(self, results: Iterator[Any], join: Join) -> bytes:
        """Return the joined results of references, ``FAN_IN`` at a time."""
        joined = self._remote(lambda *given: _joined(join, given))
        waiting: deque[Any] = deque()
        for result in results:
            waiting.append(result)
            if len(waiting) >= 2 * FAN_IN:
                waiting.append(joined.remote(*(waiting.popleft() for _ in range(FAN_IN))))
        while len(waiting) > 1:
            few = [waiting.popleft() for _ in range(min(FAN_IN, len(waiting)))]
            waiting.append(joined.remote(*few))
        if not waiting:
            return b""
        found = _states(self._get(waiting[0]))
        return join(found) if len(found) > 1 else (found or [b""])[0]

    def _results(self, task: Callable[[Any], bytes], parts: Sequence[Any]) -> Iterator[Any]:
        """Yield references to results that are ready."""
        # All nodes read, each from its own connection to the storage.
        run = self._remote(task).options(scheduling_strategy="SPREAD")
        left, running = deque(parts), list[Any]()
        most = _WAITING * self.workers
        with Progress(len(parts), "parts") as progress:
            while left or running:
                while left and len(running) < most:
                    running.append(run.remote(left.popleft()))
                done, running = self.ray.wait(running)
                for result in done:
                    self._check(result)
                    yield result
                    progress.advance()

    def _check(self, result: Any) -> None:
        """Raise the error of a task at once, without fetching what a good one returned."""
        size = self.ray.experimental.get_object_locations([result])[result].get("object_size")
        if size is None or size < 1 << 20:  # Exceptions are small.
            self._get(result)

    def _remote(self, function: Callable[..., Any]) -> Any:
        return self.ray.remote(max_retries=_RETRIES, num_cpus=1)(_named(function))

    def _get(self, result: Any) -> Any:
        exceptions = self.ray.exceptions
        try:
            return self.ray.get(result)
        except exceptions.RayTaskError as error:
            raise task_error(error) from None
        except exceptions.RayError as error:
            raise CalibrantError(
                f"The workers of a part were lost {_RETRIES + 1} times ({type(error).__name__}), "
                "perhaps because memory ran out: smaller row groups need less."
            ) from None


class RayDataset:
    """A ``ray.data.Dataset``, read block by block where its blocks are."""

    def __init__(self, dataset: Any) -> None:
        self.dataset, self.engine = dataset, RayEngine()

    def schema(self) -> Any:
        """Return the Arrow schema."""
        arrow = require("pyarrow", "files", "Ray Data")
        found = self.dataset.schema()
        base = getattr(found, "base_schema", found)
        if isinstance(base, arrow.Schema):
            return base
        return arrow.schema(list(zip(found.names, found.types, strict=True)))

    def count(self) -> int:
        """Return the number of rows."""
        return int(self.dataset.count())

    def map(self, task: Task) -> Iterator[bytes]:
        """Yield the result of each block once."""
        for reference in self._references(task):
            yield from map(raised, _states(self.engine._get(reference)))

    def reduce(self, task: Task, join: Join) -> bytes:
        """Return the joined results of all blocks."""
        return raised(self.engine.tree(self._references(task), CaughtJoin(join)))

    def with_batches(self, change: Callable[[Any], Any], schema: Any) -> Any:
        """Return the dataset whose record batches are changed, with the Arrow ``schema``."""
        options = {"change": change, "empty": schema.empty_table()}
        return self.dataset.map_batches(
            _changed, batch_format="pyarrow", batch_size=None, fn_kwargs=options
        )

    def _references(self, task: Task) -> Iterator[Any]:
        """Yield references to results; an error ends this as soon as it arrives."""
        # Small blocks share a task: its result is several megabytes for few rows as for many.
        rows = max(1, SCORES // row_width(self.schema()))
        # Errors travel as bytes: Ray Data would wrap an exception in a page of its own.
        options = {"batch_format": "pyarrow", "batch_size": rows}
        mapped = self.dataset.map_batches(_of_batch, fn_kwargs={"task": Caught(task)}, **options)
        with _in_order(mapped):
            for bundle in mapped.iter_internal_ref_bundles():
                for reference, about in zip(bundle.block_refs, bundle.metadata, strict=True):
                    if (about.size_bytes or 0) < _SMALL:
                        list(map(raised, _states(self.engine._get(reference))))
                    yield reference


@contextmanager
def _in_order(dataset: Any) -> Iterator[None]:
    """Let small blocks be put together in their order, so that each pass sees the same batches.

    The numbers of rows come from their batches, and folds come from these numbers.
    """
    options = dataset.context.execution_options
    before, options.preserve_order = options.preserve_order, True
    try:
        yield
    finally:
        options.preserve_order = before


@dataclass(frozen=True)
class HeldPart:
    """Rows that the engine already holds.

    Ray does not number its blocks, so ``start`` comes from their content: the same in each run.
    """

    table: Any
    start: int

    @property
    def place(self) -> str:
        """The block, by its first row's number."""
        return "a block of the dataset"

    def tables(self, columns: Sequence[str] | None, rows: int) -> Iterator[Rows]:
        """Yield batches of at most ``rows`` rows."""
        table = self.table if columns is None else self._selected(columns)
        first = 0
        for batch in table.to_batches(max_chunksize=rows):
            yield Rows(batch, self.place, first)
            first += batch.num_rows

    def _selected(self, columns: Sequence[str]) -> Any:
        """Leave missing columns out: the reader says which."""
        return self.table.select([name for name in columns if name in self.table.column_names])


def _of_batch(table: Any, task: Task) -> dict[str, list[bytes]]:
    """Run the task on a block; an empty block has no result."""
    if not table.num_rows:
        return {_RESULT: []}
    return {_RESULT: [task(HeldPart(table, _start(table)))]}


def _changed(table: Any, change: Callable[[Any], Any], empty: Any) -> Any:
    """Change the batches of a block."""
    arrow = require("pyarrow", "files", "Ray Data")
    changed = [change(batch) for batch in table.combine_chunks().to_batches()]
    return arrow.concat_tables([empty, *changed])


def _start(table: Any) -> int:
    """Return a number that differs from block to block: a hash of the rows in it."""
    text = [repr(table.slice(row, 1).to_pylist()) for row in (0, table.num_rows - 1)]
    mark = hash_values(np.array(["|".join([*text, str(table.num_rows)])]))
    return int(mark[0] >> 2) // MOST_ROWS * MOST_ROWS


def _states(found: Any) -> list[bytes]:
    """Return the results of one reference: of a task, or of a block of Ray Data."""
    if isinstance(found, bytes):
        return [found] if found else []
    if not getattr(found, "num_rows", len(found)):  # Then there is not even a column.
        return []
    column = found[_RESULT]
    return [bytes(r) for r in (column.to_pylist() if hasattr(column, "to_pylist") else column)]


def _joined(join: Join, given: Sequence[Any]) -> bytes:
    """Return the joined results of some references; b"" if there is none."""
    found = [result for each in given for result in _states(each)]
    return join(found) if found else b""


def _named(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a plain function, which Ray can decorate; a frozen dataclass is none."""

    def run_part(*arguments: Any) -> Any:
        return function(*arguments)

    return run_part
