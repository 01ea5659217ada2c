"""Networks that classify pixels, and the one place where the axis of the classes moves.

Convolutions have their channels second, (images, channels, height, width); losses, methods and
Predictions have their classes last, (…, K), with any axes before. :class:`PixelHead` converts
between the two: its features and logits have the last axis last. A method that reads the head's
input, or runs the head on other features, finds the same layout as in any other model.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from calibrant.errors import InputError, unknown_name
from calibrant.extras import require
from calibrant.tasks.image.networks import load_network

__all__ = [
    "TORCHVISION",
    "PixelHead",
    "Segmenter",
    "SmallUNet",
    "build_segmenter",
    "load_segmenter",
]

SMALL = "unet"
TORCHVISION = ("deeplabv3_resnet50", "fcn_resnet50")


class SmallUNet(nn.Module):
    """Three resolutions down and up again, joined side by side (Ronneberger et al. 2015).

    Without its last layer, which is the head: features of ``width`` channels per pixel. Images may
    have any size.

    >>> SmallUNet(channels=3, width=8)(torch.zeros(2, 3, 30, 41)).shape
    torch.Size([2, 8, 30, 41])
    """

    def __init__(self, channels: int, width: int = 16) -> None:
        super().__init__()
        self.width = width
        self.down = nn.ModuleList(
            [_block(channels, width), _block(width, 2 * width), _block(2 * width, 4 * width)]
        )
        self.up = nn.ModuleList([_block(6 * width, 2 * width), _block(3 * width, width)])

    def forward(self, pixel_values: Tensor) -> Tensor:
        """Return features of shape (images, width, height, width of the image)."""
        levels = [self.down[0](pixel_values)]
        for block in list(self.down)[1:]:
            levels.append(block(functional.max_pool2d(levels[-1], 2, ceil_mode=True)))
        features: Tensor = levels.pop()
        for block in self.up:
            finer = levels.pop()
            size = finer.shape[-2:]
            wide = functional.interpolate(features, size, mode="bilinear", align_corners=False)
            features = block(torch.cat([finer, wide], dim=1))
        return features


def _block(before: int, after: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for channels in (before, after):
        layers += [
            nn.Conv2d(channels, after, 3, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
        ]
    return nn.Sequential(*layers)


class PixelHead(nn.Module):
    """Convolutional layers on features (images, height, width, d) to logits (…, K) of each pixel.

    If the features are coarser than the image, logits are interpolated to its ``size``.

    >>> head = PixelHead(nn.Conv2d(8, 5, 1))
    >>> head(torch.zeros(2, 4, 4, 8), size=torch.Size([16, 16])).shape
    torch.Size([2, 16, 16, 5])
    """

    def __init__(self, layers: nn.Module) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, features: Tensor, size: torch.Size) -> Tensor:
        """Return logits with the classes last."""
        logits: Tensor = self.layers(features.movedim(-1, 1))
        if logits.shape[-2:] != size:
            logits = functional.interpolate(logits, size, mode="bilinear", align_corners=False)
        return logits.movedim(1, -1)


class Segmenter(nn.Module):
    """A network of features, and a :class:`PixelHead`, which is found as ``classifier``.

    >>> Segmenter(SmallUNet(3, width=8), nn.Conv2d(8, 5, 1))(torch.zeros(2, 3, 16, 24)).shape
    torch.Size([2, 16, 24, 5])
    """

    def __init__(self, features: nn.Module, layers: nn.Module) -> None:
        super().__init__()
        self.features = features
        self.classifier = PixelHead(layers)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """Return logits of shape (images, height, width, classes)."""
        found: Any = self.features(pixel_values)
        found = found["out"] if isinstance(found, dict) else found  # As torchvision has it.
        logits: Tensor = self.classifier(found.movedim(1, -1), pixel_values.shape[-2:])
        return logits


def build_segmenter(
    name: str, channels: int, classes: int, seed: int = 0, width: int = 16
) -> Segmenter:
    """Build ``unet`` (:class:`.SmallUNet` of a ``width``), or torchvision's network by name.

    Weights are drawn from ``seed``; nothing is downloaded. Images of torchvision's networks have
    three channels.

    >>> model = build_segmenter("unet", channels=1, classes=4, width=8)
    >>> type(model.classifier.layers).__name__
    'Conv2d'
    """
    if name != SMALL and name not in TORCHVISION:
        raise unknown_name("segmentation network", name, (SMALL, *TORCHVISION))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if name == SMALL:
            return Segmenter(SmallUNet(channels, width), nn.Conv2d(width, classes, 1))
        if channels != 3:
            raise InputError(
                f"The network '{name}' takes images of 3 channels, got {channels}: take '{SMALL}'."
            )
        library = require("torchvision.models.segmentation", "image", f"The network '{name}'")
        made = getattr(library, name)(weights=None, weights_backbone=None, num_classes=classes)
        return Segmenter(made.backbone, made.classifier)


def load_segmenter(folder: str | Path) -> tuple[Segmenter, dict[str, Any]]:
    """Load the model of a run, in evaluation mode, and what its ``config.json`` says."""
    return load_network(folder, _build, "segmentation network")


def _build(about: dict[str, Any]) -> Segmenter:
    sizes = len(about["mean"]), len(about["labels"])
    return build_segmenter(about["model"], *sizes, width=about["width"])
