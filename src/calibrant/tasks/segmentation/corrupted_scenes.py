"""Images with masks, corrupted: the masks stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calibrant.tasks.segmentation.scenes import Example

__all__ = ["CorruptedScenes"]


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
        self, scenes: Sequence[Example], asked: tuple[str, int], seed: int = 0, device: str = "cpu"
    ) -> None:
        self.scenes, self.asked = scenes, asked
        self.options: dict[str, Any] = {"seed": seed, "device": device}

    def __len__(self) -> int:
        return len(self.scenes)

    def __getitem__(self, number: Any) -> Any:
        """The image, corrupted as it is within the whole set, and its mask."""
        from calibrant.corruptions.image import corrupt_bytes

        image, mask = self.scenes[number]
        return corrupt_bytes(image[None], *self.asked, first=number, **self.options)[0], mask
