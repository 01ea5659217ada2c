"""A small convolutional network for small images, to train from scratch."""

from __future__ import annotations

from torch import Tensor, nn

__all__ = ["SmallConvNet"]


class SmallConvNet(nn.Module):
    """Two convolutions, each halving the image, their mean over the image, and a linear head.

    >>> import torch
    >>> SmallConvNet(channels=1, classes=10)(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    """

    def __init__(self, channels: int, classes: int, width: int = 32) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.MaxPool2d(2, ceil_mode=True),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
        )
        self.classifier = nn.Linear(8 * width, classes)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """Logits of shape (images, classes)."""
        logits: Tensor = self.classifier(self.features(pixel_values))
        return logits
