"""The data of a task, ready for a model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from calibrant.metrics import Scene
from calibrant.predictions import Predictions

if TYPE_CHECKING:
    import torch
    from torch import nn

    from calibrant.experiments.recipe import Recipe
    from calibrant.tasks.damage_signal import DamageReader
    from calibrant.training.windows import Rows, Windows

__all__ = ["Damaged", "Data", "Examples", "Pictured", "StackedData"]


class Examples(Protocol):
    """What a data loader takes: examples by number."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> dict[str, Any]: ...


@runtime_checkable
class Data(Protocol):
    """Data made ready for a model. It knows nothing of calibration methods."""

    @property
    def name(self) -> str:
        """The name in the recipe."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done to the data: a split carved, texts shortened."""

    @property
    def fingerprint(self) -> str:
        """A hash of the data."""

    @property
    def splits(self) -> Collection[str]:
        """The names that :meth:`load` takes: train, dev, test, and held or ood if they exist."""

    @property
    def parts(self) -> Mapping[str, Any]:
        """The parts to predict: ``valid``, ``test`` and, if some of it has classes, ``ood``."""

    def load(self, split: str) -> Examples:
        """Return the examples of a split, encoded, each with its ``labels``."""

    def collate(self, examples: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return some examples as a batch of tensors, named as the model takes them."""

    def build_model(self, seed: int = 0) -> Any:
        """Build a new model with a head for the label set."""

    def windows(self, device: str) -> tuple[Rows, Rows | None]:
        """Put the training part on a device, and the held-out one if a method needs it."""

    def predict(self, model: nn.Module, part: Any) -> Predictions:
        """Predict one of the parts, or a shifted one, with a model in evaluation mode."""

    def outside(self, model: nn.Module) -> Predictions | None:
        """Predict what belongs to no class, such as out-of-scope queries; labels mean nothing."""


@runtime_checkable
class Damaged(Protocol):
    """Data whose training part can be damaged, so that a signal of damage can be learned."""

    def damage(self, model: nn.Module) -> DamageReader | None:
        """Learn what damage looks like to a trained model; nothing where it cannot be seen."""


@runtime_checkable
class Pictured(Protocol):
    """Data with pictures for the report."""

    def example_scenes(self, model: nn.Module, temperature: float = 1.0) -> Sequence[Scene]:
        """Return some test images with a model's maps, its logits divided by a temperature."""


class StackedData(Protocol):
    """Data of several runs that are trained as one stack of models."""

    @property
    def notes(self) -> Sequence[str]:
        """What was done to the data."""

    @property
    def parts(self) -> Mapping[str, Any]:
        """What is predicted."""

    @property
    def shifted(self) -> Mapping[str, Any]:
        """What the recipe's ``shift`` names."""

    def windows(self, device: str) -> tuple[Windows, Windows | None]:
        """Put the training part on a device, and the held-out one."""

    def build_model(self, recipe: Recipe) -> nn.Module:
        """Build the model of one run."""

    def predict(
        self, logits: Callable[..., Any], runs: int, device: torch.device, part: Any
    ) -> list[Predictions]:
        """Predict a part with each of the runs; ``logits`` is a forward pass of all."""
