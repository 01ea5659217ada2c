"""Small networks for small images, and the folder that holds a trained network."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor, nn

from calibrant.errors import InputError
from calibrant.extras import require
from calibrant.inputs import parse_json

__all__ = ["LeNet", "SmallConvNet", "load_network", "write_network"]

N = TypeVar("N", bound=nn.Module)


class LeNet(nn.Module):
    """Two convolutions of 5×5 with pooling and two hidden layers, as features of width 84.

    Rectified units and max-pooling replace the tanh and mean of the paper; padding keeps something
    of images of 8×8. Reference: LeCun et al., Gradient-Based Learning Applied
    to Document Recognition, 1998.

    >>> import torch
    >>> LeNet(channels=1, size=8)(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 84])
    """

    width = 84

    def __init__(self, channels: int, size: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, 6, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(16 * (size // 4) ** 2, 120),
            nn.ReLU(),
            nn.Linear(120, self.width),
            nn.ReLU(),
        )

    def forward(self, pixel_values: Tensor) -> Tensor:
        """Return features of shape (images, 84)."""
        features: Tensor = self.layers(pixel_values)
        return features


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
        """Return logits of shape (images, classes)."""
        logits: Tensor = self.classifier(self.features(pixel_values))
        return logits


def write_network(model: nn.Module, folder: Path, about: dict[str, Any]) -> None:
    """Write weights as safetensors, and ``about`` as ``config.json``."""
    safetensors = require("safetensors.torch", "files", "Writing a model")
    state = {name: value.contiguous() for name, value in model.state_dict().items()}
    safetensors.save_file(state, str(folder / "model.safetensors"))
    (folder / "config.json").write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n")


def load_network(
    folder: str | Path, build: Callable[[dict[str, Any]], N], what: str
) -> tuple[N, dict[str, Any]]:
    """Load ``what`` :func:`write_network` wrote, in evaluation mode, and its ``about``."""
    safetensors = require("safetensors.torch", "files", "Reading a model")
    folder = Path(folder)
    try:
        about: dict[str, Any] = parse_json((folder / "config.json").read_text())
        model = build(about)
        model.load_state_dict(safetensors.load_file(str(folder / "model.safetensors")))
    except InputError:
        raise
    except Exception as error:  # A damaged folder may raise anything.
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"{folder} does not hold a loadable {what}: {reason}") from None
    return model.eval(), about
