"""Names of corruptions: ``typos-3`` is a kind and its strength; the kinds of image corruption.

Images after Hendrycks & Dietterich, "Benchmarking neural network robustness to common corruptions
and perturbations" (ICLR 2019), at the severities of CIFAR-10-C, in pixels of 32×32 images.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from calibrant.errors import InputError, unknown_name

__all__ = [
    "IMAGE",
    "IMAGE_COPIES",
    "RANDOM_DAMAGE",
    "RANDOM_KINDS",
    "STRENGTHS",
    "TEXT_COPIES",
    "ImageCorruption",
    "check_strength",
    "known_corruption",
    "parse_corruption",
]

STRENGTHS = (1, 2, 3, 4, 5)
_COPIED = (1, 3, 5)
# What the copies that a calibrator learns from are corrupted by, unless a recipe names it.
TEXT_COPIES, IMAGE_COPIES = (
    tuple(f"{kind}-{strength}" for kind in kinds for strength in _COPIED)
    for kinds in (
        ("typos", "ocr", "dropped-characters", "swapped-characters", "dropped-words"),
        ("gaussian-noise", "defocus-blur", "contrast", "pixelate", "jpeg"),
    )
)
# Images also have copies with damage that no camera makes: what fits these five kinds alone trusts
# the confidence too much where others, such as fog, leave the model sure and wrong.
IMAGE_COPIES += tuple(f"random-mix-{strength}" for strength in STRENGTHS)

# What the signal of damage is learned from: kinds that are drawn anew for each image.
RANDOM_KINDS = tuple(f"random-{kind}" for kind in ("filter", "waves", "tones", "blocks", "veils"))
RANDOM_DAMAGE = tuple(f"{kind}-{strength}" for kind in RANDOM_KINDS for strength in _COPIED)


def parse_corruption(name: str, kinds: Collection[str]) -> tuple[str, int] | None:
    """Return kind and strength, or None if the name is not one of ``kinds``.

    >>> parse_corruption("dropped-words-3", ["typos", "dropped-words"])
    ('dropped-words', 3)
    >>> parse_corruption("wnut17", ["typos"]) is None
    True
    """
    parts = re.fullmatch(r"(.+)-(\d+)", name)
    if parts is None or parts[1] not in kinds:
        return None
    return parts[1], check_strength(int(parts[2]), name)


def known_corruption(name: str, kinds: Collection[str], of: str) -> tuple[str, int]:
    """Return kind and strength of a name that must be one of ``kinds``, ``of`` some data.

    >>> known_corruption("typo-3", ["typos", "ocr"], of="texts")
    Traceback (most recent call last):
    ...
    calibrant.errors.InputError: Unknown corruption of texts 'typo-3'. Did you mean 'typos'? ...
    """
    if name in kinds:
        raise InputError(f"Which strength of '{name}'? Expected {name}-1 to {name}-5.")
    found = parse_corruption(name, kinds)
    if found is None:
        hint = "Expected KIND-STRENGTH; 'calibrant list corruptions' shows all."
        raise unknown_name(f"corruption of {of}", name, kinds, hint)
    return found


def check_strength(strength: int, given: object = None) -> int:
    """Return the strength if it is valid; the error quotes ``given`` instead of it."""
    if strength not in STRENGTHS or isinstance(strength, bool):
        got = strength if given is None else given
        raise InputError(f"The strength of a corruption is 1, 2, 3, 4 or 5, got {got!r}.")
    return strength


@dataclass(frozen=True)
class ImageCorruption:
    """One kind, with its parameter at each of the five strengths."""

    name: str
    about: str
    levels: tuple[float, ...]
    paper: str = "Hendrycks & Dietterich 2019"


IMAGE = {
    kind.name: kind
    for kind in (
        ImageCorruption(
            "gaussian-noise", "normal noise; deviation", (0.04, 0.06, 0.08, 0.09, 0.10)
        ),
        ImageCorruption(
            "shot-noise", "Poisson noise of few photons; photons of white", (500, 250, 100, 75, 50)
        ),
        ImageCorruption(
            "impulse-noise", "values that are 0 or 1 instead; share", (0.01, 0.02, 0.03, 0.05, 0.07)
        ),
        ImageCorruption("gaussian-blur", "out of focus; deviation", (0.4, 0.6, 0.7, 0.8, 1.0)),
        ImageCorruption("defocus-blur", "a disk; radius", (0.75, 1.0, 1.25, 1.5, 2.0)),
        ImageCorruption(
            "motion-blur", "a trail up to 45° from level; deviation", (1.0, 1.5, 2.0, 2.25, 2.5)
        ),
        ImageCorruption("contrast", "less of it; factor", (0.75, 0.5, 0.4, 0.3, 0.15)),
        ImageCorruption("brightness", "more of it; added", (0.05, 0.1, 0.15, 0.2, 0.3)),
        ImageCorruption(
            "pixelate", "fewer pixels; share of each side", (0.95, 0.9, 0.85, 0.75, 0.65)
        ),
        ImageCorruption("jpeg", "lossy compression; quality", (80, 65, 58, 50, 40)),
        ImageCorruption(
            "random-filter", "an irregular blur, or sharper; amount", (0.1, 0.2, 0.4, 0.6, 0.9),
            "calibrant",
        ),
        ImageCorruption(
            "random-waves", "waves of a band of frequencies; deviation",
            (0.03, 0.05, 0.08, 0.12, 0.2), "calibrant",
        ),
        ImageCorruption(
            "random-tones", "bent tone curves; amount", (0.04, 0.08, 0.12, 0.18, 0.25), "calibrant"
        ),
        ImageCorruption(
            "random-blocks", "means of blocks of any size; amount", (0.1, 0.2, 0.35, 0.5, 0.7),
            "calibrant",
        ),
        ImageCorruption(
            "random-veils", "fades to a colour, even or cloudy; amount", (0.15, 0.3, 0.5, 0.7, 0.9),
            "calibrant",
        ),
        ImageCorruption(
            "random-mix", "one of the random kinds for each image; strength", (1, 2, 3, 4, 5),
            "calibrant",
        ),
    )
}  # fmt: skip
