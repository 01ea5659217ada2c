"""npz and safetensors again with other scores: the bytes of all other arrays are copied."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Collection, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.files.npz import opened_npz
from calibrant.files.safetensors import Tensor, read_header
from calibrant.files.source import Layout
from calibrant.inputs import door

__all__ = ["rewrite_npz", "rewrite_safetensors"]

_PIECE = 1 << 20


def rewrite_npz(
    path: Path,
    target: Path,
    layout: Layout,
    names: tuple[str, ...],
    parts: Iterator[np.ndarray],
) -> None:
    """The members of the archive, packed as they were."""
    new, renamed = _arrays(layout, names, parts), dict(zip(layout.scores, names, strict=True))
    replaced = set(names)
    with zipfile.ZipFile(target, "w") as archive:
        for member, pieces in groupby(_members(path, renamed), itemgetter(0)):
            key = member.filename.removesuffix(".npy")
            if key not in renamed and key in replaced:
                continue
            place = zipfile.ZipInfo(f"{renamed.get(key, key)}.npy", member.date_time)
            place.compress_type = member.compress_type
            with archive.open(place, "w", force_zip64=True) as file:
                if key in renamed:
                    np.lib.format.write_array(file, new[renamed[key]], allow_pickle=False)
                for _, piece in pieces:
                    file.write(piece)


def _members(path: Path, passed: Collection[str]) -> Iterator[tuple[zipfile.ZipInfo, bytes]]:
    """The bytes of each member, piece by piece; of those ``passed`` none."""
    with opened_npz(path) as archive:
        for member in archive.infolist():
            yield member, b""
            if member.filename.removesuffix(".npy") not in passed:
                with archive.open(member) as file:
                    while piece := file.read(_PIECE):
                        yield member, piece


def rewrite_safetensors(
    path: Path,
    target: Path,
    layout: Layout,
    names: tuple[str, ...],
    parts: Iterator[np.ndarray],
) -> None:
    """The tensors in the order of their widths, so that each begins where the format asks."""
    new = _arrays(layout, names, parts)
    with door(path, "not a whole safetensors file"), path.open("rb") as source:
        old, metadata = read_header(source, path.stat().st_size)
    replaced = {*layout.scores, *names}
    kept = {name: tensor for name, tensor in old.items() if name not in replaced}
    header, order = _header(kept, new)
    text = json.dumps(({"__metadata__": metadata} if metadata else {}) | header).encode()
    text += b" " * (-len(text) % 8)
    with target.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            if name in new:
                new[name].tofile(file)
            else:
                file.writelines(_tensor_bytes(path, kept[name]))


def _tensor_bytes(path: Path, tensor: Tensor) -> Iterator[bytes]:
    with door(path, "not a whole safetensors file"), path.open("rb") as source:
        source.seek(tensor.begin)
        left = tensor.size
        while left > 0:
            piece = source.read(min(_PIECE, left))
            if not piece:
                raise EOFError("a tensor ends early")
            yield piece
            left -= len(piece)


def _arrays(
    layout: Layout, names: tuple[str, ...], parts: Iterator[np.ndarray]
) -> dict[str, np.ndarray]:
    whole = np.concatenate(list(parts))
    columns = whole.T if layout.per_class else [whole]
    return {name: np.ascontiguousarray(c) for name, c in zip(names, columns, strict=True)}


def _header(
    kept: Mapping[str, Tensor], new: Mapping[str, np.ndarray]
) -> tuple[dict[str, Any], list[str]]:
    entries: dict[str, tuple[str, tuple[int, ...], int]] = {}
    for name, tensor in kept.items():
        entries[name] = (tensor.kind, tensor.shape, tensor.size)
    for name, array in new.items():
        entries[name] = (f"F{8 * array.itemsize}", array.shape, array.nbytes)
    # The digits of F64, I32, BF16, … are bits; BOOL has one byte.
    width = {n: int("".join(filter(str.isdigit, kind)) or 8) for n, (kind, _, _) in entries.items()}
    order = sorted(entries, key=lambda name: -width[name])
    header, end = {}, 0
    for name in order:
        kind, shape, size = entries[name]
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    return header, order
