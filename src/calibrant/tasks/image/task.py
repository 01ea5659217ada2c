"""Image classification as a task."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from calibrant.corruptions import IMAGE, IMAGE_COPIES, known_corruption
from calibrant.errors import unknown_name
from calibrant.tasks.task import EvaluationTarget, Task

if TYPE_CHECKING:
    from torch import nn

    from calibrant.experiments.recipe import Recipe
    from calibrant.tasks.encoders.fine_tuned import FineTuned
    from calibrant.tasks.image.classifier import ImageClassifier
    from calibrant.tasks.image.data import ImageData, LabelledImages, Part
    from calibrant.tasks.image.predictor import ImagePredictor, OfImages
    from calibrant.tasks.scoring import Scorer

__all__ = ["Image", "ImageTask"]


class ImageTask(Task):
    """A task of images: a network by name, trained from scratch on images in device memory."""

    corruptions = IMAGE

    @abstractmethod
    def load_network(self, folder: Path) -> tuple[nn.Module, Mapping[str, Any]]:
        """Return the network of a run, and what is known about its images."""

    @abstractmethod
    def predictor_class(self) -> type[OfImages]:
        """Return the class of its predictors."""

    def predictor(
        self,
        folder: Path,
        recipe: Mapping[str, Any],  # noqa: ARG002
        device: str,
    ) -> OfImages:
        """Return the predictor of a run."""
        from calibrant.tasks.image.predictor import load_trained

        network = self.load_network(folder / "model")
        return load_trained(self.predictor_class(), network, folder, device)

    def exported(
        self, folder: Path, labels: tuple[str, ...], settings: Mapping[str, Any], scorer: Scorer
    ) -> OfImages:
        """Return the predictor of an export."""
        from calibrant.tasks.evidence import read_calibration

        return self.predictor_class()(scorer, labels, *read_calibration(folder, labels), settings)


class Image(ImageTask):
    """One class for each image."""

    name = "image"
    summary = "image classification: one class for each image"
    embedded = "digits"
    known_data = "digits, cifar10, tiny-imagenet"
    known_models = "lenet, tiny, resnet18, resnet50, vit_tiny, mlp_mixer, …"
    hint = "Try: calibrant predict {run} images/ -o out.jsonl"
    default_copies = IMAGE_COPIES
    defaults: ClassVar[Mapping[str, Any]] = {
        "data": "digits",
        "model": "lenet",
        "head_depth": 0,
        "epochs": 20,
        "batch": 64,
        "optimizer": "sgd",
        "learning_rate": 0.1,
        "weight_decay": 5e-4,
        "decay": "cosine",
        "warm_up": 0.1,
        "clip": 0.0,
        "augment": "crop",
    }
    own_settings = ("augment", "compile", "image_size")
    engines = ("lean", "wrapped")
    wraps = "image"

    def open(
        self, data: str, directory: str | Path | None = None, seed: int = 0, **options: Any
    ) -> ImageData:
        """Open images that :func:`~calibrant.tasks.image.pictures.load_pictures` finds."""
        from calibrant.tasks.image.data import ImageData
        from calibrant.tasks.image.pictures import load_pictures

        return ImageData(load_pictures(data, directory, seed, **options))

    def tiny(self, seed: int = 0) -> ImageData:  # type: ignore[override]
        """Open 80 + 20 + 20 + 20 noisy images of 8×8 with a vertical or a horizontal bar."""
        from calibrant.tasks.image.data import ImageData
        from calibrant.tasks.image.pictures import Pictures

        random = np.random.default_rng(seed)
        images, classes = {}, {}
        for split, size in (("train", 80), ("dev", 20), ("test", 20), ("ood", 20)):
            images[split] = random.integers(0, 160, (size, 8, 8, 1), np.uint8)
            classes[split] = random.integers(0, 2, size)
            for image, lies in zip(images[split], classes[split], strict=True):
                (image if lies else image.swapaxes(0, 1))[random.integers(8)] += 95
        return ImageData(Pictures("bars", images, classes, ("standing", "lying")))

    def check(self, recipe: Recipe, directory: str | None = None) -> None:
        """Check that images, network and corruptions exist, as far as names tell."""
        from calibrant.tasks.image.classifier import IMAGE_MODELS
        from calibrant.tasks.image.pictures import find_pictures

        find_pictures(recipe.data, directory)
        if recipe.model not in IMAGE_MODELS and not recipe.wrapped:
            raise unknown_name("image model", recipe.model, IMAGE_MODELS)
        for name in recipe.shift:
            known_corruption(name, IMAGE, of="images")

    def prepare(self, recipe: Recipe, directory: str | None = None) -> ImageData:
        """Load the images of a recipe."""
        from calibrant.tasks.image.data import prepare

        return prepare(recipe, directory)

    def build_model(self, recipe: Recipe, data: ImageData) -> nn.Module:
        """Build the network, its weights drawn from the recipe's seed, channels last in memory."""
        import torch

        from calibrant.tasks.image.classifier import build_classifier

        if data.own is not None:
            return cast("nn.Module", data.own.model)

        model = build_classifier(
            recipe.model,
            data.shape,
            len(data.labels),
            recipe.seed,
            width=recipe.head_width,
            depth=recipe.head_depth,
            activation=recipe.head_activation,
        )
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if recipe.compile:
            # Without the head: a method reads its input, and runs it again.
            model.encoder.compile()
        return model

    def write_model(
        self, recipe: Recipe, data: ImageData, model: ImageClassifier, folder: Path
    ) -> None:
        """Write the weights, and the settings to build the network again."""
        from calibrant.tasks.image.fine_tuned import write_wrapped
        from calibrant.tasks.image.networks import write_network

        if data.own is not None:
            write_wrapped(data, folder)
            return
        about = {
            "model": recipe.model,
            **data.shape._asdict(),
            "labels": list(data.labels),
            "mean": data.mean.tolist(),
            "deviation": data.deviation.tolist(),
            "width": recipe.head_width,
            "depth": recipe.head_depth,
            "activation": recipe.head_activation,
        }
        write_network(model, folder, about)

    def shifted(
        self,
        recipe: Recipe,
        data: ImageData,
        directory: str | None,  # noqa: ARG002
    ) -> Mapping[str, Part]:
        """Return the test split corrupted."""
        from calibrant.tasks.image.data import shifted_tests

        return shifted_tests(recipe.shift, data)

    def wrap(self, parts: Mapping[str, Any], own: FineTuned, recipe: Recipe) -> ImageData:
        """Return pairs of an image and its label as data of a fine-tuned model."""
        from calibrant.tasks.image.fine_tuned import wrap_examples

        return wrap_examples(parts, own, recipe)

    def examples(self, target: EvaluationTarget) -> LabelledImages:
        """Load a run's model and labelled images."""
        from calibrant.tasks.image.data import LabelledImages

        return LabelledImages(target)

    def load_network(self, folder: Path) -> tuple[nn.Module, Mapping[str, Any]]:
        """Load the network of a run."""
        from calibrant.tasks.image.classifier import load_classifier

        return load_classifier(folder)

    def predictor_class(self) -> type[ImagePredictor]:
        """Return the predictor of classes of images."""
        from calibrant.tasks.image.predictor import ImagePredictor

        return ImagePredictor
