"""npz and safetensors again with other scores: the bytes of all other arrays are copied."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from calibrant.files.source import Layout

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
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w") as archive:
        for member in old.infolist():
            key = member.filename.removesuffix(".npy")
            if key not in renamed and key in names:
                continue
            place = zipfile.ZipInfo(f"{renamed.get(key, key)}.npy", member.date_time)
            place.compress_type = member.compress_type
            with archive.open(place, "w", force_zip64=True) as file:
                if key in renamed:
                    np.lib.format.write_array(file, new[renamed[key]], allow_pickle=False)
                else:
                    with old.open(member) as source:
                        shutil.copyfileobj(source, file, _PIECE)


def rewrite_safetensors(
    path: Path,
    target: Path,
    layout: Layout,
    names: tuple[str, ...],
    parts: Iterator[np.ndarray],
) -> None:
    """The tensors in the order of their widths, so that each begins where the format asks."""
    new = _arrays(layout, names, parts)
    with path.open("rb") as source, target.open("wb") as file:
        length = int.from_bytes(source.read(8), "little")
        old = json.loads(source.read(length))
        metadata = old.pop("__metadata__", None)
        kept = {k: v for k, v in old.items() if k not in layout.scores and k not in names}
        header, order = _header(kept, new)
        text = json.dumps(({"__metadata__": metadata} if metadata else {}) | header).encode()
        text += b" " * (-len(text) % 8)
        file.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            if name in new:
                new[name].tofile(file)
            else:
                begin, end = old[name]["data_offsets"]
                source.seek(8 + length + begin)
                _copy(source, file, end - begin)


def _arrays(
    layout: Layout, names: tuple[str, ...], parts: Iterator[np.ndarray]
) -> dict[str, np.ndarray]:
    whole = np.concatenate(list(parts))
    columns = whole.T if layout.per_class else [whole]
    return {name: np.ascontiguousarray(c) for name, c in zip(names, columns, strict=True)}


def _header(
    kept: Mapping[str, Any], new: Mapping[str, np.ndarray]
) -> tuple[dict[str, Any], list[str]]:
    entries: dict[str, tuple[str, list[int], int]] = {}
    for name, entry in kept.items():
        begin, end = entry["data_offsets"]
        entries[name] = (entry["dtype"], entry["shape"], end - begin)
    for name, array in new.items():
        entries[name] = (f"F{8 * array.itemsize}", list(array.shape), array.nbytes)
    # The digits of F64, I32, BF16, … are bits; BOOL has one byte.
    width = {n: int("".join(filter(str.isdigit, kind)) or 8) for n, (kind, _, _) in entries.items()}
    order = sorted(entries, key=lambda name: -width[name])
    header, end = {}, 0
    for name in order:
        kind, shape, size = entries[name]
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    return header, order


def _copy(source: IO[bytes], target: IO[bytes], size: int) -> None:
    while size > 0:
        piece = source.read(min(_PIECE, size))
        target.write(piece)
        size -= len(piece)
        if not piece:
            raise EOFError("a tensor ends early")
