"""JPEG's loss in torch operations: 8×8 cosine transforms, rounded to the standard's tables.

ITU-T T.81 (1992), Annex K, with tables scaled by a quality from 1 to 100 and the rounding of the
Independent JPEG Group's library: most values of an image are the same. The entropy
coding that follows loses nothing.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from calibrant.errors import InputError

__all__ = ["jpeg"]

_LUMINANCE = (
    (16, 11, 10, 16, 24, 40, 51, 61), (12, 12, 14, 19, 26, 58, 60, 55),
    (14, 13, 16, 24, 40, 57, 69, 56), (14, 17, 22, 29, 51, 87, 80, 62),
    (18, 22, 37, 56, 68, 109, 103, 77), (24, 35, 55, 64, 81, 104, 113, 92),
    (49, 64, 78, 87, 103, 121, 120, 101), (72, 92, 95, 98, 112, 100, 103, 99),
)  # fmt: skip
_CHROMINANCE = (
    (17, 18, 24, 47, 99, 99, 99, 99), (18, 21, 26, 66, 99, 99, 99, 99),
    (24, 26, 56, 99, 99, 99, 99, 99), (47, 66, 99, 99, 99, 99, 99, 99),
    *((99,) * 8,) * 4,
)  # fmt: skip
# Red, green, blue to brightness and two differences of colour (ITU-R BT.601), and back.
_TO_YCC = ((0.299, 0.587, 0.114), (-0.168736, -0.331264, 0.5), (0.5, -0.418688, -0.081312))
_TO_RGB = ((1.0, 0.0, 1.402), (1.0, -0.344136, -0.714136), (1.0, 1.772, 0.0))


def jpeg(images: Tensor, quality: float, *, subsample: bool = True) -> Tensor:
    """Compress and decode images (n, 1 or 3, height, width) in [0, 1] at ``quality``.

    With ``subsample``, colour has half the size (4:2:0), the default of most encoders.

    >>> flat = torch.full((1, 3, 5, 9), 100 / 255)
    >>> (jpeg(flat, quality=10) * 255).unique().round()  # 8 (100 − 128) is rounded to −240
    tensor([98.])
    """
    if not 1 <= quality <= 100 or quality != int(quality):
        raise InputError(
            f"The quality of a JPEG must be a whole number from 1 to 100, got {quality}."
        )
    if images.shape[1] not in (1, 3):
        raise InputError(f"JPEG takes 1 or 3 channels, got {images.shape[1]}.")
    # Use float64: GPUs may multiply float32 matrices with three digits only.
    values = _rounded(images.double() * 255)
    if images.shape[1] == 1:
        return (_lossy(values, _table(_LUMINANCE, quality)) / 255).to(images.dtype)
    planes = _rounded(_colours(values, _TO_YCC, (0.0, 128.0, 128.0)))
    light = _lossy(planes[:, :1], _table(_LUMINANCE, quality))
    colour = _chroma(planes[:, 1:], _table(_CHROMINANCE, quality), subsample)
    centred = torch.cat([light, colour - 128], dim=1)
    decoded = _rounded(_colours(centred, _TO_RGB, (0.0,) * 3)).clamp(0, 255)
    return (decoded / 255).to(images.dtype)


def _chroma(planes: Tensor, table: Tensor, subsample: bool) -> Tensor:
    if not subsample:
        return _lossy(planes, table)
    height, width = planes.shape[-2:]
    # Like the library, extend the right edge at full size, the lower edge after halving.
    filled = functional.pad(planes, (0, -width % 16, 0, height % 2), mode="replicate")
    # Halves are rounded down and up in turn, which avoids a drift.
    half = (functional.avg_pool2d(filled, 2) + _in_turn(filled, 0.25, 0.5)).floor()
    decoded = _lossy(half, table)[..., : (width + 1) // 2]
    if decoded.shape[-1] <= 2:  # Too narrow for the library to interpolate.
        large = decoded.repeat_interleave(2, -1).repeat_interleave(2, -2)
    else:
        large = functional.interpolate(decoded, scale_factor=2, mode="bilinear")
    return (large[..., :height, :width] + _in_turn(planes, 8 / 16, 7 / 16, 1)).floor()


def _lossy(planes: Tensor, table: Tensor) -> Tensor:
    """Transform each 8×8 block, round to multiples of the table, and transform back."""
    count, channels, height, width = planes.shape
    filled = functional.pad(planes, (0, -width % 8, 0, -height % 8), mode="replicate")
    down, across = filled.shape[-2] // 8, filled.shape[-1] // 8
    blocks = filled.reshape(count, channels, down, 8, across, 8).transpose(3, 4) - 128
    cosines, steps = _cosines().to(planes.device), table.to(planes.device)
    found = _rounded(8 * (cosines @ blocks @ cosines.T)) / 8  # The library works in eighths.
    kept = found.sign() * _rounded(found.abs() / steps) * steps
    decoded = _rounded(cosines.T @ kept @ cosines + 128).clamp(0, 255)
    whole = decoded.transpose(3, 4).reshape(count, channels, 8 * down, 8 * across)
    return whole[..., :height, :width]


def _rounded(values: Tensor) -> Tensor:
    """Round to the nearest, halves up; torch rounds halves to the even number."""
    return (values + 0.5).floor()


def _in_turn(planes: Tensor, even: float, odd: float, step: int = 2) -> Tensor:
    """Return ``even``, ``odd``, ``even``, … for the columns, or for every second one."""
    columns = torch.arange(planes.shape[-1] // step, device=planes.device)
    return torch.where(columns % 2 == 0, even, odd).to(planes.dtype)


def _cosines() -> Tensor:
    """Return the cosine transform: row k is √(2/8) cos((2x + 1) k π / 16), row 0 √(1/8)."""
    k, x = torch.arange(8, dtype=torch.float64)[:, None], torch.arange(8, dtype=torch.float64)
    rows = math.sqrt(2 / 8) * torch.cos((2 * x + 1) * k * math.pi / 16)
    rows[0] /= math.sqrt(2)
    return rows


def _table(base: tuple[tuple[int, ...], ...], quality: float) -> Tensor:
    scale = 5000 // int(quality) if quality < 50 else 200 - 2 * int(quality)
    return ((torch.tensor(base, dtype=torch.float64) * scale + 50) / 100).floor().clamp(1, 255)


def _colours(
    planes: Tensor, matrix: tuple[tuple[float, ...], ...], added: tuple[float, ...]
) -> Tensor:
    rows = [
        sum((weight * planes[:, i] for i, weight in enumerate(row)), torch.zeros_like(planes[:, 0]))
        for row in matrix
    ]
    return torch.stack([row + more for row, more in zip(rows, added, strict=True)], dim=1)
