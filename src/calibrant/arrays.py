"""Handle NumPy arrays and torch tensors, and import torch only if it is already in use."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np

from calibrant.errors import InputError

__all__ = [
    "Array",
    "as_array",
    "describe_objects",
    "from_arrow",
    "is_tensor",
    "join_arrays",
    "join_columns",
    "text_array",
    "to_numpy",
]

# A NumPy array or a torch tensor; torch is optional, so its type cannot be named here.
Array: TypeAlias = Any

# NumPy's text has the width of the longest value for all; beyond this, Python strings are smaller.
_WIDEST_TEXT = 64

_CPU = 1  # DLPack's device type for host memory


def is_tensor(value: object) -> bool:
    """Whether ``value`` is a torch tensor. There is none before torch is imported."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def as_array(value: Any) -> Array:
    """Return a NumPy array or torch tensor, over the same memory if possible.

    Torch tensors are detached and stay on their device. Anything else that speaks DLPack (JAX,
    CuPy, MLX, …) becomes a NumPy array when it lies in host memory, a torch tensor otherwise.
    Columns of pandas' nullable types are taken where nothing is missing, masked arrays where
    nothing is masked. Sparse matrices of SciPy and sparse tensors become dense, quantised numbers
    floats.

    >>> as_array([1, 2]).dtype.kind
    'i'
    """
    if is_tensor(value):
        return _plain_tensor(value.detach())
    value = from_arrow(value)
    if type(value).__module__.startswith("scipy.sparse"):  # As scikit-learn makes label tables.
        value = value.toarray()
    if isinstance(value, np.ndarray) or not hasattr(value, "__dlpack__"):
        _check_foreign(value)
        _check_unmasked(value)
        try:
            array = np.asarray(value)
        except ValueError as error:  # NumPy makes no array of rows of different lengths.
            raise InputError(
                "Expected an array of numbers, got rows of different lengths; pad them and label "
                "the padding −100, or join the rows and pass groups={'sentence': …}."
            ) from error
        return _numbers(array) if array.dtype == object else array
    if value.__dlpack_device__()[0] == _CPU:
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError):
            pass  # A type that NumPy lacks, such as bfloat16: torch has it.
    from calibrant.extras import require

    return require("torch", "torch", "An array in device memory").from_dlpack(value)


def _plain_tensor(tensor: Any) -> Any:
    """Return a dense tensor of a type that computes: not quantised, not of eight bits a float."""
    import torch

    if tensor.is_nested:
        raise InputError(
            "Expected an array of numbers, got a nested tensor of rows of different lengths; join "
            "the rows and pass groups={'sentence': …}."
        )
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    return tensor.float() if tensor.is_floating_point() and tensor.itemsize == 1 else tensor


def from_arrow(value: Any) -> Any:
    """Return an Arrow column as a NumPy array, and anything else unchanged.

    A dictionary is decoded first: of one with a null, pyarrow would make its last category.
    """
    if type(value).__module__ != "pyarrow.lib" or not hasattr(value, "null_count"):
        return value
    if type(value.type).__name__ == "DictionaryType":
        value = value.cast(value.type.value_type)
    return value.to_numpy(zero_copy_only=False)


def to_numpy(value: Any) -> np.ndarray:
    """Copy to the host if need be; bfloat16, which NumPy lacks, becomes float32."""
    if is_tensor(value):
        value = _plain_tensor(value.detach())
        return np.asarray((value.float() if "bfloat16" in str(value.dtype) else value).cpu())
    array = np.asarray(as_array(value))
    if array.dtype == object:
        raise InputError(f"Expected an array of numbers, got {describe_objects(array)}.")
    return array


def describe_objects(array: np.ndarray) -> str:
    """Describe what makes an array one of Python objects, for errors.

    >>> describe_objects(np.array([1, None], dtype=object))
    'a missing value (None) at place 1; drop such rows, or label them −100'
    >>> describe_objects(np.array([0, 2**70], dtype=object))
    'Python objects, the first of type int'
    """
    for place, value in enumerate(array.flat):
        if value is None or type(value).__name__ in ("NAType", "NaTType"):
            found = "None" if value is None else "NA"
            return f"a missing value ({found}) at place {place}; drop such rows, or label them −100"
    kinds = {type(value).__name__ for value in array.flat}
    if kinds & {"list", "tuple", "ndarray"}:
        return "rows of different lengths"
    first = f", the first of type {type(array.flat[0]).__name__}" if array.size else ""
    return f"Python objects{first}"


def _numbers(array: np.ndarray) -> np.ndarray:
    """Turn an array of Python objects into numbers if all are numbers; else return it unchanged.

    Rows of one length may be lists or arrays, as columns of Arrow and polars give them, and
    numbers may be decimals, as databases give them.
    """
    if not array.ndim:
        return array
    decimals = array.size and isinstance(array.flat[0], Decimal)
    try:
        plain = array.astype(np.float64) if decimals else np.array(array.tolist())
    except (OverflowError, TypeError, ValueError):  # Ragged, missing, too large.
        return array
    same = plain.shape[: array.ndim] == array.shape
    return plain if plain.dtype.kind in "iufb" and same else array


def _check_foreign(value: Any) -> None:
    """Refuse predictions, states and the like: NumPy would try rows of rows without end."""
    parts = value[:1] if isinstance(value, (list, tuple)) else ()
    for part in (value, *parts):
        kind = type(part)
        if kind.__module__.startswith("calibrant.") and not isinstance(part, (tuple, np.ndarray)):
            raise InputError(f"Expected an array of numbers, got {kind.__name__}.")


def _check_unmasked(value: Any) -> None:
    """Refuse masked values: NumPy would use the values behind the mask."""
    parts = [value] if isinstance(value, np.ndarray) else value
    if not isinstance(parts, (list, tuple)):
        return
    for part in parts:
        if isinstance(part, np.ma.MaskedArray) and (masked := int(np.ma.getmaskarray(part).sum())):
            raise InputError(
                f"Expected an array without a mask, got one with {masked} masked values: drop "
                "those rows, or give them the label −100."
            )


def text_array(values: Sequence[str]) -> np.ndarray:
    """Store text in bounded memory: as NumPy text if it is short, else as Python strings.

    >>> text_array(["B-PER", "O"])
    array(['B-PER', 'O'], dtype='<U5')
    """
    short = max(map(len, values), default=0) <= _WIDEST_TEXT
    # NumPy's text also drops NULs at the end.
    short = short and not any(value.endswith("\0") for value in values)
    return np.array(values, dtype=str if short else object)


def join_arrays(arrays: Sequence[Array]) -> Array:
    """Join arrays along the first axis, in the library that they come from."""
    if is_tensor(arrays[0]):
        import torch

        return torch.cat(list(arrays))
    return np.concatenate(arrays)


def join_columns(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Join columns of numbers or text; columns of different kinds become text.

    So a text file read in chunks gives what it gives when read whole, also where only some
    chunks of a column look like numbers.

    >>> join_columns([np.array([1, 2]), np.array(["a7"])])
    array(['1', '2', 'a7'], dtype='<U2')
    """
    if len({"U" if c.dtype.kind == "O" else c.dtype.kind for c in columns}) == 1:
        return np.concatenate(columns)
    return text_array([str(value) for column in columns for value in column.tolist()])
