"""Semantic segmentation as a task."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from calibrant.corruptions import IMAGE, known_corruption
from calibrant.errors import InputError
from calibrant.metrics import (
    Confidences,
    accuracy,
    class_iou,
    ece,
    mean_confidence,
    mean_iou,
    top_label,
)
from calibrant.metrics.confidences import bin_confidences
from calibrant.predictions import Predictions
from calibrant.tasks.image.task import ImageTask
from calibrant.tasks.task import EvaluationTarget

if TYPE_CHECKING:
    from torch import nn

    from calibrant.experiments.recipe import Recipe
    from calibrant.tasks.segmentation.data import Pixels, SegmentationData
    from calibrant.tasks.segmentation.labelled import LabelledScenes
    from calibrant.tasks.segmentation.predictor import MaskPredictor
    from calibrant.tasks.segmentation.segmenter import Segmenter

__all__ = ["Segmentation"]

_SEED = 0  # For corruptions: the same in every run.


class Segmentation(ImageTask):
    """One class for each pixel."""

    name = "segmentation"
    summary = "semantic segmentation: one class for each pixel of an image"
    embedded = "shapes"
    known_data = "shapes, camvid"
    known_models = "unet, fcn_resnet50, deeplabv3_resnet50"
    hint = "Try: calibrant predict {run} images/ --masks masks/"
    own_settings = ("augment",)
    kinds = ("classes", "pixels")
    score_metric = "mean_iou"
    shown = ("mean_iou", "ece", "border_ece", "classwise_ece", "accuracy", "nll")
    defaults: ClassVar[Mapping[str, Any]] = {
        "data": "shapes",
        "model": "unet",
        "head_width": 16,
        "head_depth": 0,
        "epochs": 40,
        "batch": 16,
        "learning_rate": 5e-3,
        "warm_up": 0.1,
        "calibrator": "temperature",  # The confidence maps of its report are made with one.
    }

    def open(
        self,
        data: str,
        directory: str | Path | None = None,
        seed: int = 0,
        *,
        model: str = "unet",
        width: int = 16,
        **options: Any,
    ) -> SegmentationData:
        """Open what :func:`~calibrant.tasks.segmentation.scenes.load_scenes` finds."""
        from calibrant.tasks.segmentation.data import SegmentationData
        from calibrant.tasks.segmentation.scenes import load_scenes

        return SegmentationData(load_scenes(data, directory, seed, **options), model, width)

    def tiny(self, seed: int = 0, **options: Any) -> SegmentationData:
        """Open 40 + 12 + 12 + 12 scenes of 24×24 pixels."""
        from calibrant.tasks.segmentation.data import SegmentationData
        from calibrant.tasks.segmentation.scenes import load_scenes

        scenes = load_scenes(self.embedded, seed=seed, size=24, train=40, dev=12, test=12, ood=12)
        return SegmentationData(scenes, **{"width": 8, **options})

    def check(self, recipe: Recipe, directory: str | None = None) -> None:
        """Check that images and corruptions exist, and that the head is one layer."""
        from calibrant.methods import InputMixup, create
        from calibrant.tasks.segmentation.scenes import find_scenes

        if recipe.head_depth:
            raise InputError(
                "The head of a segmentation network is one layer: leave head_depth at 0, got "
                f"{recipe.head_depth}; head_width is the width of the U-Net."
            )
        if isinstance(create(recipe.method, **recipe.method_options), InputMixup):
            raise InputError(
                "Void pixels cannot be mixed with others: 'input_mixup' does not support masks; "
                "use 'feature_mixup'."
            )
        if recipe.data != self.embedded:
            find_scenes(recipe.data, directory)
        for name in recipe.shift:
            known_corruption(name, IMAGE, of="images")

    def prepare(self, recipe: Recipe, directory: str | None = None) -> SegmentationData:
        """Open the images of a recipe."""
        from calibrant.tasks.segmentation.data import prepare

        self.check(recipe, directory)
        return prepare(recipe, directory)

    def build_model(self, recipe: Recipe, data: SegmentationData) -> nn.Module:
        """Build the network, its weights drawn from the recipe's seed, channels last in memory."""
        import torch

        model = data.build_model(recipe.seed)
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return model

    def write_model(
        self, recipe: Recipe, data: SegmentationData, model: Segmenter, folder: Path
    ) -> None:
        """Write the weights, and the settings to build the network again."""
        from calibrant.tasks.image.networks import write_network

        about = {
            "model": recipe.model,
            "width": recipe.head_width,
            "labels": list(data.labels),
            "mean": data.mean.tolist(),
            "deviation": data.deviation.tolist(),
        }
        write_network(model, folder, about)

    def shifted(
        self,
        recipe: Recipe,
        data: SegmentationData,
        directory: str | None,  # noqa: ARG002
    ) -> Mapping[str, Pixels]:
        """Return the test images corrupted, under the same masks: ``jpeg-3`` and so on."""
        import torch

        from calibrant.tasks.segmentation.data import Pixels
        from calibrant.tasks.segmentation.scenes import CorruptedScenes

        test = data.parts["test"].scenes
        device = "cuda" if torch.cuda.is_available() else "cpu"
        return {
            name: Pixels(
                CorruptedScenes(test, known_corruption(name, IMAGE, of="images"), _SEED, device)
            )
            for name in recipe.shift
        }

    def examples(self, target: EvaluationTarget) -> LabelledScenes:
        """Load a run's model and images with masks."""
        from calibrant.tasks.segmentation.labelled import LabelledScenes

        return LabelledScenes(target)

    def by_class(self, predictions: Predictions) -> dict[str, dict[str, float]]:
        """Compute the IoU of each class, and how honest the pixels are that are predicted as it."""
        confidence, predicted, correct = top_label(predictions)
        names = predictions.label_names or tuple(map(str, range(predictions.classes)))
        pixels = Confidences(confidence, correct)
        states = bin_confidences(pixels, cell=predicted, cells=(len(names),))
        columns = {
            "iou": class_iou(predictions),
            **{metric.__name__: metric(states) for metric in (ece, accuracy, mean_confidence)},
            "predicted": np.bincount(predicted, minlength=len(names)),
        }
        return {
            name: {column: float(values[row]) for column, values in columns.items()}
            for row, name in enumerate(names)
        }

    def score(self, predictions: Predictions) -> float:
        """Compute the mean IoU."""
        return float(mean_iou(predictions))

    def load_network(self, folder: Path) -> tuple[nn.Module, Mapping[str, Any]]:
        """Load the network of a run."""
        from calibrant.tasks.segmentation.segmenter import load_segmenter

        return load_segmenter(folder)

    def predictor_class(self) -> type[MaskPredictor]:
        """Return the predictor of masks of images."""
        from calibrant.tasks.segmentation.predictor import MaskPredictor

        return MaskPredictor
