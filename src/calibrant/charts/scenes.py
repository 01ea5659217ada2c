"""Colours of a scene: classes, confidence and mistakes as images, with NumPy only.

The figures and the HTML report show the same pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from calibrant.charts.numbers import percent
from calibrant.metrics.segmentation_example import Scene
from calibrant.predictions import IGNORED

__all__ = [
    "Picture", "class_colours", "class_map", "confidence_map_of", "mistake_map", "picture",
    "scene_pictures", "shrunk", "visible_classes",
]  # fmt: skip

# Okabe & Ito (2008); the first class is usually the background, and grey.
_CLASSES = (
    "#b8bec7", "#e69f00", "#56b4e9", "#009e73", "#d55e00", "#cc79a7", "#0072b2", "#f0e442",
)  # fmt: skip
VOID = (255, 255, 255)
_RIGHT = (226, 229, 233)
# From pale to deep: deeper is more confident, as in Liu et al. 2022.
_CONFIDENCE = np.array([(247, 251, 255), (158, 202, 225), (49, 130, 189), (8, 48, 107)], float)
_MISTAKE = np.array([(253, 224, 200), (244, 130, 60), (165, 30, 10)], float)


# Classes named in a legend; more could not be distinguished.
_MOST_NAMES = 12


class Picture(NamedTuple):
    """One view of a scene: (height, width, 3) bytes, and words for readers who cannot see it."""

    title: str
    pixels: np.ndarray
    words: str


def scene_pictures(scene: Scene, classes: int) -> list[Picture]:
    """Return the five views of a scene: image, truth, prediction, confidence and mistakes."""
    name = scene.name or "a scene"
    right = 1 - scene.wrong.sum() / max(1, scene.kept.sum())
    mean = float(scene.confidence[scene.kept].mean()) if scene.kept.any() else float("nan")
    return [
        Picture("Image", picture(scene), f"Image of {name}"),
        Picture("Truth", class_map(scene.truth, classes), f"True classes in {name}"),
        Picture("Prediction", class_map(scene.predicted, classes), f"Predicted classes in {name}"),
        Picture(
            "Confidence",
            confidence_map_of(scene.confidence, classes),
            f"Confidence in {name}: {percent(mean)} on average, deeper where higher",
        ),
        Picture(
            "Mistakes",
            mistake_map(scene, classes),
            f"Mistakes in {name}: {percent(float(right))} of the pixels are right; wrong ones are "
            "deeper the more confident",
        ),
    ]


def visible_classes(scenes: Sequence[Scene]) -> list[int]:
    """Return the first twelve classes that are true or predicted somewhere."""
    seen = np.unique(np.concatenate([np.append(s.truth, s.predicted) for s in scenes]))
    return [int(k) for k in seen[seen >= 0][:_MOST_NAMES]]


def class_colours(classes: int) -> np.ndarray:
    """Return (K, 3) bytes: eight colours that everybody can distinguish, then evenly spread hues.

    >>> class_colours(2)
    array([[184, 190, 199],
           [230, 159,   0]], dtype=uint8)
    """
    named = [[int(code[i : i + 2], 16) for i in (1, 3, 5)] for code in _CLASSES[:classes]]
    further = np.arange(max(0, classes - len(_CLASSES)))
    # Steps of the golden ratio never repeat a hue.
    hue = (0.6180339887 * further[:, None] + np.array([0, 1 / 3, 2 / 3])) % 1
    light = np.where(further % 2, 0.55, 0.8)[:, None]
    spread = 255 * light * (0.35 + 0.65 * np.clip(np.abs(6 * hue - 3) - 1, 0, 1))
    return np.concatenate([np.array(named).reshape(-1, 3), spread]).round().astype(np.uint8)


def class_map(labels: np.ndarray, classes: int) -> np.ndarray:
    """Return (height, width, 3) bytes: the colour of each pixel's class, white if ignored."""
    table = np.concatenate([class_colours(classes), np.array([VOID], np.uint8)])
    return np.asarray(table[np.where(labels == IGNORED, classes, labels)])


def confidence_map_of(confidence: np.ndarray, classes: int) -> np.ndarray:
    """Return (height, width, 3) bytes: pale at confidence 1 / K, the lowest, deep at 1.

    >>> confidence_map_of(np.array([[0.5, 1.0]]), classes=2)
    array([[[247, 251, 255],
            [  8,  48, 107]]], dtype=uint8)
    """
    least = 1 / classes
    return _blend(_CONFIDENCE, (np.asarray(confidence, float) - least) / (1 - least))


def mistake_map(scene: Scene, classes: int) -> np.ndarray:
    """Return grey where right, white where ignored; where wrong, deeper is more confident."""
    least = 1 / classes
    shown = _blend(_MISTAKE, (scene.confidence - least) / (1 - least))
    shown[scene.kept & ~scene.wrong] = _RIGHT
    shown[~scene.kept] = VOID
    return shown


def picture(scene: Scene) -> np.ndarray:
    """Return (height, width, 3) bytes of the image itself."""
    image = scene.image.reshape(*scene.image.shape[:2], -1)
    return np.ascontiguousarray(np.broadcast_to(image, (*image.shape[:2], 3)))


def shrunk(scene: Scene, side: int = 256) -> Scene:
    """Return the scene thinned to every s-th pixel, so that no side exceeds ``side``."""
    step = -(-max(scene.truth.shape) // side)
    if step <= 1:
        return scene
    image, truth, predicted, confidence = (
        part[::step, ::step]
        for part in (scene.image, scene.truth, scene.predicted, scene.confidence)
    )
    return Scene(image, truth, predicted, confidence, scene.name)


def _blend(colours: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Interpolate between colours: return the colour at each share of the way."""
    place = np.clip(share, 0, 1) * (len(colours) - 1)
    channels = [np.interp(place, np.arange(len(colours)), channel) for channel in colours.T]
    return np.stack(channels, axis=-1).round().astype(np.uint8)
