"""A small U-Net to train from scratch: features at the resolution of the image."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["SmallUNet"]


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
        """Features of shape (images, width, height, width of the image)."""
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
