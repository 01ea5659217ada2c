"""States as bytes, to send them between processes and machines.

    CLBR | version u16 | CRC-32 u32 | length u32 | JSON | arrays

All numbers are little-endian. The JSON names the kind of state, its settings, and each array with
its type and shape; the arrays follow in this order. The checksum covers everything after itself.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from calibrant.errors import InputError

__all__ = ["check_complete", "pack_state", "unpack_state"]

_MAGIC = b"CLBR"
_VERSION = 1
_HEAD = struct.Struct("<4sHI")
_LENGTH = struct.Struct("<I")
# What states hold; nothing else is read.
_TYPES = ("<i8", "<i2", "<f8", "<f4", "<f2", "<u8", "<u2", "|u1", "|b1")


def pack_state(kind: str, settings: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return a state as bytes; ``settings`` is what JSON can hold.

    >>> unpack_state("demo", pack_state("demo", {"bins": 15}, {"count": np.array([1, 2])}))
    ({'bins': 15}, {'count': array([1, 2])})
    """
    plain = {name: _little_endian(array) for name, array in arrays.items()}
    listed = [[name, array.dtype.str, array.shape] for name, array in plain.items()]
    text = json.dumps({"kind": kind, "settings": dict(settings), "arrays": listed}).encode()
    parts = [_LENGTH.pack(len(text)), text, *(array.tobytes() for array in plain.values())]
    body = b"".join(parts)
    return _HEAD.pack(_MAGIC, _VERSION, zlib.crc32(body)) + body


def unpack_state(kind: str, data: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the settings and arrays of a state of this kind.

    Raises an :class:`~calibrant.errors.InputError` if the bytes are damaged, from another version
    or of another kind of state. :func:`check_complete` finds what is missing.
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise InputError(
            f"from_bytes expects a {kind} as to_bytes wrote it, got a {type(data).__name__}."
        )
    body = _checked(kind, bytes(data))
    try:
        return _content(kind, body)
    except InputError:
        raise
    except (ValueError, TypeError, struct.error) as error:
        raise InputError(f"from_bytes: the {kind} is not as to_bytes writes it: {error}.") from None


def json_object(kind: str, text: str) -> dict[str, Any]:
    """Return the object of one line of JSON, as a ``to_json`` writes it."""
    try:
        content = json.loads(text)
    except (TypeError, ValueError) as error:
        raise InputError(f"from_json expects a {kind} as to_json wrote it: {error}.") from None
    if not isinstance(content, dict):
        raise InputError(
            f"from_json expects a {kind} as to_json wrote it, got a {type(content).__name__}."
        )
    return content


def json_column(kind: str, name: str, column: Any, dtype: Any) -> np.ndarray:
    """Return a list of numbers of such an object as an array."""
    try:
        return np.asarray(column, dtype)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"from_json: {name} of the {kind} must be a list of numbers.") from None


def check_complete(
    kind: str, needed: Iterable[str], found: Iterable[str], where: str = "from_bytes"
) -> None:
    """Raise an InputError unless everything that a state needs was found, and nothing else."""
    needed, found = set(needed), set(found)
    if missing := sorted(needed - found):
        raise InputError(f"{where}: the {kind} lacks {', '.join(missing)}.")
    if unknown := sorted(found - needed):
        raise InputError(f"{where}: the {kind} has an unknown {', '.join(unknown)}.")


def _content(kind: str, body: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    (length,) = _LENGTH.unpack_from(body)
    content = json.loads(body[_LENGTH.size : _LENGTH.size + length])
    check_complete(kind, ("kind", "settings", "arrays"), content)
    if content["kind"] != kind:
        raise InputError(f"from_bytes expects a {kind}, got a {content['kind']}.")
    arrays, start = {}, _LENGTH.size + length
    for name, dtype, shape in content["arrays"]:
        if dtype not in _TYPES:
            raise InputError(f"from_bytes: the {kind} holds an array of unknown type '{dtype}'.")
        count = int(np.prod(shape, dtype=np.int64))
        found = np.frombuffer(body, dtype, count, start)
        arrays[name] = found.reshape(shape).astype(found.dtype.newbyteorder("="))
        start += found.nbytes
    return dict(content["settings"]), arrays


def _checked(kind: str, data: bytes) -> bytes:
    """Return what follows the checksum, which must hold."""
    if len(data) < _HEAD.size + _LENGTH.size or data[:4] != _MAGIC:
        raise InputError(f"from_bytes expects a {kind} as to_bytes wrote it, got other bytes.")
    _, version, expected = _HEAD.unpack_from(data)
    if version != _VERSION:
        wrote = "a later version of calibrant wrote it" if version > _VERSION else "there is none"
        raise InputError(
            f"from_bytes reads format {_VERSION} of a {kind}, got format {version}: {wrote}."
        )
    body = data[_HEAD.size :]
    if zlib.crc32(body) != expected:
        raise InputError(f"from_bytes: the bytes of the {kind} are damaged (wrong checksum).")
    return body


def _little_endian(array: np.ndarray) -> np.ndarray:
    # Unlike ascontiguousarray, which makes a single number an array of one.
    return np.asarray(array, array.dtype.newbyteorder("<"), order="C")
