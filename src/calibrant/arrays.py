"""NumPy arrays and torch tensors side by side, without importing torch for those who have none."""

from __future__ import annotations

import sys
from typing import Any, TypeAlias

import numpy as np

from calibrant.errors import InputError

__all__ = ["Array", "as_array", "is_tensor", "to_numpy"]

# A NumPy array or a torch tensor; torch is optional, so its type cannot be named here.
Array: TypeAlias = Any

_CPU = 1  # DLPack's device type for host memory


def is_tensor(value: object) -> bool:
    """Whether ``value`` is a torch tensor. Nobody has one before torch is imported."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def as_array(value: Any) -> Array:
    """A NumPy array or torch tensor over the same memory where that can be done.

    Torch tensors are detached and stay on their device. Anything else that speaks DLPack (JAX,
    CuPy, MLX, …) becomes a NumPy array when it lies in host memory, a torch tensor otherwise.

    >>> as_array([1, 2]).dtype.kind
    'i'
    """
    if is_tensor(value):
        return value.detach()
    if isinstance(value, np.ndarray) or not hasattr(value, "__dlpack__"):
        return np.asarray(value)
    if value.__dlpack_device__()[0] == _CPU:
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError):
            pass  # A type that NumPy lacks, such as bfloat16: torch has it.
    from calibrant.extras import require

    return require("torch", "torch", "An array in device memory").from_dlpack(value)


def to_numpy(value: Any) -> np.ndarray:
    """Copy to the host if need be; bfloat16, which NumPy lacks, becomes float32."""
    if is_tensor(value):
        value = value.detach()
        return np.asarray((value.float() if "bfloat16" in str(value.dtype) else value).cpu())
    array = np.asarray(as_array(value))
    if array.dtype == object:
        raise InputError("Expected an array of numbers, got one of Python objects (ragged lists?).")
    return array
