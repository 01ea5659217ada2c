"""∇Acc: teach the head to be uncertain about noise, at the cost of one small extra pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, Literal, cast

import torch
from torch import Tensor, nn

from calibrant.errors import InputError
from calibrant.methods.base import Method
from calibrant.methods.error_regularization import ErrorRegularization
from calibrant.methods.gradients import report, scale_gradient
from calibrant.methods.noise import Gaussian, Noise
from calibrant.methods.random_stream import Stream
from calibrant.methods.wrapper import Regularizer, Wrapper

if TYPE_CHECKING:
    from calibrant.training.step import Step

__all__ = ["HeadNoise", "head_noise_error_regularization", "noise_confidence"]


class HeadNoise(Wrapper):
    """Noise gradient accumulation (∇Acc) around any task loss.

    The head C is also trained to give equal probabilities for noise ẑ in place of its input:

        L_calib = λ · mean_i (1/K − max_k softmax(C(ẑ_i))_k)²

    with one ẑ_i for every kept example. Its gradient reaches the head only, and the head's
    gradients are averaged over the n = 1 + h passes that meet in it (h head-only terms: the noise
    and each regulariser of ``with_``, which sees the features detached):

        head: (∇task + ∇calib + Σ ∇with) / n        encoder: ∇task

    One backward pass does this: the hook feeds the head through an identity whose backward
    multiplies by n, and the loss is divided by n. It therefore holds under gradient accumulation,
    loss scaling, clipping, DDP and FSDP2, where dividing ``p.grad`` does not. The value of the
    loss, which your log shows, is the undivided task loss; ``terms`` holds all parts.

    Arguments: ``task``, any method that is not itself split between head and encoder; ``weight``
    λ (the paper prints 2.5^-2 and means 2.5e-2); ``noise``, see ``calibrant.methods.noise``;
    ``with_``, regularisers as further head-only passes; ``seed`` of the noise stream.
    The published code differs from the text: it sums over all positions, padding included, and
    has no λ. ``reduction="sum", weight=1, count_ignored=True`` reproduce it.

    Under gradient accumulation with ``step.num_items`` the noise term adds up like the task loss.
    The regularisers of ``with_`` wait, when ``step.last`` is known, for the last micro-batch and
    take all its predecessors' features with them: pairs across micro-batches count. Micro-batches
    of an aborted optimizer step do not enter the next one: :meth:`abandon` drops them,
    and examples older than the last ``num_items`` are left out.

    Reference: Jouet et al., A Novel Gradient Accumulation Method for Calibration of Named Entity
    Recognition Models, IJCNN 2022, Algorithm 1 and section IV-D.

    >>> from calibrant.methods import CrossEntropy
    >>> from calibrant.training import attach
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> method = HeadNoise(CrossEntropy(), with_=ErrorRegularization(weight=0.05))
    >>> method.passes
    3
    >>> with attach(model, method) as hook:
    ...     loss = method.loss(hook.step(model(torch.ones(2, 4)), torch.tensor([0, 1])))
    >>> sorted(method.terms)
    ['noise', 'task', 'with']
    """

    def __init__(
        self,
        task: Method | None = None,
        weight: float = 0.025,
        noise: Noise | None = None,
        reduction: Literal["mean", "sum"] = "mean",
        with_: Regularizer | Sequence[Regularizer] = (),
        count_ignored: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__(task)
        if reduction not in ("mean", "sum"):
            raise InputError(f"HeadNoise: reduction is 'mean' or 'sum', got {reduction!r}.")
        self.weight = weight
        self.noise = Gaussian() if noise is None else _checked_noise(noise)
        self.reduction = reduction
        self.with_ = nn.ModuleList(_as_parts(with_))
        self.count_ignored = count_ignored
        self.stream = Stream(seed)
        self.passes = 2 + len(self.with_)
        self.terms: dict[str, Tensor] = {}
        self._waiting: list[Step] = []

    def at_head(self, features: Tensor) -> Tensor:
        """Pass the task's features through the identity that multiplies the gradient by n."""
        return scale_gradient(super().at_head(features), self.passes)

    def loss(self, step: Step) -> Tensor:
        """Return the task loss, with the gradient of all terms, divided by n in the head."""
        self._check(step)
        task = self.task.loss(step)
        noise = self.weight * self._calibration(step)
        total = task + noise
        self.terms = {"task": task.detach(), "noise": noise.detach()}
        if len(self.with_):
            others = self._other_passes(step)
            self.terms["with"] = others.detach()
            total = total + others
        return report(total, task.detach(), self.passes)

    def _calibration(self, step: Step) -> Tensor:
        noise = self.noise.like(step, self.stream.generator(step.logits.device))
        values = noise_confidence(_head(step)(noise))
        values = _per_label(values, step.labels)
        kept = torch.ones_like(step.kept) if self.count_ignored else step.kept
        total = values.where(kept, 0).sum()
        if self.reduction == "sum":
            return total
        if self.count_ignored:
            return step.weigh(total / max(values.numel(), 1))
        return total / step.normalizer

    def _other_passes(self, step: Step) -> Tensor:
        # Without num_items each micro-batch is its own batch; without last no part can wait.
        if step.num_items is not None and step.last is not None:
            self._waiting.append(_without_graph(step))
            if not step.last:
                return step.logits.new_zeros(())
            waiting, self._waiting = self._waiting, []
            step = _joined(_newest(waiting))
        else:
            step = _head_only(step)
        parts = cast("Iterable[Regularizer]", self.with_)
        return reduce(add, (part.penalty(step) for part in parts))

    def _drop_waiting(self) -> None:
        self._waiting = []

    def _check(self, step: Step) -> None:
        wrong = step.gradient_scale != self.passes and step.logits.requires_grad
        if step.features is None or wrong:
            raise InputError(
                f"HeadNoise divides the head's gradient by {self.passes}, but this step comes from "
                f"a head whose hook multiplies by {step.gradient_scale}: make it with "
                "attach(model, method).step(logits, labels), with this same method, from a forward "
                "pass in training mode (model.train())."
            )


def noise_confidence(logits: Tensor) -> Tensor:
    """Return (1/K − max_k p_k)² for each example, in float32 or better.

    >>> noise_confidence(torch.zeros(1, 4)).item()
    0.0
    """
    wide = logits if logits.dtype == torch.float64 else logits.float()
    return (1 / wide.shape[-1] - wide.softmax(-1).amax(-1)).square()


def head_noise_error_regularization(
    weight: float = 0.025, regularization: float = 0.05, **options: Any
) -> HeadNoise:
    """Create ∇Acc with Abstention: error regularisation as another head-only pass, divisor 3.

    >>> head_noise_error_regularization().passes
    3
    """
    return HeadNoise(weight=weight, with_=ErrorRegularization(weight=regularization), **options)


def _as_parts(with_: Regularizer | Sequence[Regularizer]) -> list[Regularizer]:
    parts = list(with_) if isinstance(with_, Iterable) else [with_]
    for part in parts:
        if not isinstance(part, Regularizer) or part.has_task:
            raise InputError(
                "HeadNoise: with_ takes regularisers without a task, such as "
                "ErrorRegularization(weight=0.05); got "
                f"{f'the class {part.__name__}' if isinstance(part, type) else type(part).__name__}"
                f"{' with a task' if isinstance(part, Regularizer) else ''}."
            )
    return parts


def _checked_noise(noise: Any) -> Noise:
    """Return ``noise`` if it is one. Passing its class or its name is the usual mistake.

    >>> _checked_noise("shell")
    Traceback (most recent call last):
    calibrant.errors.InputError: HeadNoise takes a noise, such as Gaussian(), got 'shell'.
    """
    if not isinstance(noise, type) and callable(getattr(noise, "like", None)):
        return cast(Noise, noise)
    got = f"the class {noise.__name__}" if isinstance(noise, type) else repr(noise)
    raise InputError(f"HeadNoise takes a noise, such as Gaussian(), got {got}.")


def _head(step: Step) -> Any:
    return step.head


def _without_graph(step: Step) -> Step:
    """Return the parts of a micro-batch to keep until the last one, without the encoder's graph."""
    assert step.features is not None
    return replace(step, logits=step.logits.detach(), features=step.features.detach())


def _head_only(step: Step) -> Step:
    """Return the step with logits whose gradient reaches the head but not the encoder."""
    assert step.features is not None
    logits = _head(step)(step.features.detach())
    if logits.shape != step.logits.shape:
        raise InputError(
            f"The head gives logits {tuple(logits.shape)}, the model {tuple(step.logits.shape)}: "
            "a regulariser cannot be a head-only pass of a model that pools after its head."
        )
    return replace(step, logits=logits)


def _newest(steps: list[Step]) -> list[Step]:
    """Return the newest micro-batches that together have ``num_items`` kept examples.

    Older ones remain from an aborted step. All are returned if together they have fewer than
    ``num_items``, which may count the examples of all processes.
    """
    if len(steps) == 1:  # Without accumulation the host need not wait for the device.
        return steps
    counts = torch.stack([step.count for step in steps])
    together = counts.flip(0).cumsum(0).flip(0) == steps[-1].normalizer
    return steps[together.tolist().index(True) if bool(together.any()) else 0 :]


def _joined(steps: list[Step]) -> Step:
    """Join all micro-batches of one optimizer step into one flat step."""
    passes = [_head_only(step) for step in steps]
    logits = torch.cat([step.logits.flatten(0, -2) for step in passes])
    labels = torch.cat([step.labels.flatten() for step in passes])
    examples = [step.examples.flatten() for step in passes if step.examples is not None]
    together = torch.cat(examples) if len(examples) == len(passes) else None
    return replace(steps[-1], logits=logits, labels=labels, examples=together, features=None)


def _per_label(values: Tensor, labels: Tensor) -> Tensor:
    """Return one value per label; a head that is pooled later has several positions per label."""
    values = values.flatten(labels.ndim).mean(-1) if values.ndim > labels.ndim else values
    if values.shape != labels.shape:
        raise InputError(
            f"HeadNoise: the last call of the head was for examples {tuple(values.shape)}, the "
            f"labels are {tuple(labels.shape)}; a head that is called for a part of the batch at "
            "a time cannot be recorded."
        )
    return values
