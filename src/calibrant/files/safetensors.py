"""safetensors: a JSON header and raw numbers, simple enough to be read with NumPy alone.

The layout: eight bytes with the length of the header, the header (for each tensor its type, shape
and place; texts under ``__metadata__``), then the values.
See https://huggingface.co/docs/safetensors.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np

from calibrant.arrays import text_array
from calibrant.errors import InputError
from calibrant.files.arrays import ArraySource, Reader
from calibrant.inputs import door, parse_json
from calibrant.predictions import Predictions

__all__ = ["Tensor", "read_header", "safetensors_source", "write_safetensors"]

_TYPES = {
    **{f"F{bits}": f"<f{bits // 8}" for bits in (16, 32, 64)},
    **{f"I{bits}": f"<i{bits // 8}" for bits in (8, 16, 32, 64)},
    **{f"U{bits}": f"<u{bits // 8}" for bits in (8, 16, 32, 64)},
    "BOOL": "?",
    "BF16": "<u2",  # NumPy has no bfloat16: its bits are the upper half of a float32.
}
_NAMES = "label_names"
_TEXTS = "texts"  # JSON object: for each tensor of numbers that stand for texts, the texts
_DAMAGE = "not a whole safetensors file"
_LONGEST_HEADER = 100_000_000  # as in the format's own library


@dataclass(frozen=True)
class Tensor:
    """What the header says of one tensor."""

    kind: str
    shape: tuple[int, ...]
    begin: int  # in the file
    size: int  # in bytes
    texts: list[str] | None


def safetensors_source(path: Path) -> ArraySource:
    """One safetensors file: the tensors are the columns, their first axis the rows."""
    with door(path, _DAMAGE), path.open("rb") as file:
        tensors, metadata = read_header(file, path.stat().st_size)
        names = _names(metadata[_NAMES]) if _NAMES in metadata else None

    @contextmanager
    def opened(keys: Sequence[str]) -> Iterator[Mapping[str, Reader]]:
        with door(path, _DAMAGE), path.open("rb") as file:
            yield {key: _Rows(file, key, tensors[key]) for key in keys}

    shapes = {key: tensor.shape for key, tensor in tensors.items()}
    return ArraySource(path, shapes, names, opened)


class _Rows:
    """Reads a tensor row by row."""

    def __init__(self, file: IO[bytes], name: str, tensor: Tensor) -> None:
        self._file, self._name, self._tensor, self._place = file, name, tensor, tensor.begin

    def take(self, rows: int) -> np.ndarray:
        """The next ``rows`` rows."""
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
            raise ValueError(f"'{self._name}' has numbers that stand for no text")
        return np.asarray(text_array(texts)[values])


def read_header(file: IO[bytes], size: int) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors by name, and the texts of the metadata; what is wrong is a ValueError."""
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
) -> Tensor:
    kind, shape, (begin, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
    if kind not in _TYPES:
        raise ValueError(f"'{name}' has the type {kind}, which is not read")
    if any(type(number) is not int or number < 0 for number in (*shape, begin, end)):
        raise ValueError(f"the header gives '{name}' a shape or place that is no whole number")
    if end - begin != np.dtype(_TYPES[kind]).itemsize * prod(shape):
        raise ValueError(f"the header gives '{name}' the wrong size")
    if start + end > size:
        raise ValueError(f"it ends before '{name}' does")
    return Tensor(kind, shape, start + begin, end - begin, texts)


def _names(text: str) -> tuple[str, ...]:
    names = _texts(parse_json(text))
    if names is None:
        raise ValueError(f"'{_NAMES}' is no list of names")
    return tuple(names)


def _texts(value: Any) -> list[str] | None:
    if value is not None and not (isinstance(value, list) and all(type(t) is str for t in value)):
        raise ValueError("a list of texts in its header holds something else")
    return value


def write_safetensors(parts: Iterator[Predictions], path: Path) -> None:
    """``logits`` or ``probabilities``, ``labels`` and groups; texts as numbers with a table."""
    whole = Predictions.concatenate(part.numpy() for part in parts)
    arrays, texts = {whole.kind: whole.scores, "labels": whole.labels}, {}
    for name, column in whole.groups.items():
        if column.dtype.kind in "OU":
            known, arrays[name] = np.unique(column, return_inverse=True)
            texts[name] = known.tolist()
        else:
            arrays[name] = column
    metadata = {_TEXTS: json.dumps(texts)} if texts else {}
    if whole.label_names is not None:
        metadata[_NAMES] = json.dumps(whole.label_names)
    _write(path, arrays, metadata)


def _write(path: Path, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> None:
    names = {np.dtype(code): name for name, code in _TYPES.items() if name != "BF16"}
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    end = 0
    # Wide types first, so that each tensor begins at a multiple of its size, as the format asks.
    order = sorted(arrays, key=lambda name: -arrays[name].dtype.itemsize)
    for name in order:
        array = arrays[name]
        kind = names.get(array.dtype.newbyteorder("<"))
        if kind is None:
            raise InputError(f"{path}: safetensors cannot hold '{name}' of type {array.dtype}.")
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": (begin, end)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            little = arrays[name].dtype.newbyteorder("<")
            np.ascontiguousarray(arrays[name], dtype=little).tofile(file)
