"""Child processes that never outlive their parent, and end without a message."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

__all__ = ["ChildPool", "child_pool"]

P = ParamSpec("P")
T = TypeVar("T")


class ChildPool:
    """Processes that work for this one; :func:`child_pool` makes it."""

    def __init__(self, executor: ProcessPoolExecutor) -> None:
        self._executor = executor

    def submit(self, work: Callable[P, T], *given: P.args, **named: P.kwargs) -> Future[T]:
        """Submit work to a process; a new one is started if all are busy."""
        with _interrupts_blocked():
            return self._executor.submit(work, *given, **named)


@contextmanager
def child_pool(size: int) -> Iterator[ChildPool]:
    """Open a pool of ``size`` processes; an interrupt ends it without waiting for them."""
    # Spawned: a fork of a process that has run torch may hang in its threads.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(size, mp_context=context, initializer=_follow_parent) as executor:
        try:
            yield ChildPool(executor)
        except BaseException as error:
            executor.shutdown(wait=False, cancel_futures=True)
            if not isinstance(error, Exception):
                for child in multiprocessing.active_children():
                    child.terminate()
            raise


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block Ctrl-C, which reaches every process of a terminal: a starting child would print it."""
    if not hasattr(signal, "pthread_sigmask"):  # On Windows.
        yield
        return
    before: Any = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _follow_parent() -> None:
    """End with the parent, however it ends, and by Ctrl-C without a traceback.

    A worker whose parent was killed would keep its memory and wait for work forever.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    threading.Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
