"""Blurs as sums of shifted images; the outermost pixels continue beyond the border.

They are sums because a GPU may run convolutions in TF32, with three digits.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["defocus_blur", "gaussian_blur", "motion_blur"]

_FINE = 32  # Points per pixel side that estimate the share covered by a disk.


def gaussian_blur(images: Tensor, deviation: float) -> Tensor:
    """Blur with weights exp(−d² / 2σ²) of the distance d in pixels, up to 4σ.

    >>> spot = torch.zeros(1, 1, 5, 5)
    >>> spot[0, 0, 2, 2] = 1.0
    >>> [round(value, 4) for value in gaussian_blur(spot, 1.0)[0, 0, 2].tolist()]
    [0.0215, 0.0965, 0.1592, 0.0965, 0.0215]
    """
    reach = math.ceil(4 * deviation)
    places = torch.arange(-reach, reach + 1, dtype=torch.float64)
    weights = torch.exp(-(places**2) / (2 * deviation**2))
    weights /= weights.sum()
    return _sum_of_shifts(_sum_of_shifts(images, weights[None]), weights[:, None])


def defocus_blur(images: Tensor, radius: float) -> Tensor:
    """Blur with a disk: each pixel weighs as much as the disk covers of it."""
    reach = math.ceil(radius)
    side = 2 * reach + 1
    fine = (torch.arange(side * _FINE, dtype=torch.float64) + 0.5) / _FINE - side / 2
    inside = (fine[:, None] ** 2 + fine[None] ** 2 <= radius**2).double()
    weights = inside.reshape(side, _FINE, side, _FINE).mean((1, 3))
    return _sum_of_shifts(images, weights / weights.sum())


def motion_blur(images: Tensor, deviation: float, draws: Tensor) -> Tensor:
    """Blur along a line, fading as exp(−t² / 2σ²), with an angle drawn for each image.

    ``draws`` in (0, 1), one per image, map to angles from −45° to 45°.
    """
    height, width = images.shape[-2:]
    angle = (draws.reshape(-1, 1, 1) - 0.5) * (torch.pi / 2)
    down, across = (
        (2 * torch.arange(size, device=images.device, dtype=torch.float32) + 1) / size - 1
        for size in (height, width)
    )
    rows, columns = torch.meshgrid(down, across, indexing="ij")
    blurred, total = torch.zeros_like(images), 0.0
    for step in range(math.ceil(4 * deviation) + 1):
        weight = math.exp(-(step**2) / (2 * deviation**2))
        moved = (columns + 2 * step * angle.cos() / width, rows + 2 * step * angle.sin() / height)
        blurred += weight * functional.grid_sample(
            images, torch.stack(moved, -1), padding_mode="border", align_corners=False
        )
        total += weight
    return blurred / total


def _sum_of_shifts(images: Tensor, weights: Tensor) -> Tensor:
    """Return images whose pixels are weighted sums of the pixels around them."""
    height, width = images.shape[-2:]
    down, across = weights.shape[0] // 2, weights.shape[1] // 2
    padded = functional.pad(images, (across, across, down, down), mode="replicate")
    found = torch.zeros_like(images)
    for row, line in enumerate(weights.tolist()):
        for column, weight in enumerate(line):
            found += weight * padded[..., row : row + height, column : column + width]
    return found
