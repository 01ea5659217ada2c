"""One pass over many rows: compiled code where it pays, chunks of rows on all cores.

Large data are swept by compiled code where numba is installed (extra ``fast``); the environment
variable ``CALIBRANT_KERNELS=numpy`` or ``numba`` decides otherwise.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TypeVar

__all__ = ["WORTH_LOADING", "compiled", "in_order"]

Result = TypeVar("Result")

WORTH_LOADING = 1 << 23  # Scores that NumPy sweeps in the time that loading numba takes.
_WORTH_THREADS = 1 << 17  # Scores, from here on threads save time.


def compiled(name: str, scores: int) -> ModuleType | None:
    """Return the compiled module of calibrators ``name`` if it pays off for that many scores."""
    name = f"calibrant.calibrators.{name}"
    choice = os.environ.get("CALIBRANT_KERNELS", "auto")
    worth = choice == "numba" or scores >= WORTH_LOADING or name in sys.modules
    if choice == "numpy" or not worth or find_spec("numba") is None:
        return None
    return import_module(name)


def in_order(
    task: Callable[[slice], Result],
    chunks: Sequence[slice],
    scores: int,
    worth_threads: int | None = None,
) -> Iterator[Result]:
    """Yield the results of the chunks in their order, computed on all cores.

    Sums of them do not depend on the number of threads, because the chunks do not.
    """
    if scores < (worth_threads or _WORTH_THREADS) or len(chunks) < 2:
        yield from map(task, chunks)
        return
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(task, chunks)
