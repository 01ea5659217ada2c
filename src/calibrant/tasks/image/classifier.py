"""Image classifiers by name: an encoder of images and a head, to train from scratch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from calibrant.errors import InputError, unknown_name
from calibrant.extras import require
from calibrant.tasks.encoders.heads import build_head
from calibrant.tasks.image.networks import LeNet, SmallConvNet, load_network
from calibrant.tasks.scoring import Scored, TorchScorer, in_place
from calibrant.training.images import Images
from calibrant.training.loop_resources import as_written

__all__ = [
    "IMAGE_MODELS",
    "ImageClassifier",
    "Shape",
    "build_classifier",
    "image_scores",
    "load_classifier",
]

_VALUES = 1 << 22  # Values of pixels per forward pass.
_MOST_PATCHES = 32  # Along a side.
_SMALL = 64  # Smaller images would almost vanish in the stem that ImageNet needs.


class Shape(NamedTuple):
    """The size and channels of the square images that a classifier takes."""

    channels: int
    size: int


class ImageClassifier(nn.Module):
    """``encoder`` makes features of an image, ``classifier`` the logits of the classes."""

    def __init__(self, encoder: nn.Module, classifier: nn.Module) -> None:
        super().__init__()
        self.encoder, self.classifier = encoder, classifier

    def forward(self, pixel_values: Tensor) -> Tensor:
        """Return logits of shape (images, classes)."""
        logits: Tensor = self.classifier(self.encoder(pixel_values))
        return logits


def _lenet(shape: Shape) -> tuple[nn.Module, int]:
    return LeNet(shape.channels, shape.size), LeNet.width


def _tiny(shape: Shape) -> tuple[nn.Module, int]:
    whole = SmallConvNet(shape.channels, classes=1)
    return whole.features, whole.classifier.in_features


def _resnet(
    name: str, *, small_stem: bool = False, **options: Any
) -> Callable[[Shape], tuple[nn.Module, int]]:
    """Build torchvision's; for small images with a 3×3 stem that keeps their size, no pooling.

    A ``small_stem`` is the same for larger images, which it halves.
    """

    def build(shape: Shape) -> tuple[nn.Module, int]:
        models = _library("torchvision.models", f"The model '{name}'")
        network = getattr(models, name)(weights=None, **options)
        keeps_size = shape.size < _SMALL
        if keeps_size or small_stem or shape.channels != 3:
            small = {"kernel_size": 3, "stride": 1 if keeps_size else 2, "padding": 1}
            large = {"kernel_size": 7, "stride": 2, "padding": 3}
            chosen: Any = small if keeps_size or small_stem else large
            network.conv1 = nn.Conv2d(shape.channels, 64, bias=False, **chosen)
            nn.init.kaiming_normal_(network.conv1.weight, mode="fan_out", nonlinearity="relu")
        if keeps_size or small_stem:
            network.maxpool = nn.Identity()
        width = network.fc.in_features
        network.fc = nn.Identity()
        return network, width

    return build


def _vit(width: int, heads: int) -> Callable[[Shape], tuple[nn.Module, int]]:
    """Build timm's vision transformer of twelve layers, with patches that ``_patch`` chooses."""

    def build(shape: Shape) -> tuple[nn.Module, int]:
        models = _library("timm.models.vision_transformer", "A vision transformer")
        network = models.VisionTransformer(
            img_size=shape.size,
            patch_size=_patch(shape),
            in_chans=shape.channels,
            embed_dim=width,
            depth=12,
            num_heads=heads,
            num_classes=0,
        )
        return network, width

    return build


def _mixer(width: int, blocks: int) -> Callable[[Shape], tuple[nn.Module, int]]:
    """Build timm's MLP-Mixer, with the same patches."""

    def build(shape: Shape) -> tuple[nn.Module, int]:
        models = _library("timm.models.mlp_mixer", "An MLP-Mixer")
        network = models.MlpMixer(
            img_size=shape.size,
            patch_size=_patch(shape),
            in_chans=shape.channels,
            embed_dim=width,
            num_blocks=blocks,
            num_classes=0,
        )
        return network, width

    return build


def _library(module: str, purpose: str) -> Any:
    try:
        return require(module, "image", purpose)
    except RuntimeError as error:  # It was compiled for another torch.
        raise InputError(
            f"{purpose} needs a torchvision made for torch {torch.__version__}, and the one that "
            f"is installed is not: {str(error).splitlines()[0]}."
        ) from None


def _patch(shape: Shape) -> int:
    """Return the side of a patch: it divides the image, and is near an eighth of it or 16."""
    wanted = shape.size / 8 if shape.size < _SMALL else 16
    sides = (side for side in range(1, shape.size + 1) if shape.size % side == 0)
    patch = min(sides, key=lambda side: abs(side - wanted))
    if not 1 < shape.size // patch <= _MOST_PATCHES:
        raise InputError(
            f"Images of {shape.size}×{shape.size} cannot be cut into patches of about {wanted:g} "
            "pixels a side: set an image size, such as a multiple of 8."
        )
    return patch


# Name → how an encoder for images of some shape is made, with the width of its features.
IMAGE_MODELS: dict[str, Callable[[Shape], tuple[nn.Module, int]]] = {
    "lenet": _lenet,
    "tiny": _tiny,
    "resnet18": _resnet("resnet18"),
    "resnet34": _resnet("resnet34"),
    # Every block starts as the identity (Goyal et al. 2017); else high learning rates learn slowly.
    "resnet50": _resnet("resnet50", zero_init_residual=True),
    "resnet18_small_stem": _resnet("resnet18", small_stem=True),
    "resnet50_small_stem": _resnet("resnet50", small_stem=True, zero_init_residual=True),
    "wide_resnet50_2": _resnet("wide_resnet50_2", zero_init_residual=True),
    "vit_tiny": _vit(width=192, heads=3),
    "vit_small": _vit(width=384, heads=6),
    "mlp_mixer": _mixer(width=256, blocks=8),
    "mlp_mixer_small": _mixer(width=512, blocks=8),
}


def build_classifier(
    model: str,
    shape: Shape,
    classes: int,
    seed: int = 0,
    *,
    width: int = 128,
    depth: int = 0,
    activation: str = "relu",
) -> ImageClassifier:
    """Build a network by name, drawn from ``seed`` alone; the head has ``depth`` hidden layers.

    >>> model = build_classifier("lenet", Shape(channels=1, size=8), classes=10)
    >>> model(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    """
    if model not in IMAGE_MODELS:
        raise unknown_name("image model", model, IMAGE_MODELS)
    if shape.size < 8:
        raise InputError(f"Networks need images of at least 8×8, got {shape.size}×{shape.size}.")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder, features = IMAGE_MODELS[model](shape)
        head = build_head(features, classes, width, depth, activation, dropout=0.0)
        return ImageClassifier(encoder, head)


def load_classifier(folder: str | Path) -> tuple[nn.Module, dict[str, Any]]:
    """Load the model of a run, in evaluation mode, and what is known about its images."""
    from calibrant.tasks.image.fine_tuned import load_wrapped

    return load_wrapped(Path(folder)) or load_network(folder, _build, "image classifier")


def _build(about: dict[str, Any]) -> ImageClassifier:
    head = {name: about[name] for name in ("width", "depth", "activation")}
    shape = Shape(about["channels"], about["size"])
    return build_classifier(about["model"], shape, len(about["labels"]), **head)


def image_scores(model: nn.Module, images: Images) -> Scored:
    """Return float32 logits (images, classes), and the signals of a model that computes some."""
    size = max(1, _VALUES // images.pixels[0].numel())
    scorer, found = TorchScorer(model, str(images.device)), []
    with as_written():
        for start in range(0, len(images), size):
            rows = torch.arange(start, min(start + size, len(images)), device=images.device)
            pixels: Any = images.batch(rows, images.longest)["pixel_values"]
            found.append(scorer.scored(pixel_values=pixels))
    return in_place(found, np.arange(len(images)))
