"""The kinds of image corruption and the meaning of each strength; the table needs no torch.

After Hendrycks & Dietterich, "Benchmarking neural network robustness to common corruptions and
perturbations" (ICLR 2019), at the severities of CIFAR-10-C, which are in pixels of 32×32 images.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["IMAGE", "ImageCorruption"]


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
    )
}  # fmt: skip
