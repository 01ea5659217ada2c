"""From images to classes with calibrated confidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from calibrant.arrays import to_numpy
from calibrant.errors import InputError
from calibrant.inputs import check_file, shortened
from calibrant.tasks.class_predictor import ClassPredictor
from calibrant.tasks.evidence import read_calibration
from calibrant.tasks.image.framing import Framing, frame_of
from calibrant.tasks.image.picture_files import in_channels, open_image, resized
from calibrant.tasks.predictor import ModelPredictor
from calibrant.tasks.run_files import check_classes, read_labels
from calibrant.tasks.scoring import Scored, TorchScorer, in_place

__all__ = ["ImagePredictor", "OfImages", "load_trained", "normalised", "read_image"]


class OfImages(ModelPredictor):
    """Predicts images: files, pictures of Pillow, or arrays of bytes."""

    unit = "images"

    def as_inputs(self, inputs: Any) -> Iterable[Any]:
        """Return the images one by one; a single file or picture counts as a list of one."""
        grey = isinstance(inputs, np.ndarray) and inputs.ndim == 2
        if grey or isinstance(inputs, (str, Path)) or hasattr(inputs, "convert"):
            return [inputs]
        return list(inputs) if isinstance(inputs, np.ndarray) else inputs


class ImagePredictor(OfImages, ClassPredictor):
    """Predicts the class of each image: a file, a Pillow image, or an array of bytes.

    ``about`` has the ``size`` and ``channels`` that the model takes and the ``mean`` and
    ``deviation`` of its training images. Pictures of another size are brought to it; grey ones
    become three equal channels where the model takes colours.
    """

    def scored(self, inputs: Sequence[Any]) -> Scored:
        """Return the raw logits of some images, (n, classes), and signals."""
        channels, size = int(self.about["channels"]), int(self.about["size"])
        frame = frame_of(self.about)
        step = max(1, self.scorer.pixels // (channels * size * size))
        found = []
        for start in range(0, len(inputs), step):
            images = [read_image(one, channels, frame) for one in inputs[start : start + step]]
            found.append(self.scorer.scored(pixel_values=normalised(np.stack(images), self.about)))
        return in_place(found, np.arange(len(inputs)))

    def example(self, size: int = 2) -> dict[str, tuple[np.ndarray, tuple[int, ...]]]:
        """Return normalised images."""
        shape = (size, int(self.about["channels"]), *[int(self.about["size"])] * 2)
        return {"pixel_values": (_noise(shape), (0,))}

    def settings(self) -> dict[str, Any]:
        """Return size, channels, mean and deviation of the images."""
        names = ("size", "channels", "mean", "deviation", "framing")
        return {name: self.about[name] for name in names if name in self.about}


def _noise(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def read_image(given: Any, channels: int, size: Framing | int | None = None) -> np.ndarray:
    """Return an image as bytes (height, width, channels), brought to ``size`` if that is given.

    >>> read_image(np.zeros((8, 8), np.uint8), channels=3).shape
    (8, 8, 3)
    """
    if isinstance(given, (str, Path)):
        where, image = str(given), open_image(check_file(given), size)
    elif hasattr(given, "convert"):  # A picture of Pillow.
        where, image = "The picture", resized(given, size)
    else:
        where, image = "The array", _from_array(given, size)
    image = in_channels(image, channels)
    if image.shape[-1] != channels:
        raise InputError(
            f"{where} has {image.shape[-1]} channels, and the model was trained on {channels}."
        )
    return image


def _from_array(given: Any, size: Framing | int | None) -> np.ndarray:
    image = np.asarray(to_numpy(given)) if hasattr(given, "shape") else None
    if image is None or image.dtype != np.uint8 or image.ndim not in (2, 3) or not image.size:
        got = shortened(repr(given)) if image is None else f"{image.dtype} {image.shape}"
        raise InputError(
            "An image is a file, a Pillow image or an array of bytes (height, width[, "
            f"channels]), got {got}."
        )
    image = image[..., None] if image.ndim == 2 else image
    if size is None or image.shape[:2] == (size, size):
        return image
    if image.shape[-1] not in (1, 3):
        raise InputError(
            f"Images of {image.shape[-1]} channels cannot be brought to {size} × {size} pixels: "
            "give them in that size."
        )
    from calibrant.extras import require

    pillow = require("PIL.Image", "data", "Bringing images to a size")
    return resized(pillow.fromarray(image[..., 0] if image.shape[-1] == 1 else image), size)


def normalised(images: np.ndarray, about: Mapping[str, Any]) -> np.ndarray:
    """Return bytes (n, height, width, channels) as the model takes them: channels second, float32.

    >>> normalised(np.full((1, 2, 2, 1), 9, np.uint8), {"mean": [5.0], "deviation": [2.0]})[0, 0, 0]
    array([2., 2.], dtype=float32)
    """
    mean, deviation = (np.asarray(about[name], np.float32) for name in ("mean", "deviation"))
    normal = (images.astype(np.float32) - mean) / deviation
    return np.ascontiguousarray(normal.transpose(0, 3, 1, 2))


_P = TypeVar("_P")


def load_trained(
    predictor: Callable[..., _P], model: tuple[Any, Mapping[str, Any]], folder: Path, device: str
) -> _P:
    """Return a predictor of images with the calibrator of the finished run in ``folder``.

    ``model`` is the network of the run and what is known about its images.
    """
    labels, (network, about) = read_labels(folder), model
    check_classes(folder, labels, "its model", len(about["labels"]))
    from calibrant.tasks.feature_signals import with_saved_signals

    scorer = TorchScorer(with_saved_signals(network, folder).to(device), device)
    return predictor(scorer, labels, *read_calibration(folder, labels), about)
