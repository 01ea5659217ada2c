"""Spark: parts as tasks of an RDD, DataFrames by ``mapInArrow``, results joined in a tree.

Spark computes the partitions of a lost executor again, and each result counts once. Errors travel
as bytes: Spark would run a task that raises three times more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from calibrant.distributed.engine import (
    FAN_IN,
    Caught,
    CaughtJoin,
    Join,
    LocalEngine,
    Rows,
    Task,
    raised,
)
from calibrant.distributed.spark_session import spark_errors
from calibrant.extras import require

__all__ = ["SparkDataset", "SparkEngine"]

_WAITING = 4  # Parts per processor that are computed ahead.
_TASKS = 4096  # Tasks of one job; more parts share a task.
_ROWS_OF_A_PARTITION = 1 << 40  # More than any partition has: rows of two never share a number.


class SparkEngine:
    """Runs parts as tasks of a Spark session."""

    def __init__(self, session: Any) -> None:
        self.context = session.sparkContext

    @property
    def workers(self) -> int:
        """The processors of the executors."""
        return int(self.context.defaultParallelism)

    def map(self, task: Callable[[Any], bytes], parts: Sequence[Any]) -> Iterator[bytes]:
        """Yield the results, those of a bounded number of parts at a time."""
        size = _WAITING * self.workers
        for start in range(0, len(parts), size):
            few = parts[start : start + size]
            with spark_errors():
                found = self.context.parallelize(few, len(few)).map(Caught(task)).collect()
            yield from map(raised, found)

    def reduce(self, task: Callable[[Any], bytes], join: Join, parts: Sequence[Any]) -> bytes:
        """Join the results of each task, then those of all tasks in a tree."""
        if not parts:
            return b""
        caught, joined = Caught(task), CaughtJoin(join)
        tasks = self.context.parallelize(parts, min(len(parts), _TASKS))
        return _tree(tasks.mapPartitions(lambda few: _joined(few, caught, joined)), joined)


def _joined(parts: Iterator[Any], task: Task, join: Join) -> Iterator[bytes]:
    some = list(parts)
    return iter([LocalEngine().reduce(task, join, some)] if some else [])


def _tree(results: Any, join: Join) -> bytes:
    """Return the results of an RDD, joined by about ``FAN_IN`` at a time on the executors."""
    if not (partitions := results.getNumPartitions()):
        return b""
    depth = max(2, math.ceil(math.log(partitions, FAN_IN)))
    with spark_errors():
        found = results.treeAggregate(
            b"",
            lambda one, other: join([one, other]) if one else other,
            lambda one, other: join([one, other]) if one and other else one or other,
            depth,
        )
    return raised(bytes(found))


class SparkDataset:
    """A Spark DataFrame, read partition by partition where it is."""

    def __init__(self, frame: Any) -> None:
        self.frame = frame

    def schema(self) -> Any:
        """Return the Arrow schema."""
        types = require("pyspark.sql.pandas.types", "spark", "A Spark DataFrame")
        with spark_errors():
            return types.to_arrow_schema(self.frame.schema)

    def count(self) -> int:
        """Return the number of rows."""
        with spark_errors():
            return int(self.frame.count())

    def map(self, task: Task) -> Iterator[bytes]:
        """Yield the result of each partition once."""
        with spark_errors():
            found = self._results(task).collect()
        return map(raised, found)

    def reduce(self, task: Task, join: Join) -> bytes:
        """Return the joined results of all partitions."""
        with spark_errors():
            return _tree(self._results(task), CaughtJoin(join))

    def with_batches(self, change: Callable[[Any], Any], schema: Any) -> Any:
        """Return the DataFrame whose record batches are changed, with the Arrow ``schema``."""
        types = require("pyspark.sql.pandas.types", "spark", "A Spark DataFrame")
        with spark_errors():
            return self.frame.mapInArrow(
                lambda batches: (made for b in batches for made in change(b).to_batches()),
                types.from_arrow_schema(schema),
            )

    def _results(self, task: Task) -> Any:
        caught = Caught(task)
        frame = self.frame.mapInArrow(lambda batches: _of_partition(batches, caught), "r binary")
        return frame.rdd.map(lambda row: bytes(row[0]))


def _of_partition(batches: Iterator[Any], task: Task) -> Iterator[Any]:
    """Run the task on a partition; one without rows has no result."""
    arrow = require("pyarrow", "spark", "Spark")
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is not None:
        from pyspark import TaskContext

        context: Any = TaskContext.get()
        result = task(StreamPart(chain([first], batches), context.partitionId()))
        yield arrow.RecordBatch.from_pydict({"r": arrow.array([result], arrow.binary())})


@dataclass(frozen=True)
class StreamPart:
    """The rows of a partition, which stream by once."""

    batches: Iterator[Any]
    number: int

    @property
    def place(self) -> str:
        """The partition by its number."""
        return f"partition {self.number}"

    @property
    def start(self) -> int:
        """The number of its first row: partitions do not know how many rows the others have."""
        return self.number * _ROWS_OF_A_PARTITION

    def tables(self, columns: Sequence[str] | None, rows: int) -> Iterator[Rows]:
        """Yield batches of at most ``rows`` rows; missing columns are left to the reader."""
        first = 0
        for batch in self.batches:
            names = batch.schema.names if columns is None else columns
            found = batch.select([name for name in names if name in batch.schema.names])
            for start in range(0, found.num_rows, rows):
                yield Rows(found.slice(start, rows), self.place, first + start)
            first += found.num_rows
