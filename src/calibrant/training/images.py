"""Images on a device as bytes; batches are cropped, flipped and normalised there."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from calibrant.errors import InputError, unknown_name
from calibrant.predictions import IGNORED
from calibrant.training.windows import BatchPlan

__all__ = ["AUGMENTATIONS", "Images", "parse_augmentation", "plan_images"]

AUGMENTATIONS = ("crop", "flip", "cutout")
Moves = tuple[Tensor, Tensor, Tensor]  # Rows, columns, and whether they are inside the image.
_ONE_SIZE = 1  # All images have one size, so all batches do.


def parse_augmentation(text: str) -> frozenset[str]:
    """Parse the augmentations in a text such as ``crop+flip``; ``none`` has none.

    >>> sorted(parse_augmentation("crop+flip")), parse_augmentation("none")
    (['crop', 'flip'], frozenset())
    """
    names = [] if text == "none" else text.split("+")
    for name in names:
        if name not in AUGMENTATIONS:
            raise unknown_name("augmentation", name, ("none", *AUGMENTATIONS))
    return frozenset(names)


def plan_images(images: int, batch: int, epochs: int, seed: int) -> BatchPlan:
    """Plan every image once per epoch, in random order; the first images fill the last batch.

    Batch norms then see whole batches of real images.

    >>> plan = plan_images(5, batch=2, epochs=1, seed=0)
    >>> rows = plan.rows[1]
    >>> rows.shape, bool(rows[2, 1] == rows[0, 0]), sorted(set(rows.flatten().tolist()))
    ((3, 2), True, [0, 1, 2, 3, 4])
    """
    random = np.random.default_rng(seed)
    steps = -(-images // batch)
    orders = [np.resize(random.permutation(images), (steps, batch)) for _ in range(epochs)]
    order = np.full(steps * epochs, _ONE_SIZE)
    return BatchPlan(order, {_ONE_SIZE: np.concatenate(orders)})


class Images:
    """Images (n, height, width, channels) of bytes and their classes or masks, on a device.

    A batch is gathered, augmented and normalised there, in a few operations for all of its images:
    ``crop`` moves each image by up to an eighth of its side and fills with black (4 pixels of 32,
    as usual for CIFAR); ``flip`` mirrors about every second one; ``cutout`` blanks a square of half
    the side around a random place. A mask moves with its image; −100 fills it. Random numbers come
    from torch's default generator, which a loop replaces by its own. ``mean`` and ``deviation`` are
    those of bytes, for each channel.

    >>> bytes_ = np.full((4, 8, 8, 1), 100, np.uint8)
    >>> images = Images(bytes_, np.arange(4), "cpu", mean=[100.0], deviation=[50.0])
    >>> batch = images.batch(torch.tensor([2, 0]), images.longest)
    >>> batch["pixel_values"].shape, float(batch["pixel_values"].sum()), batch["labels"]
    (torch.Size([2, 1, 8, 8]), 0.0, tensor([2, 0]))
    """

    longest = _ONE_SIZE

    def __init__(
        self,
        images: np.ndarray,
        classes: np.ndarray,
        device: str | torch.device,
        *,
        mean: np.ndarray | list[float],
        deviation: np.ndarray | list[float],
        augment: frozenset[str] = frozenset(),
    ) -> None:
        if not len(images):
            raise InputError("There are no images to make batches of.")
        self.pixels = torch.as_tensor(images, device=device)
        self.device = self.pixels.device
        # Keep the given integer type: wider masks would dominate the memory.
        self.classes = torch.as_tensor(classes, device=device)
        self.mean, self.deviation = (
            torch.as_tensor(np.asarray(values), dtype=torch.float32, device=device)
            for values in (mean, deviation)
        )
        self.augment = augment

    def __len__(self) -> int:
        return len(self.pixels)

    def plan(self, batch: int, epochs: int, seed: int) -> BatchPlan:
        """See :func:`plan_images`."""
        return plan_images(len(self), batch, epochs, seed)

    def batch(self, rows: Tensor, length: int) -> dict[str, Tensor]:  # noqa: ARG002
        """Return labels and ``pixel_values`` (rows, channels, height, width), channels last."""
        moves = self._moves(len(rows))
        normal = (_moved(self.pixels, rows, moves, 0).float() - self.mean) / self.deviation
        if "cutout" in self.augment:
            normal = normal.masked_fill(self._cut_out(len(rows)), 0.0)
        masks = self.classes.ndim > 1
        labels = _moved(self.classes, rows, moves, IGNORED) if masks else self.classes[rows]
        return {"pixel_values": normal.permute(0, 3, 1, 2), "labels": labels.long()}

    def _moves(self, images: int) -> Moves | None:
        """Draw where each pixel comes from, which is all that shifts and mirrors change."""
        if not self.augment & {"crop", "flip"}:
            return None
        height, width = self.pixels.shape[1:3]
        y, x = (self._places(images, size) for size in (height, width))
        if "flip" in self.augment:
            mirrored = torch.rand(images, 1, device=self.device) < 0.5
            x = torch.where(mirrored, width - 1 - x, x)
        inside = ((y >= 0) & (y < height))[:, :, None] & ((x >= 0) & (x < width))[:, None, :]
        return y.clamp(0, height - 1)[:, :, None], x.clamp(0, width - 1)[:, None, :], inside

    def _places(self, images: int, size: int) -> Tensor:
        """Return the rows, or columns, that each image shows; some are outside it."""
        places = torch.arange(size, device=self.device).expand(images, size)
        if "crop" not in self.augment:
            return places
        most = size // 8
        return places + torch.randint(-most, most + 1, (images, 1), device=self.device)

    def _cut_out(self, images: int) -> Tensor:
        inside = []
        for size in self.pixels.shape[1:3]:
            middle = torch.randint(0, size, (images, 1), device=self.device)
            places = torch.arange(size, device=self.device) - middle + size // 4
            inside.append((places >= 0) & (places < size // 2))
        return (inside[0][:, :, None] & inside[1][:, None, :])[..., None]


def _moved(values: Tensor, rows: Tensor, moves: Moves | None, outside: int) -> Tensor:
    """Gather images, or masks, through windows that show ``outside`` beyond the borders."""
    if moves is None:
        return values[rows]
    y, x, inside = moves
    found = values[rows[:, None, None], y, x]
    return torch.where(inside if found.ndim == inside.ndim else inside[..., None], found, outside)
