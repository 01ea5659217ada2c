"""safetensors: a JSON header and raw numbers, simple enough to be read with NumPy alone.

The layout: eight bytes with the length of the header, the header (for each tensor its type, shape
and place; texts under ``__metadata__``), then the values.
See https://huggingface.co/docs/safetensors.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from calibrant.arrays import text_array
from calibrant.claims import Claims
from calibrant.errors import InputError
from calibrant.files.arrays import ArraySource, Reader, read_pieces
from calibrant.files.format import Format, NewScores, joined, other_columns
from calibrant.inputs import door, parse_json
from calibrant.predictions import Predictions

__all__ = ["SAFETENSORS"]

_TYPES = {
    **{f"F{bits}": f"<f{bits // 8}" for bits in (16, 32, 64)},
    **{f"I{bits}": f"<i{bits // 8}" for bits in (8, 16, 32, 64)},
    **{f"U{bits}": f"<u{bits // 8}" for bits in (8, 16, 32, 64)},
    "BOOL": "?",
    "BF16": "<u2",  # NumPy has no bfloat16: its bits are the upper half of a float32.
}
_NAMES = "label_names"
_TEXTS = "texts"  # JSON object: for each tensor of numbers that encode texts, the texts
_DAMAGE = "not a whole safetensors file"
_LONGEST_HEADER = 100_000_000  # as in the format's own library


@dataclass(frozen=True)
class _Tensor:
    """The header's entry of one tensor."""

    kind: str
    shape: tuple[int, ...]
    begin: int  # in the file
    size: int  # in bytes
    texts: list[str] | None


class SafetensorsSource(ArraySource):
    """One safetensors file: the tensors are the columns, their first axis the rows."""

    def __init__(self, path: Path) -> None:
        with door(path, _DAMAGE), path.open("rb") as file:
            self.tensors, self.metadata = _read_header(file, path.stat().st_size)
            names = _names(self.metadata[_NAMES]) if _NAMES in self.metadata else None
        super().__init__(path, {key: t.shape for key, t in self.tensors.items()}, names)

    @contextmanager
    def open(self, names: Sequence[str]) -> Iterator[Mapping[str, Reader]]:
        """Open the file for reading some tensors."""
        with door(self.path, _DAMAGE), self.path.open("rb") as file:
            yield {key: _Rows(file, key, self.tensors[key]) for key in names}

    def copy(self, target: Path, new: NewScores, arrays: Mapping[str, np.ndarray]) -> None:
        """Copy the other tensors; all are put in the order of their widths."""
        contents = {
            name: _Content(tensor.kind, tensor.shape, tensor.size, self._pieces(tensor))
            for name, tensor in self.tensors.items()
            if new.keeps(name) and name not in new.renamed
        }
        contents |= {name: _of_array(target, name, array) for name, array in arrays.items()}
        _write_tensors(target, contents, self.metadata)

    def _pieces(self, tensor: _Tensor) -> Iterator[bytes]:
        with door(self.path, _DAMAGE), self.path.open("rb") as source:
            source.seek(tensor.begin)
            yield from read_pieces(source, tensor.size)


class _Rows:
    """Reads a tensor row by row."""

    def __init__(self, file: IO[bytes], name: str, tensor: _Tensor) -> None:
        self._file, self._name, self._tensor, self._place = file, name, tensor, tensor.begin

    def take(self, rows: int) -> np.ndarray:
        """Return the next ``rows`` rows."""
        shape = (rows, *self._tensor.shape[1:])
        self._file.seek(self._place)
        values = np.fromfile(self._file, _TYPES[self._tensor.kind], prod(shape))
        self._place = self._file.tell()
        values = values.reshape(shape)
        if self._tensor.kind == "BF16":
            return (values.astype(np.uint32) << 16).view(np.float32)
        return values if self._tensor.texts is None else self._as_texts(values, self._tensor.texts)

    def _as_texts(self, values: np.ndarray, texts: list[str]) -> np.ndarray:
        if values.dtype.kind not in "iu" or ((values < 0) | (values >= len(texts))).any():
            raise ValueError(f"'{self._name}' has numbers without a text")
        return np.asarray(text_array(texts)[values])


def _read_header(file: IO[bytes], size: int) -> tuple[dict[str, _Tensor], dict[str, str]]:
    """Return the tensors by name and the metadata; damage raises a ValueError."""
    length = int.from_bytes(file.read(8), "little")
    if length > min(_LONGEST_HEADER, size - 8):
        raise ValueError("it ends before its header does, or has none")
    header = parse_json(file.read(length))
    metadata = header.pop("__metadata__", None) or {}
    texts = parse_json(metadata.get(_TEXTS, "{}"))
    return {
        name: _tensor(name, entry, 8 + length, size, _texts(texts.get(name)))
        for name, entry in header.items()
    }, metadata


def _tensor(
    name: str, entry: Mapping[str, Any], start: int, size: int, texts: list[str] | None
) -> _Tensor:
    kind, shape, (begin, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
    if kind not in _TYPES:
        raise ValueError(f"'{name}' has the type {kind}, which is not read")
    if any(type(number) is not int or number < 0 for number in (*shape, begin, end)):
        raise ValueError(f"the header gives '{name}' a shape or place that is not a whole number")
    if end - begin != _width(kind) * prod(shape):
        raise ValueError(f"the header gives '{name}' the wrong size")
    if start + end > size:
        raise ValueError(f"it ends before '{name}' does")
    return _Tensor(kind, shape, start + begin, end - begin, texts)


def _names(text: str) -> tuple[str, ...]:
    names = _texts(parse_json(text))
    if names is None:
        raise ValueError(f"'{_NAMES}' is not a list of names")
    return tuple(names)


def _texts(value: Any) -> list[str] | None:
    if value is not None and not (isinstance(value, list) and all(type(t) is str for t in value)):
        raise ValueError("a list of texts in its header holds something else")
    return value


def _write(parts: Iterator[Predictions | Claims], path: Path) -> None:
    """Write ``logits`` or ``probabilities``, ``labels`` and the rest; texts as numbers."""
    whole = joined(parts)
    arrays: dict[str, np.ndarray] = {}
    texts = {}
    if isinstance(whole, Predictions):
        arrays = {whole.kind: whole.scores, "labels": whole.labels}
    for name, column in other_columns(whole).items():
        if column.dtype.kind in "OU":
            known, arrays[name] = np.unique(column, return_inverse=True)
            texts[name] = known.tolist()
        else:
            arrays[name] = column
    metadata = {_TEXTS: json.dumps(texts)} if texts else {}
    if isinstance(whole, Predictions) and whole.label_names is not None:
        metadata[_NAMES] = json.dumps(whole.label_names)
    contents = {name: _of_array(path, name, array) for name, array in arrays.items()}
    _write_tensors(path, contents, metadata)


class _Content(NamedTuple):
    """A tensor to write, its bytes in pieces."""

    kind: str
    shape: tuple[int, ...]
    size: int
    pieces: Iterable[Any]


def _of_array(path: Path, name: str, array: np.ndarray) -> _Content:
    little = array.dtype.newbyteorder("<")
    kinds = {np.dtype(code): kind for kind, code in _TYPES.items() if kind != "BF16"}
    if little not in kinds:
        raise InputError(f"{path}: safetensors cannot hold '{name}' of type {array.dtype}.")
    piece = np.ascontiguousarray(array, dtype=little)
    return _Content(kinds[little], array.shape, array.nbytes, [piece])


def _write_tensors(
    path: Path, contents: Mapping[str, _Content], metadata: Mapping[str, str]
) -> None:
    # Wide types first, so that each tensor begins at a multiple of its size, as required.
    ordered = dict(sorted(contents.items(), key=lambda item: -_width(item[1].kind)))
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    end = 0
    for name, content in ordered.items():
        begin, end = end, end + content.size
        place = {"data_offsets": (begin, end)}
        header[name] = {"dtype": content.kind, "shape": content.shape, **place}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for content in ordered.values():
            file.writelines(content.pieces)


def _width(kind: str) -> int:
    return np.dtype(_TYPES[kind]).itemsize


SAFETENSORS = Format((".safetensors",), SafetensorsSource, _write)
