"""What a task offers (:class:`Task`); its data is in :mod:`~calibrant.tasks.data`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from calibrant.errors import InputError
from calibrant.metrics import METRICS, accumulate, accuracy, confidences, measure
from calibrant.metrics.metric import Kind
from calibrant.old_names import renamed
from calibrant.predictions import Predictions
from calibrant.tasks.evidence import EVIDENCE, ROWS, row_evidence, write_evidence

if TYPE_CHECKING:
    from torch import nn

    from calibrant.calibrators import Calibrator
    from calibrant.comparison import SpanCalibrator
    from calibrant.experiments.recipe import Recipe
    from calibrant.experiments.run_folder import RunFolder
    from calibrant.tasks.data import Data, StackedData
    from calibrant.tasks.encoders.fine_tuned import FineTuned
    from calibrant.tasks.predictor import Predictor
    from calibrant.tasks.scoring import Scorer

__all__ = [
    "AdaptedRun",
    "EvaluationTarget",
    "LabelledExamples",
    "Task",
    "TrainedRun",
]


class EvaluationTarget(NamedTuple):
    """A finished run, and the data that its model is evaluated on."""

    run: RunFolder
    recipe: Recipe  # The run's.
    data: str
    directory: str | None  # Where data sets are found by name.
    device: str
    own: bool  # The run was trained on this data, so only its test split is new.


class LabelledExamples(ABC):
    """Labelled examples, and the model of a finished run that is evaluated on them.

    ``notes`` says what of the data does not count.
    """

    notes: tuple[str, ...] = ()

    @abstractmethod
    def predict(self, corruption: tuple[str, int] | None, seed: int) -> Predictions:
        """Predict the examples, corrupted or as they are."""

    def validation(self, training: Mapping[str, Any]) -> tuple[str, str]:
        """Name the validation predictions of the run, and the calibrator chosen on them.

        ``training`` is that of the run's record.
        """
        return "valid", training.get("calibrator", "temperature")

    def entities(self) -> SpanCalibrator | None:
        """Return the learned confidence of entities of the run, where labels are tags."""
        return None


@dataclass(frozen=True)
class TrainedRun:
    """A trained model with its predictions, about to become a finished run."""

    recipe: Recipe
    data: Any
    model: nn.Module
    run: RunFolder
    suffix: str  # Of files with predictions.
    predictions: Mapping[str, Predictions]
    calibrator: Calibrator
    # A calibrator on validation predictions, and on corrupted copies where there are any.
    choose: Callable[[Predictions, Predictions | None], Calibrator]
    copies: tuple[str, ...] = ()  # The corruptions of the copies that it learned from.
    copied: Predictions | None = None  # Their predictions.
    entities: SpanCalibrator | None = (
        None  # The learned confidence of entities, where labels are tags.
    )


class AdaptedRun(NamedTuple):
    """A copy of a run whose calibrator was corrected for new data, about to be finished."""

    folder: Path
    raw: bool  # Its calibrator of words of raw text was corrected, not that of the corpus' words.
    calibrator: Calibrator
    valid: Predictions
    new: Predictions
    copies: Mapping[str, Predictions]
    level: float


class Task(ABC):
    """One task. Its class attributes and numbers need NumPy alone.

    Subclasses import torch and what reads data inside their methods.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    embedded: ClassVar[str]  # Data that needs no download.
    known_data: ClassVar[str] = ""  # Names of data and of models, for the help of train.
    known_models: ClassVar[str] = ""
    default_copies: ClassVar[tuple[str, ...]] = ()  # Corruptions that a calibrator learns from,
    enough_to_copy: ClassVar[int] = 1000  # where validation has so many rows.
    corruptions: ClassVar[Collection[str]] = ()  # What examples can be corrupted by.

    kinds: ClassVar[tuple[Kind, ...]] = ("classes",)  # Of the metrics that are measured.
    # How a run is shown: the metric that early stopping watches, and those of a table.
    score_metric: ClassVar[str] = "accuracy"
    shown: ClassVar[tuple[str, ...]] = (
        "accuracy", "ece", "adaptive_ece", "classwise_ece", "nll", "brier",
    )  # fmt: skip
    hint: ClassVar[str] = ""  # What to try with a finished {run}.

    # Values in place of the defaults of Recipe, and what only some tasks have.
    defaults: ClassVar[Mapping[str, Any]] = {}
    own_settings: ClassVar[tuple[str, ...]] = ()
    own_calibrators: ClassVar[tuple[str, ...]] = ()
    own_files: ClassVar[tuple[str, ...]] = ()  # What :meth:`finish` adds to the folder of a run.
    engines: ClassVar[tuple[str, ...]] = ("lean",)
    wraps: ClassVar[str] = ""  # What fine-tuned models that can be wrapped classify: "token", ….
    pretrained: ClassVar[bool] = False  # Models usually start from pretrained weights.
    stacks: ClassVar[bool] = False  # Several runs can be trained as one stack of models.

    @abstractmethod
    def open(
        self, data: str, directory: str | Path | None = None, seed: int = 0, **options: Any
    ) -> Data:
        """Open data by name."""

    @abstractmethod
    def tiny(self, seed: int = 0, **options: Any) -> Data:
        """Open a little embedded data, for tests."""

    @abstractmethod
    def check(self, recipe: Recipe, directory: str | None = None) -> None:
        """Raise an error for data, network or ``shift`` that is nowhere; reads none of them."""

    @abstractmethod
    def prepare(self, recipe: Recipe, directory: str | None = None) -> Data:
        """Open the data of a recipe."""

    @abstractmethod
    def build_model(self, recipe: Recipe, data: Any) -> nn.Module:
        """Build a new model, its fresh weights drawn from the recipe's seed."""

    @abstractmethod
    def write_model(self, recipe: Recipe, data: Any, model: Any, folder: Path) -> None:
        """Write the trained model into an empty folder."""

    @abstractmethod
    def shifted(self, recipe: Recipe, data: Any, directory: str | None) -> Mapping[str, Any]:
        """Return the parts that the recipe's ``shift`` names, for ``data.predict``."""

    def copies(self, names: Sequence[str], data: Any) -> Iterable[tuple[str, Any]]:
        """Return corrupted copies of the validation part by name, for ``data.predict``."""
        found: Iterable[tuple[str, Any]] = data.copies(names) if names else ()
        return found

    def wrap(self, parts: Mapping[str, Any], own: FineTuned, recipe: Recipe) -> Data:  # noqa: ARG002
        """Return labelled examples ("dev" and "test") as data of a fine-tuned model."""
        raise InputError(f"Task '{self.name}' wraps no models.")

    @abstractmethod
    def examples(self, target: EvaluationTarget) -> LabelledExamples:
        """Load a finished run's model and the examples that it is evaluated on."""

    @property
    def score_name(self) -> str:
        """How ``score_metric`` is shown."""
        return METRICS[self.score_metric].short

    def measure(self, predictions: Predictions) -> dict[str, float]:
        """Compute every number of a record."""
        return measure(predictions, self.kinds)

    def by_class(self, predictions: Predictions) -> dict[str, dict[str, float]]:  # noqa: ARG002
        """Compute the numbers of each class that a record shows; none by default."""
        return {}

    def score(self, predictions: Predictions) -> float:
        """Compute ``score_metric`` alone."""
        return float(accuracy(accumulate(predictions)))

    def nothing_learned(self, test: Predictions) -> str | None:
        """Describe a model no better than the most frequent class alone; None for a better one."""
        right, most = float(accuracy(accumulate(test))), np.bincount(test.labels).max() / len(test)
        if right > most:
            return None
        return (
            f"accuracy {right:.3f} on the test split, where the most frequent class alone would be "
            f"right in {most:.1%}"
        )

    def finish(self, trained: TrainedRun) -> dict[str, Any]:
        """Write the other files that prediction needs; return what the record says about them."""
        valid = trained.predictions["valid"]
        evidence = row_evidence(trained.calibrator, valid, trained.copied)
        write_evidence(trained.run.path / EVIDENCE, {ROWS: evidence})
        return {}

    def finish_adapted(self, adapted: AdaptedRun) -> dict[str, Any]:
        """Write again what depends on the calibrator; return further findings."""
        mapped = adapted.calibrator.transform(adapted.valid)
        write_evidence(adapted.folder / EVIDENCE, {ROWS: confidences(mapped)})
        return {}

    def stacked(self, recipe: Recipe, data: Any, directory: str | None) -> StackedData:
        """Return the data of runs that are trained as one stack; only if ``stacks``."""
        raise NotImplementedError

    def predictor(self, folder: Path, recipe: Mapping[str, Any], device: str) -> Predictor:  # noqa: ARG002
        """Return the predictor of the finished run in a folder, whose ``recipe.json`` is given."""
        raise InputError(
            f"{folder} is a run of task '{self.name}', which has no predictor; 'calibrant evaluate "
            f"{folder} DATA' measures it on labelled data."
        )

    def exported(
        self,
        folder: Path,
        labels: tuple[str, ...],  # noqa: ARG002
        settings: Mapping[str, Any],  # noqa: ARG002
        scorer: Scorer,  # noqa: ARG002
    ) -> Predictor:
        """Return the predictor of an export, whose ``settings`` its manifest has."""
        raise InputError(f"{folder} is an export of task '{self.name}', which has no predictor.")


def __getattr__(name: str) -> Any:
    return renamed(__name__, name)
