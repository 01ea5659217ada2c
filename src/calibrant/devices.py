"""Whether a device of torch can be used."""

from __future__ import annotations

from calibrant.errors import InputError
from calibrant.extras import require

__all__ = ["usable_device"]


def usable_device(device: str) -> str:
    """The device, if torch can use it.

    >>> usable_device("cpu")
    'cpu'
    """
    torch = require("torch", "torch", f"The device '{device}'")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"Device '{device}' cannot be used: {reason}") from None
    return device
