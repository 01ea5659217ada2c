"""What an engine offers: it runs a function over partitions and joins the results in a tree.

An adapter of an engine (Ray, Spark) is two short classes. Its :class:`Engine` takes a list of small
parts, such as row groups of files, and its :class:`Dataset` is a table that the engine already
holds. The rest of :mod:`calibrant.distributed` knows only these two protocols.

A task gets a :class:`Part` and returns bytes (``to_bytes`` of a state), and a join makes one
state of several. Both are pure functions that can be pickled, so an engine may run them anywhere
and again: when a worker is lost, its parts are computed once more, and each result counts once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

from calibrant.errors import CalibrantError, InputError

__all__ = [
    "FAN_IN",
    "Caught",
    "CaughtJoin",
    "Dataset",
    "Engine",
    "Join",
    "LocalEngine",
    "Part",
    "Parts",
    "Rows",
    "Task",
    "raised",
]

FAN_IN = 8  # Results that are joined at once; a tree of a million parts has seven levels.
_FAILED = b"FAIL"  # How the bytes of an error begin; those of a state begin with CLBR.

P = TypeVar("P", contravariant=True)


class Part(Protocol):
    """One partition of a table, as a worker sees it.

    >>> from tempfile import TemporaryDirectory
    >>> from calibrant import Predictions
    >>> from calibrant.distributed.engines import open_dataset
    >>> with TemporaryDirectory() as folder:
    ...     Predictions.from_logits([[2.0, 0.0]] * 4, [0, 0, 0, 1]).write(f"{folder}/day.parquet")
    ...     [part] = open_dataset(f"{folder}/day.parquet").dataset.parts
    ...     [rows.batch.num_rows for rows in part.tables(["label"], rows=3)]
    [3, 1]
    """

    @property
    def place(self) -> str:
        """What messages call it: a file with its row groups, or a partition's number."""
        ...

    @property
    def start(self) -> int:
        """The number of its first row, so that no two rows of the table share a number."""
        ...

    def tables(self, columns: Sequence[str] | None, rows: int) -> Iterator[Rows]:
        """Yield the rows, at most ``rows`` at a time, with these columns (None: all)."""
        ...


@dataclass(frozen=True)
class Rows:
    """Consecutive rows of a part: an Arrow record batch, and where it comes from.

    >>> import pyarrow
    >>> batch = pyarrow.record_batch({"label": [1, 0]})
    >>> rows = Rows(batch, place="day-1.parquet, row group 3", first=200_000)
    >>> rows.batch.num_rows, rows.place
    (2, 'day-1.parquet, row group 3')
    """

    batch: Any  # pyarrow.RecordBatch, with the metadata of its schema.
    place: str  # The file, or the partition.
    first: int = 0  # The number of the first row there.


Task: TypeAlias = Callable[[Part], bytes]
Join: TypeAlias = Callable[[Sequence[bytes]], bytes]


class Engine(Protocol):
    """Runs functions on many workers.

    A :class:`~calibrant.errors.CalibrantError` of a task is raised here as it is; :class:`Caught`
    and :func:`raised` help an engine that cannot carry exceptions.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> class Threads(LocalEngine):
    ...     def map(self, task, parts):
    ...         with ThreadPoolExecutor() as pool:
    ...             yield from pool.map(task, parts)
    >>> Threads().reduce(str.encode, b"".join, ["a", "b", "c"])
    b'abc'
    """

    @property
    def workers(self) -> int:
        """How many parts are computed at a time."""
        ...

    def map(self, task: Callable[[P], bytes], parts: Sequence[P]) -> Iterator[bytes]:
        """Yield the result of each part once, as soon as it is there, in any order."""
        ...

    def reduce(self, task: Callable[[P], bytes], join: Join, parts: Sequence[P]) -> bytes:
        """Return the results of all parts, joined in a tree on the workers."""
        ...


class Dataset(Protocol):
    """A table in partitions. It can be read again and again: a fit takes several passes.

    >>> from tempfile import TemporaryDirectory
    >>> from calibrant import Predictions
    >>> from calibrant.distributed.engines import open_dataset
    >>> with TemporaryDirectory() as folder:
    ...     Predictions.from_logits([[2.0, 0.0]] * 4, [0, 0, 0, 1]).write(f"{folder}/day.parquet")
    ...     dataset = open_dataset(f"{folder}/day.parquet").dataset
    ...     dataset.count(), dataset.schema().names
    (4, ['logits', 'label'])
    """

    def schema(self) -> Any:
        """Return its Arrow schema."""
        ...

    def count(self) -> int:
        """Return the number of rows."""
        ...

    def map(self, task: Task) -> Iterator[bytes]:
        """Yield the result of each partition once, in any order."""
        ...

    def reduce(self, task: Task, join: Join) -> bytes:
        """Return the results of all partitions, joined in a tree; b"" if there is none."""
        ...


class LocalEngine:
    """Runs everything in this process, one part after the other.

    >>> engine = LocalEngine()
    >>> list(engine.map(str.encode, ["a", "b", "c"]))
    [b'a', b'b', b'c']
    >>> engine.reduce(str.encode, b"+".join, ["a", "b", "c"])
    b'a+b+c'
    """

    workers = 1

    def map(self, task: Callable[[Any], bytes], parts: Sequence[Any]) -> Iterator[bytes]:
        """Yield the results in the order of the parts."""
        return map(task, parts)

    def reduce(self, task: Callable[[Any], bytes], join: Join, parts: Sequence[Any]) -> bytes:
        """Join the results; at most ``FAN_IN`` of each level wait at a time."""
        levels: list[list[bytes]] = []
        for result in self.map(task, parts):
            _push(levels, 0, result, join)
        waiting = [result for level in reversed(levels) for result in level]
        return join(waiting) if len(waiting) > 1 else (waiting or [b""])[0]


def _push(levels: list[list[bytes]], depth: int, result: bytes, join: Join) -> None:
    if depth == len(levels):
        levels.append([])
    levels[depth].append(result)
    if len(levels[depth]) == FAN_IN:
        joined, levels[depth] = join(levels[depth]), []
        _push(levels, depth + 1, joined, join)


class Parts:
    """A dataset of parts that workers read themselves, such as row groups of files.

    >>> from tempfile import TemporaryDirectory
    >>> from calibrant import Predictions
    >>> from calibrant.distributed.engines import open_dataset
    >>> with TemporaryDirectory() as folder:
    ...     Predictions.from_logits([[2.0, 0.0]] * 4, [0, 0, 0, 1]).write(f"{folder}/day.parquet")
    ...     dataset = open_dataset(f"{folder}/day.parquet").dataset
    ...     print([part.place.replace(folder, "FOLDER") for part in dataset.parts])
    ...     list(dataset.map(lambda part: b"seen"))
    ['FOLDER/day.parquet, row group 0']
    [b'seen']
    """

    def __init__(self, engine: Engine, parts: Sequence[Part], schema: Any, rows: int) -> None:
        self.engine, self.parts, self._schema, self._rows = engine, parts, schema, rows

    def schema(self) -> Any:
        """Return the Arrow schema."""
        return self._schema

    def count(self) -> int:
        """Return the number of rows."""
        return self._rows

    def map(self, task: Task) -> Iterator[bytes]:
        """Yield the result of each part once."""
        return self.engine.map(task, self.parts)

    def reduce(self, task: Task, join: Join) -> bytes:
        """Return the joined results of all parts."""
        return self.engine.reduce(task, join, self.parts)


@dataclass(frozen=True)
class Caught:
    """A task whose errors become bytes, for an engine that would wrap or repeat exceptions."""

    task: Task

    def __call__(self, part: Part) -> bytes:
        """Return the result, or the error."""
        try:
            return self.task(part)
        except CalibrantError as error:
            start = getattr(part, "start", 0)
            return _failed(start, error)


@dataclass(frozen=True)
class CaughtJoin:
    """A join of such results: of several errors, that of the first row remains."""

    join: Join

    def __call__(self, results: Sequence[bytes]) -> bytes:
        """Return the joined results, or an error."""
        failed = [result for result in results if result.startswith(_FAILED)]
        if failed:
            return min(failed, key=lambda result: _failure(result)[0])
        try:
            return self.join(results)
        except CalibrantError as error:
            return _failed(0, error)


def raised(result: bytes) -> bytes:
    """Return the result of a caught task or join; raise its error if it is one.

    >>> raised(CaughtJoin(b"".join)([b"a", b"b"]))
    b'ab'
    """
    if result.startswith(_FAILED):
        _, is_input, message = _failure(result)
        raise InputError(message) if is_input else CalibrantError(message)
    return result


def _failed(start: int, error: CalibrantError) -> bytes:
    # Whether the input is bad decides what becomes of an unfinished output.
    return _FAILED + json.dumps([start, isinstance(error, InputError), str(error)]).encode()


def _failure(result: bytes) -> tuple[int, bool, str]:
    start, is_input, message = json.loads(result[len(_FAILED) :])
    return int(start), bool(is_input), str(message)
