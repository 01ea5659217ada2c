"""Images with masks to evaluate the model of a finished run on, unchanged or corrupted."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from calibrant.calibrators import CalibrationWarning
from calibrant.errors import InputError
from calibrant.predictions import Predictions
from calibrant.tasks.reading.catalogue import find_folder
from calibrant.tasks.segmentation.data import Pixels, SegmentationData
from calibrant.tasks.segmentation.mask_folder import VOID, read_test_masks
from calibrant.tasks.segmentation.pixel_predictions import describe_sample, sampled_pixels
from calibrant.tasks.segmentation.scenes import CorruptedScenes, Example, Scenes, load_scenes
from calibrant.tasks.segmentation.segmenter import load_segmenter
from calibrant.tasks.task import EvaluationTarget, LabelledExamples

__all__ = ["LabelledScenes"]


class LabelledScenes(LabelledExamples):
    """The test split of a data set with masks, normalised as the run's training images were."""

    def __init__(self, target: EvaluationTarget) -> None:
        self.model, about = load_segmenter(target.run.model)
        self.model.to(target.device)
        self.device, data, directory = target.device, target.data, target.directory
        labels = target.run.labels()
        moments = (np.asarray(about["mean"]), np.asarray(about["deviation"]))
        folder = None if target.own else find_folder(data, "segmentation", directory)
        if folder is not None:
            part: Sequence[Example] = read_test_masks(folder, labels, len(moments[0]))
            scenes = Scenes(data, {"test": part}, labels)
        else:
            scenes = load_scenes(data, directory)
        channels = scenes.parts["test"][0][0].shape[-1]
        for what, found, known in (
            ("classes", scenes.labels, labels),
            ("channels", channels, len(moments[0])),
        ):
            if found != known:
                raise InputError(f"{data}: expected the run's {what}, {known}, got {found}.")
        self.data = SegmentationData(scenes, moments=moments)

    def predict(self, corruption: tuple[str, int] | None, seed: int) -> Predictions:
        """Predict one row per pixel that has a class; of very many, a sample, with a warning.

        It also warns if all pixels have one class, as in masks of 0 and 255 (void).
        """
        part = self.data.load("test")
        if corruption is not None:
            part = Pixels(CorruptedScenes(part.scenes, corruption, seed, self.device))
        sample = sampled_pixels(self.model, part, self.data)
        if not sample.whole:
            warnings.warn(describe_sample(sample), CalibrationWarning, stacklevel=2)
        found = Predictions.concatenate(sample.parts)
        if (found.labels == found.labels[0]).all():
            only = self.data.labels[int(found.labels[0])]
            note = f"All pixels that have a class are '{only}': such numbers say little. ({VOID} in"
            warnings.warn(f"{note} a mask is void.)", CalibrationWarning, stacklevel=2)
        return found
