"""Score held-out data in evaluation mode, as in deployment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

__all__ = ["evaluating"]


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Switch to evaluation mode (no dropout) inside the block, then restore each part's own mode.

    >>> model = nn.Sequential(nn.Dropout(), nn.BatchNorm1d(2).eval())
    >>> with evaluating(model):
    ...     print(model.training)
    False
    >>> model[0].training, model[1].training
    (True, False)
    """
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for part, training in modes.items():
            part.training = training
