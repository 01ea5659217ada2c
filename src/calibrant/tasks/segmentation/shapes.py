"""The embedded segmentation set: seeded scenes of simple, partly ambiguous shapes.

Circles, rectangles, triangles and rings are on a textured background, under noise. Several things
should make a model uncertain: borders are blurred; some shapes are half circle, half rectangle,
with a class drawn at random; some have nearly the colour of their background. A band along each
border is labelled −100 (void), as in PASCAL VOC. The out-of-domain part has other colours, textures
and sizes and more noise, so that a model is wrong there more often than it thinks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from calibrant.errors import InputError
from calibrant.predictions import IGNORED

__all__ = ["CLASSES", "SIDE", "SIZES", "Style", "generate_scenes", "generate_shapes"]

CLASSES = ("background", "circle", "rectangle", "triangle", "ring")
SIZES = {"train": 96, "dev": 48, "test": 120, "ood": 80}
SIDE = 48
# Red, green and blue of each class, about which its shapes differ so much that classes overlap.
_COLOURS = np.array(
    [(0, 0, 0), (200, 80, 70), (70, 110, 210), (80, 180, 80), (205, 180, 70)], np.float64
)
Example = tuple[np.ndarray, np.ndarray]  # (height, width, 3) of bytes, (height, width) of classes


@dataclass(frozen=True)
class Style:
    """How the scenes of a domain look; lengths are shares of the image's side, or pixels."""

    objects: tuple[int, int] = (2, 6)  # at least, and less than
    radius: tuple[float, float] = (0.1, 0.24)
    ambiguous: float = 0.25  # share of circles and rectangles that are between the two
    hidden: float = 0.15  # share of shapes with nearly the colour of the background
    spread: float = 45.0  # deviation of a shape's colour from that of its class
    ground: tuple[float, float] = (60.0, 170.0)
    noise: float = 18.0  # deviation, of 255
    blur: tuple[float, float] = (0.6, 2.0)  # pixels over which a border fades
    texture: float = 14.0
    waves: tuple[float, float] = (1.0, 4.0)  # of the texture, across the image


_FAMILIAR = Style()
_FOREIGN = Style(
    objects=(3, 8),
    radius=(0.06, 0.3),
    hidden=0.3,
    spread=80.0,
    ground=(20.0, 220.0),
    noise=30.0,
    blur=(1.0, 3.0),
    texture=28.0,
    waves=(4.0, 9.0),
)
_STYLES = {"train": _FAMILIAR, "dev": _FAMILIAR, "test": _FAMILIAR, "ood": _FOREIGN}


def generate_shapes(
    seed: int = 0, side: int = SIDE, void: float = 0.75, **sizes: int
) -> dict[str, list[Example]]:
    """Generate train, dev, test and ood scenes of ``side`` × ``side`` pixels.

    Each split draws from its own stream, so the size of one does not change another. ``void``
    is half the width, in pixels, of the band along borders that is labelled −100.

    >>> splits = generate_shapes(seed=0, side=32, train=2, dev=1, test=1, ood=1)
    >>> {name: len(scenes) for name, scenes in splits.items()}
    {'train': 2, 'dev': 1, 'test': 1, 'ood': 1}
    >>> image, mask = splits["train"][0]
    >>> image.shape, image.dtype, mask.shape, bool((mask == -100).any())
    ((32, 32, 3), dtype('uint8'), (32, 32), True)
    """
    unknown = sorted(set(sizes) - set(SIZES))
    if unknown:
        raise InputError(f"Unknown split '{unknown[0]}'; there are {', '.join(SIZES)}.")
    wanted = {**SIZES, **sizes}
    return {
        split: generate_scenes(wanted[split], side, _STYLES[split], (seed, number), void)
        for number, split in enumerate(SIZES)
    }


def generate_scenes(
    count: int,
    side: int = SIDE,
    style: Style = _FAMILIAR,
    seed: int | Sequence[int] = 0,
    void: float = 0.75,
) -> list[Example]:
    """Generate ``count`` scenes of a style: an image of bytes and the class of each pixel."""
    if count < 0 or side < 8 or void < 0:
        raise InputError(
            "Scenes of shapes have at least 8 pixels a side, and neither their number nor the "
            f"void band is negative; got {count} scenes of {side} pixels, void {void}."
        )
    random = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
    return [_scene(side, style, random, void) for _ in range(count)]


def _scene(side: int, style: Style, random: np.random.Generator, void: float) -> Example:
    y, x = np.mgrid[:side, :side].astype(np.float64)
    ground = random.uniform(*style.ground) + random.uniform(-25, 25, 3)
    image = ground + _texture(x / side, y / side, style, random)[..., None]
    mask = np.zeros((side, side), np.int16)
    for _ in range(random.integers(*style.objects)):
        distance, label = _shape(x, y, side, style, random)
        colour = _COLOURS[label] + random.normal(0, style.spread, 3)
        if random.random() < style.hidden:
            colour = ground + random.uniform(-25, 25, 3)
        pattern = 0.5 * _texture(x / side, y / side, style, random)[..., None]
        covers = 1 / (1 + np.exp(4 * distance / random.uniform(*style.blur)))[..., None]
        image = (1 - covers) * image + covers * (colour + pattern)
        mask[distance <= 0] = label
        mask[np.abs(distance) < void] = IGNORED
    image = image + random.normal(0, style.noise, image.shape)
    return np.clip(np.round(image), 0, 255).astype(np.uint8), mask


def _texture(x: np.ndarray, y: np.ndarray, style: Style, random: np.random.Generator) -> np.ndarray:
    """Draw a sum of three waves of random direction and length."""
    total = np.zeros_like(x)
    for _ in range(3):
        angle, phase = random.uniform(0, 2 * np.pi, 2)
        along = np.cos(angle) * x + np.sin(angle) * y
        total += np.sin(2 * np.pi * random.uniform(*style.waves) * along + phase)
    return np.asarray(style.texture * total / np.sqrt(3))


def _shape(
    x: np.ndarray, y: np.ndarray, side: int, style: Style, random: np.random.Generator
) -> tuple[np.ndarray, int]:
    """Draw a shape: the distance of each pixel to its border, below 0 inside; and its class."""
    size = random.uniform(*style.radius) * side
    centre = random.uniform(0.1, 0.9, 2) * side
    angle = random.uniform(0, 2 * np.pi)
    across = (np.cos(angle) * (x - centre[0]) + np.sin(angle) * (y - centre[1])) / size
    along = (np.cos(angle) * (y - centre[1]) - np.sin(angle) * (x - centre[0])) / size
    along = along * random.uniform(1.0, 1.4)
    label = int(random.integers(1, len(CLASSES)))
    coin = random.random() < style.ambiguous
    if coin and CLASSES[label] in ("circle", "rectangle"):
        return size * (_power_mean(across, along, 3.0) - 1), label
    return size * _DISTANCES[CLASSES[label]](across, along), label


def _power_mean(across: np.ndarray, along: np.ndarray, power: float) -> np.ndarray:
    """Return the radius of a superellipse: 2 is a circle, ∞ a square."""
    sums = np.abs(across) ** power + np.abs(along) ** power
    return np.asarray(sums ** (1 / power))


def _triangle(across: np.ndarray, along: np.ndarray) -> np.ndarray:
    corners = np.pi / 2 + 2 * np.pi * np.arange(3) / 3
    sides = [np.cos(a) * across + np.sin(a) * along for a in corners]
    return np.asarray(np.max(sides, axis=0) - 0.6)


# In units of the shape's size.
_DISTANCES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "circle": lambda a, b: np.hypot(a, b) - 1,
    "rectangle": lambda a, b: np.maximum(np.abs(a), np.abs(b)) - 0.9,
    "triangle": _triangle,
    "ring": lambda a, b: np.abs(np.hypot(a, b) - 0.85) - 0.28,
}
