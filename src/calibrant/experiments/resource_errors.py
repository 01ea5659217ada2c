"""Explain in one line what to do if memory or the disk runs out during training."""

from __future__ import annotations

import contextlib
import errno
import shutil
from collections.abc import Iterator
from pathlib import Path

import torch

from calibrant.errors import CalibrantError, InputError
from calibrant.experiments.recipe import Recipe

__all__ = ["explain_resource_errors"]

_NO_MEMORY = ("out of memory", "not enough memory", "can't allocate memory")
_NO_SPACE = ("No space left on device", "Disk quota exceeded")
_FULL = 1 << 16  # Bytes that a disk still has when nothing of use fits any more.


@contextlib.contextmanager
def explain_resource_errors(recipe: Recipe, folder: Path) -> Iterator[None]:
    """Raise :class:`InputError` if the work inside runs out of memory or disk space."""
    try:
        yield
    except CalibrantError:
        raise
    except Exception as error:
        if _is_memory(error):
            raise InputError(
                f"Out of memory with a batch of {recipe.batch} in {recipe.accumulate} part(s): run "
                f"it in more parts (--accumulate {2 * recipe.accumulate}), which gives the same "
                "result, or take a smaller --batch."
            ) from None
        if _is_space(error, folder):
            raise InputError(
                f"{folder} cannot be written: the disk is full. Make room, and the same command "
                "goes on from the last checkpoint."
            ) from None
        raise


def _is_memory(error: BaseException) -> bool:
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    message = str(error).lower()
    return isinstance(error, RuntimeError) and any(words in message for words in _NO_MEMORY)


def _is_space(error: BaseException | None, folder: Path) -> bool:
    """Return whether the disk is full, by an error in the chain or by its free space."""
    if folder.is_dir() and shutil.disk_usage(folder).free < _FULL:
        return True
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        if any(words in str(error) for words in _NO_SPACE):  # As other languages' writers say it.
            return True
        error = error.__cause__ or error.__context__
    return False
