"""From images to masks: the class of each pixel with calibrated confidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.errors import InputError
from calibrant.policies import Policy
from calibrant.tasks.image.predictor import OfImages, normalised, read_image
from calibrant.tasks.predictor import Acceptance, check_top_k, ranked, unlabelled

__all__ = ["Mask", "MaskPredictor"]

_REFUSED = 255  # In the picture of a mask: not accepted.


@dataclass(frozen=True, eq=False)
class Mask:
    """The class of each pixel, (height, width), with its calibrated confidence.

    ``accepted`` is false where the confidence does not reach the threshold. ``alternatives``
    has the numbers of the next classes, (height, width, top_k − 1), and ``alternative_confidence``
    their probabilities. ``labels`` names the classes.
    """

    labels: tuple[str, ...]
    classes: np.ndarray
    confidence: np.ndarray
    accepted: np.ndarray
    alternatives: np.ndarray | None = None
    alternative_confidence: np.ndarray | None = None

    def pictures(self) -> tuple[np.ndarray, np.ndarray]:
        """Return bytes (height, width): the number of each pixel's class, and its confidence.

        255 is a pixel that is not accepted, and a confidence of 1.
        """
        if len(self.labels) > _REFUSED:
            raise InputError(f"A mask can show {_REFUSED} classes, got {len(self.labels)}.")
        classes = np.where(self.accepted, self.classes, _REFUSED).astype(np.uint8)
        return classes, np.round(255 * self.confidence).astype(np.uint8)

    def cells(self) -> list[dict[str, Any]]:
        """Return the row of a table, by :meth:`MaskPredictor.columns`."""
        found = self.to_dict()
        classes = found.pop("classes")
        shares = {f"pixels:{name}": numbers["pixels"] for name, numbers in classes.items()}
        return [{**found, **dict.fromkeys((f"pixels:{n}" for n in self.labels), 0), **shares}]

    def to_dict(self) -> dict[str, Any]:
        """Return a summary as data for JSON: the share and mean confidence of each class."""
        pixels = np.bincount(self.classes.ravel(), minlength=len(self.labels))
        sums = np.bincount(self.classes.ravel(), self.confidence.ravel(), len(self.labels))
        return {
            "height": self.classes.shape[0],
            "width": self.classes.shape[1],
            "confidence": float(self.confidence.mean()),
            "accepted": float(self.accepted.mean()),
            "classes": {
                name: {"pixels": int(n), "confidence": float(total / n)}
                for name, n, total in zip(self.labels, pixels, sums, strict=True)
                if n
            },
        }


class MaskPredictor(OfImages):
    """Predicts the class of each pixel of images: files, pictures of Pillow, arrays of bytes.

    Images keep their size. ``about`` has the ``mean`` and ``deviation`` of the training images.
    """

    items = "pixels"
    makes_masks = True
    block = 16  # Masks are large.

    def stream(
        self,
        inputs: Iterable[Any],
        *,
        top_k: int = 1,
        **options: Any,
    ) -> Iterator[Mask]:
        """Predict as :meth:`predict`, a few images at a time; those of equal size run together."""
        check_top_k(top_k)
        accept = self.acceptance(**options)
        for images in self._few(inputs):
            for logits in self._logits(images):
                yield self._mask(logits, top_k, accept)

    def _few(self, inputs: Iterable[Any]) -> Iterator[list[np.ndarray]]:
        """Yield images, at least one at a time and as many as the model takes at once."""
        waiting: list[np.ndarray] = []
        for given in inputs:
            image = read_image(given, len(self.about["mean"]))
            if waiting and sum(each.size for each in waiting) + image.size > self.scorer.pixels:
                yield waiting
                waiting = []
            waiting.append(image)
        if waiting:
            yield waiting

    def _logits(self, images: list[np.ndarray]) -> list[np.ndarray]:
        """Return the logits of each image, (height, width, classes)."""
        of_size: dict[tuple[int, ...], list[int]] = {}
        for number, image in enumerate(images):
            of_size.setdefault(image.shape, []).append(number)
        found: dict[int, np.ndarray] = {}
        for numbers in of_size.values():
            batch = normalised(np.stack([images[number] for number in numbers]), self.about)
            found |= zip(numbers, self.scorer(pixel_values=batch), strict=True)
        return [found[number] for number in range(len(images))]

    def _check_policy(self, policy: Policy, **options: Any) -> None:
        if policy.kind == "coverage":
            raise InputError("A policy with a coverage gives sets of classes, which no mask shows.")
        super()._check_policy(policy, **options)

    def columns(self, top_k: int, accept: Acceptance) -> list[str]:  # noqa: ARG002
        """Return the columns of a table of masks: size, confidence, pixels of each class."""
        shares = [f"pixels:{name}" for name in self.labels]
        return ["height", "width", "confidence", "accepted", *shares]

    def _mask(self, logits: np.ndarray, top_k: int, accept: Acceptance) -> Mask:
        rows = unlabelled(logits.reshape(-1, len(self.labels)), {}, self.labels)
        probabilities = np.asarray(self.calibrator.transform(rows).probabilities(), np.float32)
        order = ranked(probabilities, top_k)
        values = np.take_along_axis(probabilities, order, axis=1)
        size = logits.shape[:2]
        names: Any = np.array(self.labels)[order[:, 0]]
        accepted = accept.decide(values[:, 0], names)
        numbers = order.astype(np.int16).reshape(*size, -1)
        shares = values.reshape(*size, -1)
        rest = (numbers[..., 1:], shares[..., 1:]) if top_k > 1 else (None, None)
        return Mask(self.labels, numbers[..., 0], shares[..., 0], accepted.reshape(size), *rest)

    def example(self, size: int = 2) -> dict[str, tuple[np.ndarray, tuple[int, ...]]]:
        """Return normalised images, whose number and size are free."""
        shape = (size, len(self.about["mean"]), 24 + 5 * size, 32 + 3 * size)
        pixels = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        return {"pixel_values": (pixels, (0, 2, 3))}

    def settings(self) -> dict[str, Any]:
        """Return mean and deviation of the images."""
        return {name: self.about[name] for name in ("mean", "deviation")}
