"""Images of one size, normalised by those of training: to train on, or to evaluate a run."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from calibrant.corruptions import IMAGE, RANDOM_DAMAGE, known_corruption
from calibrant.errors import InputError
from calibrant.methods import create
from calibrant.predictions import IGNORED, Predictions
from calibrant.tasks.damage_signal import DamageReader, learned_damage
from calibrant.tasks.feature_signals import with_saved_signals
from calibrant.tasks.image.classifier import Shape, image_scores, load_classifier
from calibrant.tasks.image.framing import frame_of
from calibrant.tasks.image.networks import SmallConvNet
from calibrant.tasks.image.picture_arrays import channel_moments
from calibrant.tasks.image.picture_files import in_channels
from calibrant.tasks.image.pictures import Pictures, load_pictures, load_test_pictures
from calibrant.tasks.reading.class_labels import known_classes, some_examples
from calibrant.tasks.reading.fingerprint import data_state
from calibrant.tasks.reading.splits import carve, part_of
from calibrant.tasks.task import EvaluationTarget, LabelledExamples
from calibrant.training.images import Images, parse_augmentation

if TYPE_CHECKING:
    from calibrant.experiments.recipe import Recipe
    from calibrant.tasks.encoders.fine_tuned import FineTuned

__all__ = ["ImageData", "LabelledImages", "Part", "prepare", "shifted_tests"]

_SEED = 0  # For corruptions and the held-out part: the same in every run.
_DAMAGED, _BATCH = 3000, 256  # Training images that show what damage looks like; of a pass.
_TOGETHER = 512  # Images whose moments are computed at once.
_COPY_SEED = 1  # Of the copies that calibrators learn from: not that of shifted tests.


class Part(NamedTuple):
    """Images (n, height, width, channels) of bytes and their classes, −100 for none."""

    images: np.ndarray
    classes: np.ndarray


class ImageData:
    """Images by split; a batch has tensors (channels, height, width) of mean 0 and deviation 1.

    ``mean`` and ``deviation`` are those of the training split. ``held`` is taken from it where a
    method needs it; ``ood`` may hold images of no class. A fine-tuned model (``own``) brings mean
    and deviation in ``about``.
    """

    def __init__(
        self,
        pictures: Pictures,
        augment: frozenset[str] = frozenset(),
        held: bool = False,
        *,
        own: FineTuned | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self.pictures, self.augment = pictures, augment
        self.own, self.about = own, about or {}
        self.name, self.labels, self.notes = pictures.name, pictures.labels, tuple(pictures.notes)
        self.splits: Mapping[str, Part] = _split(pictures, held)
        if own is not None:
            self.mean, self.deviation = (np.asarray(self.about[k]) for k in ("mean", "deviation"))
            return
        train = pictures.images["train"]
        starts = range(0, len(train), _TOGETHER)
        self.mean, self.deviation = channel_moments(train[i : i + _TOGETHER] for i in starts)

    @property
    def shape(self) -> Shape:
        """The shape of the images, which are square."""
        _, height, width, channels = self.splits["dev"].images.shape
        if height != width:
            raise InputError(
                f"Networks take square images, got {height}×{width} from '{self.name}': set "
                "image_size to resize them."
            )
        return Shape(channels, height)

    @property
    def parts(self) -> dict[str, Part]:
        """What is predicted; an out-of-domain part only if some of it has classes."""
        found = {"valid": self.splits["dev"], "test": self.splits["test"]}
        ood = self.splits.get("ood")
        if ood is not None and (ood.classes != IGNORED).any():
            found["ood"] = ood
        return found

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of all images and labels."""
        digest = hashlib.sha256("\0".join(self.labels).encode())
        for split in sorted(self.splits):
            for values in self.splits[split]:
                digest.update(np.ascontiguousarray(values).tobytes())
        return digest.hexdigest()

    def load(self, split: str) -> list[dict[str, Any]]:
        """Return the images of a split, as they are."""
        part = part_of(self.splits, split)
        pairs = zip(part.images, part.classes.tolist(), strict=True)
        return [{"pixel_values": image, "labels": label} for image, label in pairs]

    def collate(self, examples: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return normalised images and their classes."""
        pixels = np.stack([example["pixel_values"] for example in examples])
        normal = ((pixels - self.mean) / self.deviation).astype(np.float32)
        return {
            "pixel_values": torch.as_tensor(normal.transpose(0, 3, 1, 2).copy()),
            "labels": torch.as_tensor(np.array([e["labels"] for e in examples], np.int64)),
        }

    def build_model(self, seed: int = 0) -> nn.Module:
        """Build a small convolutional network, drawn from ``seed`` alone."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return SmallConvNet(len(self.mean), len(self.labels))

    def windows(self, device: str) -> tuple[Images, Images | None]:
        """Put the training part, augmented, and the held-out one as it is, on a device."""
        if torch.device(device).type == "cuda":
            torch.backends.cudnn.benchmark = True  # All batches are of one size.
        return _windows(self, device)

    def predict(self, model: nn.Module, part: Part) -> Predictions:
        """Predict one row per image that has a class."""
        device = next(model.parameters()).device
        unlabelled = np.zeros(len(part.images), np.int64)
        found = image_scores(model, self.on_device(Part(part.images, unlabelled), device))
        return Predictions.from_logits(
            found.logits, part.classes, label_names=self.labels, signals=found.signals
        )

    def outside(self, model: nn.Module) -> Predictions | None:
        """Return predictions of the out-of-domain images of no class; their labels mean nothing."""
        ood = self.splits.get("ood")
        if ood is None or not (ood.classes == IGNORED).any():
            return None
        images = ood.images[ood.classes == IGNORED]
        return self.predict(model, Part(images, np.zeros(len(images), np.int64)))

    def copies(self, names: Sequence[str]) -> Iterator[tuple[str, Part]]:
        """Yield the validation split with each corruption, one at a time: they may be large."""
        for name in names:
            yield name, _corrupt(name, self.splits["dev"], _COPY_SEED)

    def damage(
        self, model: nn.Module, corruptions: Iterable[str] = RANDOM_DAMAGE
    ) -> DamageReader | None:
        """Learn from some training images, as they are and damaged at random."""
        train = self.splits["train"]
        rows = np.random.default_rng(0).permutation(len(train.images))[:_DAMAGED]
        part = Part(train.images[np.sort(rows)], np.zeros(len(rows), np.int64))
        device = next(model.parameters()).device

        def batches(part: Part) -> Iterator[Tensor]:
            images = self.on_device(part, device)
            for start in range(0, len(images), _BATCH):
                numbers = torch.arange(start, min(start + _BATCH, len(images)), device=device)
                yield images.batch(numbers, images.longest)["pixel_values"]

        damaged = (batches(_corrupt(name, part, _COPY_SEED)) for name in corruptions)
        return learned_damage(model, batches(part), damaged)

    def on_device(self, part: Part, device: Any, augment: frozenset[str] = frozenset()) -> Images:
        """Put some images on a device, normalised as those of training."""
        normal: dict[str, Any] = {"mean": self.mean, "deviation": self.deviation}
        return Images(*part, device, **normal, augment=augment)


def _split(pictures: Pictures, held: bool) -> dict[str, Part]:
    splits = {s: Part(pictures.images[s], pictures.classes[s]) for s in pictures.images}
    if held:
        train = splits["train"]
        both = carve(range(len(train.classes)), _SEED, pictures.name)
        for split, rows in zip(("train", "held"), both, strict=True):
            splits[split] = Part(train.images[rows], train.classes[rows])
    return splits


def prepare(recipe: Recipe, directory: str | None = None) -> ImageData:
    """Load the images of a recipe."""
    if recipe.wrapped:
        from calibrant.tasks.image.fine_tuned import prepare_wrapped

        return prepare_wrapped(recipe, directory)
    held = create(recipe.method, **recipe.method_options).needs_holdout
    augment = parse_augmentation(recipe.augment)
    state = data_state(recipe.data, "image", directory)
    return _prepare(recipe.data, directory, recipe.image_size, held, augment, state)


@functools.lru_cache(maxsize=4)
def _prepare(
    name: str,
    directory: str | None,
    size: int,
    held: bool,
    augment: frozenset[str],
    state: str,
) -> ImageData:
    return ImageData(_pictures(name, directory, size, state), augment, held)


@functools.lru_cache(maxsize=2)
def _pictures(
    name: str,
    directory: str | None,
    size: int,
    state: str,  # noqa: ARG001 – of the files: data that has changed is read again.
) -> Pictures:
    return load_pictures(name, directory, size=size or None)


@functools.lru_cache(maxsize=4)
def _windows(data: ImageData, device: str) -> tuple[Images, Images | None]:
    held = data.splits.get("held")
    train = data.on_device(data.splits["train"], device, data.augment)
    return train, None if held is None else data.on_device(held, device)


def shifted_tests(names: Sequence[str], data: ImageData) -> dict[str, Part]:
    """Return the test split corrupted: ``jpeg-3`` and so on, the same in every run."""
    return {name: _corrupted(name, data) for name in names}


@functools.lru_cache(maxsize=64)
def _corrupted(name: str, data: ImageData) -> Part:
    return _corrupt(name, data.splits["test"], _SEED)


def _corrupt(name: str, part: Part, seed: int) -> Part:
    from calibrant.corruptions.image import corrupt_bytes

    requested = known_corruption(name, IMAGE, of="images")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return Part(corrupt_bytes(part.images, *requested, seed=seed, device=device), part.classes)


class LabelledImages(LabelledExamples):
    """Images with one class each."""

    def __init__(self, target: EvaluationTarget) -> None:
        model, self.about = load_classifier(target.run.model)
        self.model = with_saved_signals(model, target.run.path).to(target.device)
        self.device, self.labels, data = target.device, target.run.labels(), target.data
        size = frame_of(self.about) if target.recipe.wrapped else target.recipe.image_size
        images, labels = load_test_pictures(
            data, target.directory, size or None, whole=not target.own
        )
        self.images = in_channels(images, self.about["channels"])
        self.classes = known_classes(some_examples(labels, data), self.labels, data)
        expected = (self.about["size"], self.about["size"], self.about["channels"])
        if self.images.shape[1:] != expected:
            raise InputError(
                f"{data}: expected images {expected}, which the model was trained on, got "
                f"{self.images.shape[1:]}."
            )

    def predict(self, corruption: tuple[str, int] | None, seed: int) -> Predictions:
        """Predict one row per image."""
        from calibrant.corruptions.image import corrupt_bytes

        images = self.images
        if corruption is not None:
            images = corrupt_bytes(images, *corruption, seed=seed, device=self.device)
        normal = {name: self.about[name] for name in ("mean", "deviation")}
        found = image_scores(
            self.model, Images(images, np.asarray(self.classes), self.device, **normal)
        )
        return Predictions.from_logits(
            found.logits, self.classes, label_names=self.labels, signals=found.signals
        )
