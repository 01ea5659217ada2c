"""What a training run tells while it runs: a bar for the steps, a line per epoch, TensorBoard."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from calibrant.errors import printable
from calibrant.experiments.history import Epoch
from calibrant.extras import require
from calibrant.progress import Progress

__all__ = ["Telling", "check_tensorboard", "telling"]


class Telling:
    """Lines go to ``say``; the bar to standard error, where that is a terminal, if ``bar``."""

    def __init__(
        self, epochs: int, say: Callable[[str], None], board: Any = None, bar: bool = True
    ) -> None:
        self.epochs, self.line, self.board, self._shows = epochs, say, board, bar
        self._bar: Progress | None = None

    def step(self, number: int, epoch_steps: int) -> None:
        """A step is queued: the bar of its epoch moves on."""
        if not self._shows:
            return
        if self._bar is None:
            epoch = (number - 1) // epoch_steps + 1
            self._bar = Progress(epoch_steps, f"steps of epoch {epoch}/{self.epochs}")
            self._bar.advance((number - 1) % epoch_steps)
        self._bar.advance()

    def epoch(self, epoch: Epoch) -> None:
        """An epoch has ended: its numbers take the place of the bar."""
        self.wipe()
        self.line(f"Epoch {epoch.epoch:>{len(str(self.epochs))}}/{self.epochs}   {epoch}")
        if self.board is not None:
            for name, value in epoch.row().items():
                if name not in ("epoch", "step", "seconds"):
                    self.board.add_scalar(name, value, epoch.step)

    def wipe(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.__exit__(None, None, None)
            self._bar = None


@contextlib.contextmanager
def telling(
    epochs: int,
    folder: Path,
    *,
    tensorboard: bool = False,
    say: Callable[[str], None] | None = None,
    shown: bool = True,
) -> Iterator[Telling]:
    """Tell the course of a run, if ``shown``; TensorBoard, where asked for, gets it too."""
    say = say or (lambda text: print(printable(text), file=sys.stderr))
    board = _board(folder / "tensorboard") if tensorboard and shown else None
    tell = Telling(epochs, say if shown else lambda _: None, board, bar=shown)
    try:
        yield tell
    finally:
        tell.wipe()
        if board is not None:
            board.close()


def check_tensorboard() -> None:
    """Raise an error that names the extra where TensorBoard is not installed."""
    require("tensorboard", "tensorboard", "Writing to TensorBoard")


def _board(folder: Path) -> Any:
    check_tensorboard()
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder))
