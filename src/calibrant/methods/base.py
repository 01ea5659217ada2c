"""What a training-time method is, and the kind that most are: a loss of each example."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from calibrant.errors import InputError

if TYPE_CHECKING:
    from calibrant.training.step import Step

__all__ = ["ExampleLoss", "Method", "checked_method"]


class Method(nn.Module, ABC):
    """What one technique changes in a training step. Only ``loss`` is required.

    A method is an ``nn.Module`` so that its parts, parameters and random streams are saved and
    loaded by ``state_dict``; it is never part of the user's model.
    """

    passes: int = 1
    """Gradients that meet in the head: 1 + the number of head-only terms."""

    needs_holdout: bool = False
    """Whether ``outer_step`` wants ``step.holdout``."""

    needs_model: bool = False
    """Whether ``outer_step`` runs the whole model again: it wants ``step.model`` and inputs."""

    needs_examples: bool = False
    """Whether it keeps something of each example: it wants ``expect`` and ``step.examples``."""

    on_device: bool = True
    """Whether ``prepare`` and ``outer_step`` leave the host out: a CUDA graph can hold them."""

    def expect(self, examples: int) -> None:
        """How many examples there are, told before training to those that need it."""

    def asking(self) -> list[Method]:
        """Those of its parts, itself included, that need examples."""
        return [m for m in self.modules() if isinstance(m, Method) and m.needs_examples]

    def prepare(self, batch: Any) -> Any:
        """Change the batch before the forward pass (mixup); by default it stays as it is."""
        return batch

    def at_head(self, features: Tensor) -> Tensor:
        """What the head gets instead of its input, in training; by default the input itself."""
        return features

    @abstractmethod
    def loss(self, step: Step) -> Tensor:
        """The scalar to call ``backward`` on."""

    def outer_step(self, step: Step) -> None:
        """Update what the method itself learns: after backward, before the optimizer's step."""

    def abandon(self) -> None:
        """Drop what waits for further micro-batches: the optimizer step was broken off.

        Taps call it when they are attached and removed, the Trainer after an error. Call it in a
        loop of your own that goes on with another batch after one has failed.
        """
        for part in self.modules():
            if isinstance(part, Method):
                part._drop_waiting()

    def _drop_waiting(self) -> None:
        """Forget what this part alone holds between two micro-batches."""

    def rewind(self) -> None:
        """Forget, in place, what is neither a parameter, a buffer nor a random stream."""

    def forward(self, step: Step) -> Tensor:
        """``method(step)`` is ``method.loss(step)``."""
        return self.loss(step)


class ExampleLoss(Method):
    """A loss that is a mean over examples, so micro-batches add up exactly."""

    @abstractmethod
    def total(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The sum over kept examples."""

    def loss(self, step: Step) -> Tensor:
        """The sum over kept examples, divided by their number."""
        return self.total(step.logits, step.labels) / step.normalizer


def checked_method(method: Any, who: str) -> Method:
    """``method``, if it is one; a class in its place is the usual slip.

    >>> checked_method(Method, "Trainer")
    Traceback (most recent call last):
    ...
    calibrant.errors.InputError: Trainer takes a method, and Method is a class: write Method().
    """
    if isinstance(method, Method):
        return method
    if isinstance(method, type) and issubclass(method, Method):
        name = method.__name__
        raise InputError(f"{who} takes a method, and {name} is a class: write {name}().")
    raise InputError(f"{who} takes a method, such as CrossEntropy(), got {type(method).__name__}.")
