"""Damage that is drawn for each image: filters, waves, tones, blocks and veils no camera makes.

A calibrator that learned from such copies has seen more ways to fail than the named kinds have. So
it is less surprised by a kind that it has not seen.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

__all__ = [
    "BLOCK_DRAWS",
    "FILTER_DRAWS",
    "TONE_POINTS",
    "VEIL_DRAWS",
    "random_blocks",
    "random_filter",
    "random_tones",
    "random_veils",
    "random_waves",
]

_REACH = 3  # Pixels of a filter on each side of its centre.
FILTER_DRAWS = (2 * _REACH + 1) ** 2 + 1
TONE_POINTS = 6  # Of a tone curve, from black to white.
_SHARPENED = 0.3  # The share of images that a filter sharpens.
BLOCK_DRAWS = 4  # A side and a start, for rows and for columns.
VEIL_DRAWS = 4  # Thickness, unevenness, width and choice of colour; then a colour for each channel.
_EVEN = 0.4  # The share of veils that are as thick everywhere.


def random_filter(images: Tensor, amount: float, draws: Tensor) -> Tensor:
    """Blur with an irregular filter, wider for a greater amount, or sharpen with it.

    A filter w has uniform draws to the third power, times exp(−d² / 2σ²) of the distance d in
    pixels, σ = 0.5 + 2.5 · amount, and sums to one. Of ``draws`` (n, 50), the last decides: three
    tenths of the images become x + 2 · amount · (x − w ∗ x).
    """
    places = torch.arange(-_REACH, _REACH + 1, device=images.device, dtype=torch.float32)
    apart = places[:, None] ** 2 + places[None] ** 2
    near = torch.exp(-apart / (2 * (0.5 + 2.5 * amount) ** 2)).flatten()
    weights = draws[:, :-1] ** 3 * near
    weights = weights / weights.sum(1, keepdim=True)
    height, width = images.shape[-2:]
    padded = functional.pad(images, (_REACH,) * 4, mode="replicate")
    blurred = torch.zeros_like(images)
    for number, weight in enumerate(weights.T):
        row, column = divmod(number, 2 * _REACH + 1)
        moved = padded[..., row : row + height, column : column + width]
        blurred += weight[:, None, None, None] * moved
    sharper = _each(draws[:, -1]) < _SHARPENED
    return torch.where(sharper, images + 2 * amount * (images - blurred), blurred)


def random_waves(images: Tensor, deviation: float, noise: Tensor, draws: Tensor) -> Tensor:
    """Add waves of a band of frequencies, drawn with ``draws`` (n, 3), out of white ``noise``.

    The band has a Gaussian profile around a frequency of 0 to 0.5 per pixel, 0.02 to 0.22 wide.
    Half of the images get the same waves in all channels.
    """
    down, across = (torch.fft.fftfreq(size, device=images.device) for size in images.shape[-2:])
    frequency = (down[:, None] ** 2 + across[None] ** 2).sqrt()
    middle, width = 0.5 * draws[:, 0], 0.02 + 0.2 * draws[:, 1] ** 2
    band = torch.exp(-((frequency - _each(middle)) ** 2) / (2 * _each(width) ** 2))
    band[..., 0, 0] = 0  # Brightness stays.
    noise = torch.where(_each(draws[:, 2]) < 0.5, noise[:, :1].expand_as(noise), noise)
    waves: Tensor = torch.fft.ifft2(torch.fft.fft2(noise) * band).real
    spread = waves.square().mean((1, 2, 3), keepdim=True).sqrt()
    return images + deviation * waves / spread.clamp(min=1e-6)


def random_tones(images: Tensor, amount: float, draws: Tensor) -> Tensor:
    """Map values by a bent curve, whose six points move by normal draws times ``amount``.

    ``draws`` (n, channels · points + 1) are uniform; the last decides whether all channels of an
    image share the curve of the first, as half of them do.
    """
    moves = torch.special.ndtri(draws[:, :-1].double()).float()
    moves = moves.reshape(len(images), -1, TONE_POINTS)
    shared = draws[:, -1].reshape(-1, 1, 1) < 0.5
    moves = torch.where(shared, moves[:, :1].expand_as(moves), moves)
    curve = torch.linspace(0, 1, TONE_POINTS, device=images.device) + amount * moves
    place = images.flatten(2) * (TONE_POINTS - 1)
    low = place.floor().clamp(max=TONE_POINTS - 2)
    here, after = (curve.gather(2, low.long() + step) for step in (0, 1))
    return (here + (after - here) * (place - low)).reshape(images.shape)


def random_blocks(images: Tensor, amount: float, draws: Tensor) -> Tensor:
    """Replace pixels by the means of blocks, whose height, width and start are drawn.

    ``draws`` (n, 4) are uniform: (u, v) of the rows, then of the columns. Pixel i is in block
    ⌊(i + ½) r + v⌋, where r = 1 − amount · (1 + u) / 2 is the resolution that is left.
    """
    down, across = (
        _means_of_blocks(size, 1 - amount * (1 + draws[:, i]) / 2, draws[:, i + 1])
        for size, i in zip(images.shape[-2:], (0, 2), strict=True)
    )
    return (down[:, None] @ images.double() @ across[:, None].mT).float()


def random_veils(images: Tensor, amount: float, noise: Tensor, draws: Tensor) -> Tensor:
    """Fade to one colour, evenly or in clouds: x + m (colour − x).

    ``draws`` (n, 4 + channels) are uniform: t, e, w, k, and a colour. m = clip(T (1 + E f), 0, 1)
    with T = amount · (1 + t) / 2 and E = 0.6 max(0, e − 0.4). The clouds f have mean 0, deviation 1
    and a Gaussian profile of 1 + 7w pixels; they come from one channel of white ``noise``. The
    colour is the mean of the image for k < 1/2, else the drawn one; above 3/4 its first channel.
    """
    thick, uneven, width, which = (_each(draws[:, i]) for i in range(VEIL_DRAWS))
    clouds = _clouds(noise[:, :1], 1 + 7 * width)
    share = amount * (1 + thick) / 2 * (1 + 0.6 * (uneven - _EVEN).clamp(min=0) * clouds)
    drawn = draws[:, VEIL_DRAWS:, None, None]
    drawn = torch.where(which < 0.75, drawn, drawn[:, :1].expand_as(drawn))
    colour = torch.where(which < 0.5, images.mean((2, 3), keepdim=True), drawn)
    return images + share.clamp(0, 1) * (colour - images)


def _clouds(noise: Tensor, width: Tensor) -> Tensor:
    """Return noise with a Gaussian profile of ``width`` pixels, of mean 0 and deviation 1."""
    down, across = (torch.fft.fftfreq(size, device=noise.device) for size in noise.shape[-2:])
    frequency = down[:, None] ** 2 + across[None] ** 2
    profile = torch.exp(-2 * (torch.pi * width) ** 2 * frequency)
    profile[..., 0, 0] = 0
    smooth: Tensor = torch.fft.ifft2(torch.fft.fft2(noise) * profile).real
    return smooth / smooth.square().mean((1, 2, 3), keepdim=True).sqrt().clamp(min=1e-6)


def _means_of_blocks(size: int, resolution: Tensor, start: Tensor) -> Tensor:
    """Return a matrix per image that gives each of ``size`` pixels the mean of its block.

    It is float64, which no GPU computes with reduced precision.
    """
    places = torch.arange(size, device=resolution.device, dtype=torch.float64) + 0.5
    blocks = (places * resolution.double()[:, None] + start.double()[:, None]).floor()
    together = (blocks[:, :, None] == blocks[:, None]).double()
    return together / together.sum(2, keepdim=True)


def _each(values: Tensor) -> Tensor:
    """Return one value per image in a shape that goes with images."""
    return values.reshape(-1, 1, 1, 1)
