"""The interface of training-time methods, and the most common kind: a loss per example."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from calibrant.errors import InputError

if TYPE_CHECKING:
    from calibrant.training.step import Step

__all__ = ["ExampleLoss", "Method", "checked_method", "evaluating"]


class Method(nn.Module, ABC):
    """One technique's changes to a training step. Only ``loss`` is required.

    A method is an ``nn.Module`` so that its parts, parameters and random streams are saved and
    loaded by ``state_dict``; it is never part of the user's model.

    >>> class Temperate(Method):
    ...     "Cross-entropy of logits that are divided by two."
    ...
    ...     def loss(self, step):
    ...         return nn.functional.cross_entropy(step.logits / 2, step.labels)
    >>> from calibrant.training import Step
    >>> import torch
    >>> Temperate().loss(Step(torch.tensor([[2.0, 0.0]]), torch.tensor([0])))
    tensor(0.3133)
    """

    passes: int = 1
    """The number of gradients that meet in the head: 1 + the number of head-only terms."""

    needs_holdout: bool = False
    """Whether ``outer_step`` needs ``step.holdout``."""

    needs_model: bool = False
    """Whether ``outer_step`` runs the whole model again, so needs ``step.model`` and inputs."""

    needs_examples: bool = False
    """Whether the method keeps state per example, so needs ``expect`` and ``step.examples``."""

    on_device: bool = True
    """Whether ``prepare`` and ``outer_step`` avoid the host, so that a CUDA graph can hold them."""

    head_by_position: bool = False
    """Whether the head treats each position of its input by itself, as those of decoders do: the
    model picks one afterwards. The hook says so."""

    def expect(self, examples: int) -> None:
        """Prepare for this number of examples. Called before training if ``needs_examples``."""

    def parts_needing_examples(self) -> list[Method]:
        """Return the parts of this method, itself included, that need examples."""
        return [m for m in self.modules() if isinstance(m, Method) and m.needs_examples]

    def prepare(self, batch: Any) -> Any:
        """Change the batch before the forward pass (mixup). The default returns it unchanged."""
        return batch

    def at_head(self, features: Tensor) -> Tensor:
        """Return the head's input for training. The default returns the input unchanged."""
        return features

    @abstractmethod
    def loss(self, step: Step) -> Tensor:
        """Return the scalar to call ``backward`` on."""

    def outer_step(self, step: Step) -> None:
        """Update the method's own parameters: after backward, before the optimizer's step."""

    def abandon(self) -> None:
        """Drop state that waits for further micro-batches, because the optimizer step was aborted.

        Hooks call it when they are attached and removed, the Trainer after an error. Call it in
        your own loop if that continues with another batch after a failed one.
        """
        for part in self.modules():
            if isinstance(part, Method):
                part._drop_waiting()

    def _drop_waiting(self) -> None:
        """Drop the state that this part alone holds between two micro-batches."""

    def rewind(self) -> None:
        """Reset, in place, all state except parameters, buffers and random streams."""

    def forward(self, step: Step) -> Tensor:
        """Return ``method.loss(step)``."""
        return self.loss(step)


class ExampleLoss(Method):
    """A loss that is a mean over examples, so micro-batches add up exactly.

    >>> class Hinge(ExampleLoss):
    ...     "max(0, 1 − the margin to the largest other logit)."
    ...
    ...     def total(self, logits, labels):
    ...         kept = labels != -100
    ...         return nn.functional.multi_margin_loss(logits[kept], labels[kept], reduction="sum")
    >>> from calibrant.training import Step
    >>> import torch
    >>> Hinge().loss(Step(torch.tensor([[0.5, 0.0], [9.0, 0.0]]), torch.tensor([0, -100])))
    tensor(0.2500)
    """

    @abstractmethod
    def total(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the sum over kept examples."""

    def loss(self, step: Step) -> Tensor:
        """Return the sum over kept examples, divided by their number."""
        return self.total(step.logits, step.labels) / step.normalizer


def checked_method(method: Any, who: str) -> Method:
    """Return ``method`` if it is a method. Passing the class is the usual mistake.

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


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Switch to evaluation mode (no dropout) inside the block, then restore each part's own mode.

    >>> model = nn.Sequential(nn.Dropout(), nn.BatchNorm1d(2).eval())
    >>> with evaluating(model):
    ...     print(model.training)
    False
    >>> model[0].training, model[1].training
    (True, False)
    """
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for part, training in modes.items():
            part.training = training
