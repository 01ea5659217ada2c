"""Decide when to use the compiled kernels, and spread rows over threads.

Numba takes part of a second to import and its kernels some seconds to compile, once per machine,
so small inputs never load it: it is loaded once this process has computed enough scores that
NumPy needs about that time for them. The environment variable ``CALIBRANT_KERNELS`` decides
otherwise: ``numpy`` never loads it, ``numba`` always uses it and raises an error if it is missing.
"""

from __future__ import annotations

import os
import warnings
from _thread import start_new_thread
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from threading import Lock, Semaphore
from types import ModuleType
from typing import TypeVar

import numpy as np

from calibrant.arrays import Array, is_tensor, to_numpy
from calibrant.errors import InputError
from calibrant.extras import require
from calibrant.metrics.bins import Bins
from calibrant.predictions import Predictions

__all__ = [
    "claim_kernels",
    "in_host_memory",
    "kernel_edges",
    "kernels",
    "kernels_for",
    "plain",
    "rows_per_task",
    "spread",
    "whole_numbers",
]

Result = TypeVar("Result")

_WORTH_LOADING = 1 << 23  # Scores; NumPy takes about 0.2 s for them.
_WORTH_CALLING = 1 << 12  # Below, NumPy is done before the threads have started.
_PER_CLAIM = 2  # NumPy needs for a claim about the time of so many scores.
_PARTS = 32  # Tasks, so that threads end at about the same time,
_SMALLEST, _LARGEST = 1 << 19, 1 << 22  # of that many scores: one half to a few milliseconds.

_seen = 0  # Scores that this process has seen without the kernels.


def kernels(scores: int) -> ModuleType | None:
    """Return the compiled kernels if they pay off for that many scores, else None."""
    global _seen
    choice = os.environ.get("CALIBRANT_KERNELS", "auto")
    if choice not in ("auto", "numpy", "numba"):
        raise InputError(f"CALIBRANT_KERNELS must be auto, numpy or numba, got {choice!r}.")
    if choice == "numba":
        require("numba", "fast", "CALIBRANT_KERNELS=numba")
    elif choice == "numpy" or scores < _WORTH_CALLING:
        return None
    elif _seen < _WORTH_LOADING:
        _seen += scores
        if _seen < _WORTH_LOADING:
            return None
    return _load() if find_spec("numba") is not None else None


def kernels_for(predictions: Predictions) -> ModuleType | None:
    """Return the kernels for predictions; also None if these are not in host memory."""
    if not in_host_memory(predictions.scores):
        return None
    return kernels(len(predictions) * predictions.classes)


def claim_kernels(rows: int, *, again: bool = False) -> ModuleType | None:
    """Return the compiled passes over claims if they pay off for that many rows, else None.

    A second pass over the same rows (``again``) uses kernels that are loaded, and loads none.
    """
    forced = os.environ.get("CALIBRANT_KERNELS") == "numba"
    if again and not forced and _seen < _WORTH_LOADING:
        return None
    if kernels(_PER_CLAIM * rows) is None:
        return None
    return import_module("calibrant.metrics.kernels.claims")


def in_host_memory(array: Array) -> bool:
    """Whether an array is not a tensor on another device."""
    return not is_tensor(array) or array.device.type == "cpu"


@cache
def _load() -> ModuleType | None:
    try:
        return import_module("calibrant.metrics.kernels.rows")
    except ImportError as error:  # For instance a NumPy newer than this numba knows.
        warnings.warn(f"numba does not load, so metrics use NumPy: {error}", stacklevel=5)
        return None


def spread(
    task: Callable[[int, int], Result],
    rows: int,
    columns: int,
    cells: int = 0,
    smallest: int | None = None,
    largest: int | None = None,
) -> list[Result]:
    """Return the results of task(start, stop) over consecutive chunks of rows, in order.

    The chunks depend on the sizes alone, so sums of results are the same to the last bit for any
    number of threads. ``cells`` is the size of one result: chunks are long enough to outweigh it,
    and otherwise of ``smallest`` to ``largest`` scores.
    """
    step = rows_per_task(rows, columns, cells, smallest, largest)
    starts = range(0, rows, step)
    return _in_order(lambda start: task(start, min(start + step, rows)), starts)


def rows_per_task(
    rows: int,
    columns: int,
    cells: int = 0,
    smallest: int | None = None,
    largest: int | None = None,
) -> int:
    """Return the number of rows that :func:`spread` gives to one task."""
    chunk = min(max(rows * columns // _PARTS, smallest or _SMALLEST), largest or _LARGEST)
    return max(1, max(chunk, 16 * cells) // columns)


def _in_order(task: Callable[[int], Result], starts: Sequence[int]) -> list[Result]:
    """Return the results of task(start) for each start, computed on all processors.

    Threads are started without waiting for them, unlike ``threading``: if the processors are
    busy, waiting takes longer than the work. A late thread finds nothing left to do, and
    nobody waits for it.
    """
    results: dict[int, Result] = {}
    errors: list[BaseException] = []
    taken: list[int] = []
    waiting, turn, finished = iter(starts), Lock(), Semaphore(0)

    def work() -> None:
        """Take chunk after chunk: one thread per chunk would cost a tenth of the work."""
        while True:
            with turn:
                start = None if errors else next(waiting, None)
                if start is None:
                    return
                taken.append(start)
            try:
                results[start] = task(start)
            except BaseException as error:
                errors.append(error)
            finished.release()

    for _ in range(min(_processors(), len(starts)) - 1):
        start_new_thread(work, ())
    work()
    for _ in taken:  # Complete: this thread found no chunk left.
        finished.acquire()
    if errors:
        raise errors[0]
    return [results[start] for start in starts]


def kernel_edges(bins: Bins, dtype: np.dtype) -> tuple[np.ndarray, bool, float, float]:
    """Return the edges, whether bins are closed at the right, and two shortcuts for the kernel.

    Farther than the margin from a whole number, value · count gives the bin without a look at the
    edges; up to the last number, a value is in the first bin.
    """
    edges, right = bins.edges(dtype).astype(np.float64), bins.closed == "right"
    margin = 4 * bins.count * float(np.finfo(dtype).eps)
    return plain(edges), right, margin, float(edges[1] if right else np.nextafter(edges[1], 0))


def plain(array: Array, dtype: type | None = None) -> np.ndarray:
    """Return an array for the kernels: ``dtype``, or else float32 or float64; row after row.

    It is always read-only, because numba compiles for read-only and writable arrays separately.
    """
    given = array if type(array) is np.ndarray else to_numpy(array)
    dtype = dtype or (np.float32 if given.itemsize <= 4 else np.float64)
    if given.dtype != dtype or not (given.flags.c_contiguous and given.flags.aligned):
        given = np.require(to_numpy(given), dtype, ["C_CONTIGUOUS", "ALIGNED"])
    view = given.view()
    view.flags.writeable = False
    return view


def whole_numbers(column: np.ndarray | None) -> np.ndarray:
    """Return whole numbers for the kernels as int32 or int64, and no numbers where there are none.

    A column of int32 is read as it is: half the memory, and no copy.
    """
    if column is None:
        return plain(np.empty(0), np.int64)
    return plain(column, np.int32 if column.dtype == np.int32 else np.int64)


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
