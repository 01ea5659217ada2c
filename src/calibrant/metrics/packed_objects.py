"""States that are made of other states as bytes: a tree of objects of known classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from calibrant.errors import InputError
from calibrant.metrics.state_bytes import pack_state, unpack_state

__all__ = ["pack_object", "unpack_object"]


def pack_object(kind: str, value: Any, classes: Mapping[str, type]) -> bytes:
    """Return an object with a version and a checksum (:func:`pack_state`).

    It may hold numbers, text, arrays, lists, tuples, dicts, and objects of ``classes``. One that
    has ``to_bytes`` is written by it; of others every attribute is written.

    >>> unpack_object("demo", pack_object("demo", {1: (np.arange(2), None)}, {}), {})
    {1: (array([0, 1]), None)}
    """
    arrays: dict[str, np.ndarray] = {}
    return pack_state(kind, {"tree": _plain(value, arrays, classes)}, arrays)


def unpack_object(kind: str, data: bytes, classes: Mapping[str, type]) -> Any:
    """Return the object; no class but ``classes`` is made, and none of their code runs."""
    settings, arrays = unpack_state(kind, data)
    return _restored(settings["tree"], arrays, classes)


def _plain(value: Any, arrays: dict[str, np.ndarray], classes: Mapping[str, type]) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.ndarray):
        return _array(value, arrays)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, [_plain(v, arrays, classes) for v in value]]
    if isinstance(value, Mapping):
        pairs = [[_plain(k, arrays, classes), _plain(v, arrays, classes)] for k, v in value.items()]
        return ["dict", pairs]
    name = type(value).__name__
    if classes.get(name) is not type(value):
        raise TypeError(f"pack_object does not know {name}.")
    if hasattr(value, "to_bytes"):
        return [name, _array(np.frombuffer(value.to_bytes(), np.uint8), arrays)]
    return [name, _plain(vars(value), arrays, classes)]


def _array(value: np.ndarray, arrays: dict[str, np.ndarray]) -> Any:
    if value.dtype.kind in "UO":
        return ["text", value.tolist()]
    name = str(len(arrays))
    arrays[name] = value
    return ["array", name]


def _restored(tree: Any, arrays: Mapping[str, np.ndarray], classes: Mapping[str, type]) -> Any:
    if not isinstance(tree, list):
        return tree
    name, content = tree
    if name == "array":
        return arrays[content]
    if name == "text":
        return np.array(content)
    if name in ("list", "tuple"):
        values = [_restored(value, arrays, classes) for value in content]
        return values if name == "list" else tuple(values)
    if name == "dict":
        return {_restored(k, arrays, classes): _restored(v, arrays, classes) for k, v in content}
    if name not in classes:
        raise InputError(f"from_bytes: an unknown kind of state '{name}'.")
    return _made(classes[name], _restored(content, arrays, classes))


def _made(kind: Any, content: Any) -> Any:
    if hasattr(kind, "from_bytes"):
        return kind.from_bytes(content.tobytes())
    made = object.__new__(kind)
    for name, value in content.items():
        object.__setattr__(made, name, value)
    return made
