"""Report a training run while it runs: a bar for the steps, a line per epoch, TensorBoard."""

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

__all__ = ["Reporter", "check_tensorboard", "reporting"]


class Reporter:
    """Write lines to ``say`` and, if ``bar``, a progress bar to a terminal's standard error."""

    def __init__(
        self, epochs: int, say: Callable[[str], None], board: Any = None, bar: bool = True
    ) -> None:
        self.epochs, self.line, self.board, self._shows = epochs, say, board, bar
        self._bar: Progress | None = None

    def step(self, number: int, epoch_steps: int) -> None:
        """Move the bar of the epoch on by a queued step."""
        if not self._shows:
            return
        if self._bar is None:
            epoch = (number - 1) // epoch_steps + 1
            self._bar = Progress(epoch_steps, f"steps of epoch {epoch}/{self.epochs}")
            self._bar.advance((number - 1) % epoch_steps)
        self._bar.advance()

    def epoch(self, epoch: Epoch) -> None:
        """Replace the bar by the numbers of an epoch that has ended."""
        self.wipe()
        self.line(f"Epoch {epoch.epoch:>{len(str(self.epochs))}}/{self.epochs}   {epoch}")
        if self.board is not None:
            for name, value in epoch.row().items():
                if name not in ("epoch", "step", "seconds"):
                    self.board.add_scalar(name, value, epoch.step)

    def wipe(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.__exit__(None, None, None)
            self._bar = None


@contextlib.contextmanager
def reporting(
    epochs: int,
    folder: Path,
    *,
    tensorboard: bool = False,
    say: Callable[[str], None] | None = None,
    shown: bool = True,
) -> Iterator[Reporter]:
    """Report the course of a run, if ``shown``, and write it for TensorBoard if requested."""
    say = say or (lambda text: print(printable(text), file=sys.stderr))
    board = _board(folder / "tensorboard") if tensorboard and shown else None
    reporter = Reporter(epochs, say if shown else lambda _: None, board, bar=shown)
    try:
        yield reporter
    finally:
        reporter.wipe()
        if board is not None:
            board.close()


def check_tensorboard() -> None:
    """Raise an error that names the extra where TensorBoard is not installed."""
    require("tensorboard", "tensorboard", "Writing to TensorBoard")


def _board(folder: Path) -> Any:
    check_tensorboard()
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder))
