"""Random numbers as a function of seed, image and place: any batch, on any device.

A counter-based generator (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011)
with the finaliser of SplitMix64 (Steele et al., OOPSLA 2014) as its mixing. The draws of an image
depend neither on the other images in its batch nor on the device.
"""

from __future__ import annotations

import zlib

import torch
from torch import Tensor

__all__ = ["normal", "poisson_quantile", "uniform"]

_BITS = 24  # The resolution of a float32 in [0, 1).
_BELOW_ONE = 1 - 2.0**-_BITS  # The greatest float32: half a step more would be rounded to 1.
# In two's complement; int64 products wrap around.
_GOLDEN, _FIRST, _SECOND = (
    value - (1 << 64) for value in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
_EXACT = 10.0  # From this mean on, Poisson quantiles come from an expansion.


def uniform(
    images: Tensor, seed: int, name: str, first: int = 0, each: int | None = None
) -> Tensor:
    """Draw from (0, 1) in the shape of ``images``, or ``each`` values per image: (n, each).

    ``first`` is the number of the first image in the whole set; ``name`` separates streams.

    >>> whole = uniform(torch.zeros(3, 2), seed=0, name="noise")
    >>> bool((whole[1:] == uniform(torch.zeros(2, 2), seed=0, name="noise", first=1)).all())
    True
    """
    shape = images.shape if each is None else (len(images), each)
    size = images[0].numel() if each is None and len(images) else each or 0
    key = _signed((seed << 32) ^ zlib.crc32(name.encode()))
    number = torch.arange(first, first + len(images), device=images.device)
    place = torch.arange(size, device=images.device)
    stream = _mixed(_mixed(number * _GOLDEN + key) + key)
    bits = _mixed(stream[:, None] + (place + 1)[None] * _GOLDEN)
    top = (bits >> (64 - _BITS)) & ((1 << _BITS) - 1)
    return ((top.float() + 0.5) / (1 << _BITS)).clamp(max=_BELOW_ONE).reshape(shape)


def normal(images: Tensor, seed: int, name: str, first: int = 0) -> Tensor:
    """Draw standard normal values in the shape of ``images``, by Box and Muller (1958)."""
    radius = uniform(images, seed, f"{name}, radius", first)
    angle = uniform(images, seed, f"{name}, angle", first)
    return (-2 * radius.log()).sqrt() * (2 * torch.pi * angle).cos()


def poisson_quantile(mean: Tensor, share: Tensor) -> Tensor:
    """Return the ``share``-quantile of a Poisson distribution; uniform shares give its draws.

    Up to a mean of 10 the sum is exact; beyond, the expansion of Cornish and Fisher (1938)
    is at most one count off.

    >>> poisson_quantile(torch.tensor([0.0, 2.0, 100.0]), torch.tensor([0.5, 0.5, 0.975]))
    tensor([  0.,   2., 120.])
    """
    low = mean.clamp(max=_EXACT).double()
    term = (-low).exp()
    total, count = term.clone(), torch.zeros_like(low)
    for step in range(1, 45):  # P[Poisson(10) > 44] is below 1e-14.
        count += total < share
        term = term * low / step
        total += term
    z = torch.special.ndtri(share.double())
    high = mean.clamp(min=_EXACT).double()
    deviation = high.sqrt()
    expansion = high + deviation * z + (z**2 - 1) / 6 + (z - z**3) / (72 * deviation)
    return torch.where(mean < _EXACT, count, expansion.round().clamp(min=0)).to(mean.dtype)


def _mixed(value: Tensor) -> Tensor:
    value = (value ^ _right(value, 30)) * _FIRST
    value = (value ^ _right(value, 27)) * _SECOND
    return value ^ _right(value, 31)


def _right(value: Tensor, places: int) -> Tensor:
    """Shift right and fill with zeros, which torch does not offer for signed integers."""
    return (value >> places) & ((1 << (64 - places)) - 1)


def _signed(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value
