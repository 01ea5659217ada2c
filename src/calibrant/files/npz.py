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
from calibrant.files.source import Block, Shape
from calibrant.predictions import Predictions

__all__ = ["NpzSource", "write_npz"]

_NAMES = "label_names"


class NpzSource:
    """One npz file: the arrays are the columns, their first axis the rows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with _damaged(path), zipfile.ZipFile(path) as archive:
            headers = {key: self._header(archive, key) for key in _keys(archive)}
            names = np.load(path, allow_pickle=False)[_NAMES] if _NAMES in headers else None
        headers.pop(_NAMES, None)
        self.label_names = None if names is None else tuple(map(str, names.tolist()))
        self.columns: Mapping[str, Shape] = {
            key: tuple(shape[1:]) for key, (shape, _, _) in headers.items() if shape
        }
        self._lengths = {key: shape[0] for key, (shape, _, _) in headers.items() if shape}
        self.rows: int | None = max(self._lengths.values(), default=0)

    def _header(self, archive: zipfile.ZipFile, key: str) -> tuple[tuple[int, ...], bool, Any]:
        with archive.open(f"{key}.npy") as member:
            shape, fortran, dtype = _read_header(member)
        if dtype.hasobject:
            raise InputError(
                f"{self.path}: '{key}' holds Python objects, which are never loaded; "
                "save it as an array of numbers or text."
            )
        return shape, fortran, dtype

    def blocks(self, rows: int, names: Sequence[str]) -> Iterator[Block]:
        """Slices of the arrays ``names`` along their first axis."""
        lengths = {name: self._lengths[name] for name in names}
        total = next(iter(lengths.values()))
        if len(set(lengths.values())) > 1:
            told = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise InputError(f"{self.path}: arrays of different length: {told}.")
        with _damaged(self.path), ExitStack() as stack:
            archive = stack.enter_context(zipfile.ZipFile(self.path))
            readers = {n: _Rows(stack.enter_context(archive.open(f"{n}.npy"))) for n in names}
            for start in range(0, total, rows):
                stop = min(start + rows, total)
                columns = {name: reader.take(stop - start) for name, reader in readers.items()}
                yield Block(columns, range(start, stop))


class _Rows:
    """Reads an array of a zip archive row by row."""

    def __init__(self, member: IO[bytes]) -> None:
        self._member = member
        shape, fortran, self._dtype = _read_header(member)
        self._shape = shape[1:]
        # Columns come first in Fortran order, so that no row is whole before the end.
        self._whole = _fortran(member, shape, self._dtype) if fortran else None

    def take(self, rows: int) -> np.ndarray:
        """The next ``rows`` rows."""
        if self._whole is not None:
            part, self._whole = self._whole[:rows], self._whole[rows:]
            return part
        shape = (rows, *self._shape)
        size = int(np.prod(shape)) * self._dtype.itemsize
        data = self._member.read(size)
        if len(data) < size:
            raise EOFError("an array ends early")
        return np.frombuffer(data, self._dtype).reshape(shape)


def _fortran(member: IO[bytes], shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    return np.frombuffer(member.read(), dtype).reshape(shape, order="F")


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
        reason = str(error).splitlines()[0].rstrip(".") if str(error) else "it ends early"
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
