"""Images with a class for each pixel, by name: the embedded shapes, or a folder of masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.errors import InputError, unknown_name
from calibrant.tasks.reading.catalogue import find_folder
from calibrant.tasks.segmentation.mask_folder import read_mask_folder
from calibrant.tasks.segmentation.shapes import CLASSES, SIDE, generate_shapes

__all__ = ["SHAPES", "CorruptedScenes", "Example", "Scenes", "find_scenes", "load_scenes"]

SHAPES = "shapes"
Example = tuple[np.ndarray, np.ndarray]  # (height, width, channels) of bytes; (height, width)


@dataclass(frozen=True, eq=False)
class Scenes:
    """Images and masks by split; those of a folder are read when they are needed.

    A mask holds the class of each pixel, −100 where it is ignored (void).
    """

    name: str
    parts: Mapping[str, Sequence[Example]]
    labels: tuple[str, ...]
    notes: tuple[str, ...] = ()


def load_scenes(
    name: str,
    directory: str | Path | None = None,
    seed: int = 0,
    size: int | None = None,
    **sizes: int,
) -> Scenes:
    """Load scenes: ``shapes`` (:mod:`.shapes`), or a folder of masks (:mod:`.mask_folder`).

    ``size`` is the side to which all images are brought; that of the shapes is 48 without it. The
    number of shapes in a split may be given too: ``load_scenes("shapes", train=1000)``. Missing
    splits of a folder are carved from its training split, seeded, and noted.
    """
    if size is not None and size < 8:
        raise InputError(f"Images to segment have at least 8 pixels a side, got size {size}.")
    if name == SHAPES:
        return Scenes(name, generate_shapes(seed, size or SIDE, **sizes), CLASSES)
    if sizes:
        raise InputError(f"The splits of '{name}' are fixed: only '{SHAPES}' takes their sizes.")
    parts, labels, notes = read_mask_folder(find_scenes(name, directory), size, seed)
    return Scenes(name, parts, labels, notes)


def find_scenes(name: str, directory: str | Path | None = None) -> Path:
    """Find the folder of masks of a name. Reads nothing."""
    folder = find_folder(name, "segmentation", directory)
    if folder is None:
        hint = "A folder with images/ and masks/ works too."
        raise unknown_name("segmentation set", name, (SHAPES, "camvid"), hint)
    return folder


class CorruptedScenes(Sequence[Any]):
    """Scenes whose images are corrupted when they are read, by a kind at a strength.

    See :func:`calibrant.corruptions.image.corrupt_bytes`.

    >>> from calibrant.tasks.segmentation.shapes import generate_scenes
    >>> scenes = generate_scenes(2, side=16)
    >>> bright = CorruptedScenes(scenes, ("brightness", 5))
    >>> bool(bright[1][0].mean() > scenes[1][0].mean()), bool((bright[1][1] == scenes[1][1]).all())
    (True, True)
    """

    def __init__(
        self,
        scenes: Sequence[Example],
        corruption: tuple[str, int],
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        self.scenes, self.corruption = scenes, corruption
        self.options: dict[str, Any] = {"seed": seed, "device": device}

    def __len__(self) -> int:
        return len(self.scenes)

    def __getitem__(self, number: Any) -> Any:
        """Return the image, corrupted as it is within the whole set, and its mask."""
        from calibrant.corruptions.image import corrupt_bytes

        image, mask = self.scenes[number]
        return corrupt_bytes(image[None], *self.corruption, first=number, **self.options)[0], mask
