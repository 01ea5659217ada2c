"""npz: arrays in a zip archive, read piece by piece whether compressed or not, never unpickled."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from calibrant.errors import InputError
from calibrant.files.arrays import ArraySource, Reader
from calibrant.predictions import Predictions

__all__ = ["npz_source", "write_npz"]

_NAMES = "label_names"


def npz_source(path: Path) -> ArraySource:
    """One npz file: the arrays are the columns, their first axis the rows."""
    with _damaged(path), zipfile.ZipFile(path) as archive:
        shapes = {key: _shape(path, archive, key) for key in _keys(archive)}
        names = None
        if shapes.pop(_NAMES, None):
            with archive.open(f"{_NAMES}.npy") as member:
                found = np.lib.format.read_array(member, allow_pickle=False)
            names = tuple(str(name) for name in found.tolist())

    @contextmanager
    def opened(keys: Sequence[str]) -> Iterator[Mapping[str, Reader]]:
        with _damaged(path), ExitStack() as stack:
            archive = stack.enter_context(zipfile.ZipFile(path))
            yield {key: _Rows(stack.enter_context(archive.open(f"{key}.npy"))) for key in keys}

    return ArraySource(path, shapes, names, opened)


class _Rows:
    """Reads an array of a zip archive row by row."""

    def __init__(self, member: IO[bytes]) -> None:
        self._member = member
        shape, fortran, self._dtype = _read_header(member)
        self._shape = shape[1:]
        self._whole: np.ndarray | None = None
        if fortran:  # Column after column: no row is whole before the end.
            self._whole = np.frombuffer(member.read(), self._dtype).reshape(shape, order="F")

    def take(self, rows: int) -> np.ndarray:
        """The next ``rows`` rows."""
        if self._whole is not None:
            part, self._whole = self._whole[:rows], self._whole[rows:]
            return np.ascontiguousarray(part)
        shape = (rows, *self._shape)
        size = int(np.prod(shape)) * self._dtype.itemsize
        data = self._member.read(size)
        if len(data) < size:
            raise EOFError("an array ends early")
        return np.frombuffer(data, self._dtype).reshape(shape)


def _shape(path: Path, archive: zipfile.ZipFile, key: str) -> tuple[int, ...]:
    with archive.open(f"{key}.npy") as member:
        shape, _, dtype = _read_header(member)
    if dtype.hasobject:
        raise InputError(
            f"{path}: '{key}' holds Python objects, which are never loaded; "
            "save it as an array of numbers or text."
        )
    return shape


def _read_header(member: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(member)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(member)
    return np.lib.format.read_array_header_2_0(member)


def _keys(archive: zipfile.ZipFile) -> list[str]:
    return [name[: -len(".npy")] for name in archive.namelist() if name.endswith(".npy")]


@contextmanager
def _damaged(path: Path) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except PermissionError:
        raise InputError(f"{path}: no permission to read it.") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, OSError) as error:
        reason = (str(error).splitlines() or ["it ends early"])[0].rstrip(".")
        raise InputError(f"{path}: not a whole npz file ({reason}).") from None


def write_npz(parts: Iterator[Predictions], path: Path) -> None:
    """``logits`` or ``probabilities``, ``labels``, ``label_names`` and one array per group."""
    whole = Predictions.concatenate(part.numpy() for part in parts)
    arrays: dict[str, Any] = {whole.kind: whole.scores, "labels": whole.labels}
    if whole.label_names is not None:
        arrays[_NAMES] = np.array(whole.label_names, dtype=str)
    for name, column in whole.groups.items():
        arrays[name] = column.astype(str) if column.dtype == object else column
    with path.open("wb") as file:
        np.savez(file, **arrays)
