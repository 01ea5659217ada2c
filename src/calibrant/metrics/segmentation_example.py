"""One segmented image: its scores as predictions, its maps, and the pixels near borders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.arguments import check_whole
from calibrant.arrays import as_array, is_tensor, to_numpy
from calibrant.errors import InputError
from calibrant.predictions import IGNORED, Predictions, softmax

__all__ = ["BORDER", "Scene", "near_border", "pixel_predictions"]

BORDER = 3  # Pixels from a border that count as near it.


def pixel_predictions(
    logits: Any,
    mask: Any,
    image: int = 0,
    *,
    label_names: tuple[str, ...] | None = None,
    border: int = BORDER,
) -> Predictions:
    """Return the pixels of one image as examples, with the groups ``image`` and ``border``.

    ``logits`` has shape (height, width, K), classes last; ``mask`` has shape (height, width) and
    −100 where a pixel is ignored. The group ``image`` is the number of the image, so that pixels of
    one image stay together in a bootstrap; ``border`` is 1 within this many pixels of a border
    (:func:`~calibrant.metrics.segmentation_example.near_border`). A data set is a stream of these:
    ``audit(pixel_predictions(l, m, i) for i, (l, m) in enumerate(images))``.

    >>> p = pixel_predictions(np.zeros((1, 3, 2)), np.array([[0, 1, -100]]), image=7, border=1)
    >>> p.groups["image"], p.groups["border"]
    (array([7, 7]), array([1, 1], dtype=int8))
    """
    for what, given in (("logits", logits), ("a mask", mask)):
        if isinstance(given, (Predictions, Scene)):
            raise InputError(
                f"pixel_predictions takes arrays, got {type(given).__name__} as {what}."
            )
    scores, labels = as_array(logits), np.asarray(to_numpy(as_array(mask)))
    if scores.ndim != 3 or tuple(scores.shape[:2]) != labels.shape:
        raise InputError(
            "pixel_predictions expects logits (height, width, classes) and a mask (height, width), "
            f"got {tuple(scores.shape)} and {labels.shape}; where the classes come first: "
            "logits.movedim(0, -1), or np.moveaxis(logits, 0, -1)."
        )
    near = near_border(labels, border).astype(np.int8)
    number = np.full(labels.size, image)
    return Predictions.from_logits(
        scores.reshape(-1, scores.shape[-1]),
        labels.reshape(-1),
        label_names=label_names,
        groups={"image": number, "border": near.reshape(-1)},
    )


@dataclass(frozen=True, eq=False)
class Scene:
    """An image with its truth, prediction and confidence, each of its height and width.

    ``truth`` is −100 where a pixel is ignored. Made by :meth:`from_logits`, drawn by
    :func:`calibrant.plots.confidence_maps` and the report.

    >>> image = np.zeros((1, 3), np.uint8)
    >>> scene = Scene.from_logits(image, [[[3, 0], [3, 0], [0, 0]]], [[0, 1, -100]], name="cat.png")
    >>> scene.predicted, scene.wrong, scene.kept
    (array([[0, 0, 0]]), array([[False,  True, False]]), array([[ True,  True, False]]))
    """

    image: np.ndarray  # (height, width) or (height, width, 1 or 3), bytes
    truth: np.ndarray
    predicted: np.ndarray
    confidence: np.ndarray
    name: str = ""

    def __post_init__(self) -> None:
        size = self.truth.shape
        for what in ("image", "predicted", "confidence"):
            if getattr(self, what).shape[:2] != size or len(size) != 2:
                raise InputError(
                    f"A scene's {what} is as large as its truth {size}, got "
                    f"{getattr(self, what).shape}."
                )
        if self.image.dtype != np.uint8 or self.image.shape[2:] not in ((), (1,), (3,)):
            raise InputError(
                "A scene's image is bytes (height, width[, 1 or 3]), got "
                f"{self.image.dtype} {self.image.shape}."
            )

    @classmethod
    def from_logits(cls, image: Any, logits: Any, mask: Any, name: str = "") -> Scene:
        """Create the scene from logits (height, width, K).

        >>> scene = Scene.from_logits(np.zeros((1, 2), np.uint8), [[[2, 0], [0, 1]]], [[0, -100]])
        >>> scene.predicted, scene.wrong
        (array([[0, 1]]), array([[False, False]]))
        """
        scores = as_array(logits)
        scores = scores.detach().float().cpu().numpy() if is_tensor(scores) else np.asarray(scores)
        if scores.ndim != 3:
            raise InputError(f"A scene's logits are (height, width, K), got {scores.shape}.")
        return cls(
            np.asarray(to_numpy(as_array(image))),
            np.asarray(to_numpy(as_array(mask))),
            scores.argmax(-1),
            np.asarray(softmax(scores.astype(np.float64)).max(-1)),
            name,
        )

    @property
    def kept(self) -> np.ndarray:
        """A mask that is True where a pixel has a class."""
        return np.asarray(self.truth != IGNORED)

    @property
    def wrong(self) -> np.ndarray:
        """A mask that is True where a pixel with a class was predicted as another."""
        return np.asarray(self.kept & (self.predicted != self.truth))


def near_border(mask: np.ndarray, width: int = 3) -> np.ndarray:
    """Return True where another label lies within ``width`` pixels, diagonals included.

    ``mask`` has shape (…, height, width). Ignored pixels (−100) are a label too: the void band
    along an object is where its border is. The edge of the image is not a border.

    >>> near_border(np.array([[0, 0, 0, 0, 1, 1]]), width=1)
    array([[False, False, False,  True,  True, False]])
    """
    mask = _as_mask(mask)
    if mask.ndim < 2 or mask.dtype.kind not in "iu":
        raise InputError(
            "near_border expects a mask (…, height, width) of class numbers, got "
            f"{mask.dtype} {mask.shape}."
        )
    check_whole("near_border", "a whole number of pixels ≥ 0", width, 0)
    low, high = mask, mask
    for axis in (-2, -1):
        low, high = _extreme(np.minimum, low, width, axis), _extreme(np.maximum, high, width, axis)
    return np.asarray(low != high)


def _extreme(choose: np.ufunc, values: np.ndarray, width: int, axis: int) -> np.ndarray:
    """Return the least or largest value within ``width`` places along an axis."""
    values = np.moveaxis(values, axis, -1)
    found = values.copy()
    for shift in range(1, min(width, values.shape[-1] - 1) + 1):
        choose(found[..., shift:], values[..., :-shift], out=found[..., shift:])
        choose(found[..., :-shift], values[..., shift:], out=found[..., :-shift])
    return np.moveaxis(found, -1, axis)


def _as_mask(mask: Any) -> np.ndarray:
    try:
        return to_numpy(mask)
    except (TypeError, ValueError):
        raise InputError(f"near_border expects a mask, got a {type(mask).__name__}.") from None
