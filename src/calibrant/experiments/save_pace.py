"""When a checkpoint is due: after an epoch, unless writing would take a large share of the time."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["SavePace"]

_APART = 19  # Times as long as the last one took to write: a twentieth of the time is for writing.


class SavePace:
    """Counts the time since the last checkpoint and how long that took.

    One is due at the end of an epoch, once it is :data:`_APART` times as long ago as writing took,
    so that a hundred short epochs do not write a hundred checkpoints; and anywhere after ``every``
    seconds.
    """

    def __init__(self, every: float, now: Callable[[], float] = time.monotonic) -> None:
        self.every, self.now = every, now
        self.saved, self.took = now(), 0.0

    def is_due(self, ends: bool) -> bool:
        """Whether to write one now, at the end of an epoch or inside of one."""
        since = self.now() - self.saved
        return since >= (min(self.every, _APART * self.took) if ends else self.every)

    def wrote(self, began: float) -> None:
        """Say that one is complete whose writing began at that time."""
        self.saved = self.now()
        self.took = self.saved - began
