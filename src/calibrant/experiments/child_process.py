"""Child processes that never outlive their parent."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading

__all__ = ["follow_parent"]


def follow_parent() -> None:
    """The initializer of a pool: end with the parent, however it ends.

    A worker whose parent was killed would wait for work for ever, with all its memory. And Ctrl-C
    reaches every process of a terminal: a worker ends without a traceback.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
