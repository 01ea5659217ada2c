"""Corrupt images at five strengths, in batched torch operations on any device."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from calibrant.corruptions.counter_random import normal, poisson_quantile, uniform
from calibrant.corruptions.jpeg import jpeg
from calibrant.corruptions.names import IMAGE, RANDOM_KINDS, check_strength
from calibrant.corruptions.random_damage import (
    BLOCK_DRAWS,
    FILTER_DRAWS,
    TONE_POINTS,
    VEIL_DRAWS,
    random_blocks,
    random_filter,
    random_tones,
    random_veils,
    random_waves,
)
from calibrant.errors import InputError, unknown_name

__all__ = ["corrupt_bytes", "corrupt_images", "defocus_blur", "gaussian_blur", "motion_blur"]

_BATCH = 1 << 24  # Values per chunk when bytes are converted.
_FINE = 32  # Points per pixel side that estimate the share covered by a disk.


def corrupt_images(
    images: Tensor, kind: str, strength: int, *, seed: int = 0, first: int = 0
) -> Tensor:
    """Corrupt images (n, channels, height, width) with values in [0, 1]; return the same kind.

    The draws for an image depend only on ``seed``, ``kind`` and its number, which is
    ``first`` for the first: a batch is corrupted as it is within the whole set, on any device.
    Strengths of one kind use the same draws.

    >>> grey = torch.full((2, 3, 4, 4), 0.5)
    >>> round(float(corrupt_images(grey, "brightness", 5).mean()), 4)
    0.8
    """
    if kind not in IMAGE:
        raise unknown_name("image corruption", kind, IMAGE)
    level = IMAGE[kind].levels[check_strength(strength) - 1]
    if not 0 <= seed < 1 << 32:
        raise InputError(f"A seed must be a whole number from 0 to 2³² − 1, got {seed}.")
    _check(images)
    if not images.numel():
        return images.clone()
    changed = _CHANGES[kind](images.float(), level, _Draw(seed, kind, first))
    return changed.clamp(0, 1).to(images.dtype)


def corrupt_bytes(
    images: np.ndarray,
    kind: str,
    strength: int,
    *,
    seed: int = 0,
    first: int = 0,
    device: str = "cpu",
    batch: int = _BATCH,
) -> np.ndarray:
    """Corrupt images of bytes (n, height, width, channels), ``batch`` values at a time.

    >>> corrupt_bytes(np.full((1, 2, 2, 1), 100, np.uint8), "brightness", 1)[0, 0, 0].tolist()
    [113]
    """
    if images.ndim != 4 or images.dtype != np.uint8:
        raise InputError(
            f"Expected images (n, height, width, channels) of bytes, got {images.dtype} "
            f"{images.shape}."
        )
    step = max(1, batch // max(1, images[:1].size))
    made = np.empty_like(images)
    for start in range(0, len(images), step):
        part = torch.as_tensor(images[start : start + step].transpose(0, 3, 1, 2).copy())
        values = part.to(device).float() / 255
        new = corrupt_images(values, kind, strength, seed=seed, first=first + start)
        rounded = (new * 255).round().byte().cpu().numpy()
        made[start : start + step] = rounded.transpose(0, 2, 3, 1)
    return made


class _Draw:
    """The random numbers of one call."""

    def __init__(self, seed: int, kind: str, first: int) -> None:
        self.seed, self.kind, self.first = seed, kind, first

    def uniform(self, images: Tensor, name: str, each: int | None = None) -> Tensor:
        return uniform(images, self.seed, f"{self.kind}, {name}", self.first, each)

    def normal(self, images: Tensor) -> Tensor:
        return normal(images, self.seed, self.kind, self.first)


_Change: TypeAlias = Callable[[Tensor, float, _Draw], Tensor]


def _gaussian_noise(images: Tensor, deviation: float, draw: _Draw) -> Tensor:
    return images + deviation * draw.normal(images)


def _shot_noise(images: Tensor, photons: float, draw: _Draw) -> Tensor:
    return poisson_quantile(images * photons, draw.uniform(images, "photons")) / photons


def _impulse_noise(images: Tensor, share: float, draw: _Draw) -> Tensor:
    hit = draw.uniform(images, "place") < share
    return torch.where(hit, (draw.uniform(images, "value") < 0.5).float(), images)


def _contrast(images: Tensor, factor: float, _: _Draw) -> Tensor:
    """Move values towards the mean of each channel of the image."""
    mean = images.mean((2, 3), keepdim=True)
    return mean + factor * (images - mean)


def _brightness(images: Tensor, added: float, _: _Draw) -> Tensor:
    """Add to the value of HSV, the greatest channel; hue and saturation stay."""
    value = images.amax(1, keepdim=True)
    new = (value + added).clamp(max=1)
    return torch.where(value > 0, images * (new / value.clamp(min=1e-12)), new)


def _pixelate(images: Tensor, share: float, _: _Draw) -> Tensor:
    """Replace each pixel by the mean of its block, one pixel of a lower resolution."""
    rows, columns = (_mean_of_bins(size, share, images.device) for size in images.shape[-2:])
    return (rows @ images.double() @ columns.T).float()


def _mean_of_bins(size: int, share: float, device: torch.device) -> Tensor:
    """Return the matrix that gives each of ``size`` pixels the mean of its bin.

    It is float64, which no GPU computes with reduced precision.
    """
    bins = ((torch.arange(size, device=device) + 0.5) * max(1, int(size * share)) / size).floor()
    together = (bins[:, None] == bins[None]).double()
    return together / together.sum(1, keepdim=True)


def _jpeg(images: Tensor, quality: float, _: _Draw) -> Tensor:
    """Compress grey or colours; of other channels each by itself, as a grey image."""
    if images.shape[1] in (1, 3):
        return jpeg(images, quality)
    return jpeg(images.flatten(0, 1)[:, None], quality).reshape(images.shape)


def _mixed(images: Tensor, strength: int, draw: _Draw) -> Tensor:
    """Damage each image by one of the random kinds, which is drawn."""
    chosen = draw.uniform(images, "kind", each=1).reshape(-1, 1, 1, 1) * len(RANDOM_KINDS)
    mixed = images
    for number, kind in enumerate(RANDOM_KINDS):
        level = IMAGE[kind].levels[strength - 1]
        changed = _CHANGES[kind](
            images, level, _Draw(draw.seed, f"{draw.kind}, {kind}", draw.first)
        )
        mixed = torch.where(chosen.floor() == number, changed, mixed)
    return mixed


_CHANGES: dict[str, _Change] = {
    "gaussian-noise": _gaussian_noise,
    "shot-noise": _shot_noise,
    "impulse-noise": _impulse_noise,
    "gaussian-blur": lambda images, deviation, _: gaussian_blur(images, deviation),
    "defocus-blur": lambda images, radius, _: defocus_blur(images, radius),
    "motion-blur": lambda images, deviation, draw: motion_blur(
        images, deviation, draw.uniform(images, "angle", each=1)
    ),
    "contrast": _contrast,
    "brightness": _brightness,
    "pixelate": _pixelate,
    "jpeg": _jpeg,
    "random-filter": lambda images, amount, draw: random_filter(
        images, amount, draw.uniform(images, "filter", each=FILTER_DRAWS)
    ),
    "random-waves": lambda images, deviation, draw: random_waves(
        images, deviation, draw.normal(images), draw.uniform(images, "band", each=3)
    ),
    "random-tones": lambda images, amount, draw: random_tones(
        images, amount, draw.uniform(images, "curve", each=TONE_POINTS * images.shape[1] + 1)
    ),
    "random-blocks": lambda images, amount, draw: random_blocks(
        images, amount, draw.uniform(images, "blocks", each=BLOCK_DRAWS)
    ),
    "random-veils": lambda images, amount, draw: random_veils(
        images,
        amount,
        draw.normal(images),
        draw.uniform(images, "veil", each=VEIL_DRAWS + images.shape[1]),
    ),
    "random-mix": lambda images, strength, draw: _mixed(images, int(strength), draw),
}


def _check(images: Tensor) -> None:
    if images.ndim != 4:
        raise InputError(
            f"Expected images (n, channels, height, width), got shape {tuple(images.shape)}."
        )
    if not images.is_floating_point():
        raise InputError(
            f"Expected images with values in [0, 1], got {images.dtype}: divide bytes by 255, or "
            "take corrupt_bytes."
        )
    if images.numel() and not bool(((images >= 0) & (images <= 1)).all()):
        raise InputError(
            "Expected images with values in [0, 1]; some are not: corrupt before normalising."
        )


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
