"""npz: arrays in a zip archive, read piece by piece whether compressed or not, never unpickled."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import groupby
from math import prod
from operator import itemgetter
from pathlib import Path
from typing import IO, Any

import numpy as np

from calibrant.claims import Claims
from calibrant.errors import InputError
from calibrant.files.arrays import ArraySource, Reader, read_pieces
from calibrant.files.format import Format, NewScores, joined, other_columns
from calibrant.inputs import check_unpacked, door, first_repeated
from calibrant.predictions import Predictions

__all__ = ["NPZ", "ArrayRows", "array_names", "array_shape", "opened_npz", "read_array"]

_NAMES = "label_names"
_LONGEST_END = (1 << 16) + 128  # Bytes of the end of an archive, with the longest comment.
_ENCRYPTED = 0x1  # The bit in the flags of a member.
_SAVE_PLAIN = "save it without compression (numpy.savez)"


class NpzSource(ArraySource):
    """One npz file: the arrays are the columns, their first axis the rows."""

    def __init__(self, path: Path) -> None:
        with opened_npz(path) as archive:
            shapes = {key: _shape(path, archive, key) for key in array_names(archive)}
            named = shapes.pop(_NAMES, None) is not None
            super().__init__(path, shapes, _label_names(path, archive) if named else None)

    @contextmanager
    def open(self, names: Sequence[str]) -> Iterator[Mapping[str, Reader]]:
        """Open members of the archive; their checksums are compared at the end."""
        with opened_npz(self.path) as archive, ExitStack() as stack:
            rows = {
                key: ArrayRows(stack.enter_context(archive.open(f"{key}.npy"))) for key in names
            }
            yield rows
            for key, reader in rows.items():
                reader.finish(key)

    def copy(self, target: Path, new: NewScores, arrays: Mapping[str, np.ndarray]) -> None:
        """Copy the members of the archive, packed as they were."""
        with zipfile.ZipFile(target, "w") as archive:
            for member, pieces in groupby(_members(self.path, new), itemgetter(0)):
                name = new.renamed.get(_array_name(member))
                place = zipfile.ZipInfo(
                    f"{name}.npy" if name else member.filename, member.date_time
                )
                place.compress_type = member.compress_type
                with archive.open(place, "w", force_zip64=True) as file:
                    if name:
                        np.lib.format.write_array(file, arrays[name], allow_pickle=False)
                    for _, piece in pieces:
                        file.write(piece)


def _members(path: Path, new: NewScores) -> Iterator[tuple[zipfile.ZipInfo, bytes]]:
    """Yield the bytes of each member that is kept, piece by piece; none of the scores."""
    with opened_npz(path) as archive:
        for member in archive.infolist():
            name = _array_name(member)
            if new.keeps(name):
                yield member, b""
            if new.keeps(name) and name not in new.renamed:
                with archive.open(member) as file:
                    yield from ((member, piece) for piece in read_pieces(file))


def _array_name(member: zipfile.ZipInfo) -> str:
    """Return the name of an array; that of any other member is empty."""
    return member.filename[: -len(".npy")] if member.filename.endswith(".npy") else ""


@contextmanager
def opened_npz(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open the archive; an error while it is open becomes one line."""
    with door(path, "not a complete npz file"), zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if (twice := first_repeated(member.filename for member in members)) is not None:
            raise InputError(f"{path}: two arrays are called '{twice}'.")
        if any(member.flag_bits & _ENCRYPTED for member in members):
            raise InputError(f"{path}: it is encrypted; save it without a password.")
        if len(members) != _counted(path):
            raise InputError(f"{path}: not a complete npz file (its list of arrays is damaged).")
        check_unpacked(path, sum(member.file_size for member in members), _SAVE_PLAIN)
        for member in members:  # Compares the name in the list with that at the member itself.
            archive.open(member).close()
        yield archive


def _counted(path: Path) -> int:
    """Return the number of members that the archive's end states; zipfile does not compare it."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _LONGEST_END))
        end = file.read()
    at = end.rindex(b"PK\x05\x06")
    wide = end.rfind(b"PK\x06\x06", 0, at)  # An archive of many or large members has this too.
    start, size = (at + 10, 2) if wide < 0 else (wide + 32, 8)
    return int.from_bytes(end[start : start + size], "little")


class ArrayRows:
    """Reads an array in NumPy's own format row by row, from a zip archive or a file."""

    def __init__(self, member: IO[bytes]) -> None:
        self._member = member
        shape, fortran, self._dtype = _read_header(member)
        self._shape = shape[1:]
        self._whole: np.ndarray | None = None
        if fortran:  # Column after column: no row is whole before the end.
            self._whole = np.frombuffer(member.read(), self._dtype).reshape(shape, order="F")

    def take(self, rows: int) -> np.ndarray:
        """Return the next ``rows`` rows."""
        if self._whole is not None:
            part, self._whole = self._whole[:rows], self._whole[rows:]
            return np.ascontiguousarray(part)
        shape = (rows, *self._shape)
        size = prod(shape) * self._dtype.itemsize
        data = self._member.read(size)
        if len(data) < size:
            raise EOFError("an array ends early")
        return np.frombuffer(data, self._dtype).reshape(shape)

    def finish(self, key: str) -> None:
        """Read to the end, where the archive's checksum is compared."""
        if self._member.read(1):
            raise ValueError(f"'{key}' has data after its last row")


def read_array(archive: zipfile.ZipFile, key: str) -> np.ndarray:
    """Read one array as a whole; Python objects are never loaded."""
    with archive.open(f"{key}.npy") as member:
        return np.asarray(np.lib.format.read_array(member, allow_pickle=False))


def _label_names(path: Path, archive: zipfile.ZipFile) -> tuple[str, ...]:
    found = read_array(archive, _NAMES)
    if found.ndim != 1 or found.dtype.kind not in "USiu":
        raise InputError(f"{path}: '{_NAMES}' must be a list of names, got {found.dtype}.")
    return tuple(n.decode() if isinstance(n, bytes) else str(n) for n in found.tolist())


def _shape(path: Path, archive: zipfile.ZipFile, key: str) -> tuple[int, ...]:
    member = archive.getinfo(f"{key}.npy")
    with archive.open(member) as file:
        return array_shape(path, key, file, member.file_size)


def array_shape(path: Path, key: str, file: IO[bytes], size: int) -> tuple[int, ...]:
    """Return the shape of the array that a file of ``size`` bytes holds, and check both."""
    shape, _, dtype = _read_header(file)
    if dtype.hasobject:
        raise InputError(
            f"{path}: '{key}' holds Python objects, which are never loaded; "
            "save it as an array of numbers or text."
        )
    if prod(shape) * dtype.itemsize != size - file.tell():
        raise ValueError(f"the header gives '{key}' the wrong size")
    return shape


def _read_header(member: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(member)
    read = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    shape, fortran, dtype = read(member)
    if any(length < 0 for length in shape):
        raise ValueError(f"an array has the shape {shape}")
    return shape, fortran, dtype


def array_names(archive: zipfile.ZipFile) -> list[str]:
    """Return the names of the arrays of an archive, without its other members."""
    return [name[: -len(".npy")] for name in archive.namelist() if name.endswith(".npy")]


def _write(parts: Iterator[Predictions | Claims], path: Path) -> None:
    """Write ``logits`` or ``probabilities``, ``labels``, ``label_names``, each group and signal."""
    whole = joined(parts)
    arrays: dict[str, Any] = {}
    if isinstance(whole, Predictions):
        arrays = {whole.kind: whole.scores, "labels": whole.labels}
    if isinstance(whole, Predictions) and whole.label_names is not None:
        arrays[_NAMES] = np.array(whole.label_names, dtype=str)
    for name, column in other_columns(whole).items():
        arrays[name] = column.astype(str) if column.dtype == object else column
    with path.open("wb") as file:
        np.savez(file, **arrays)


NPZ = Format((".npz",), NpzSource, _write, shards=True)
