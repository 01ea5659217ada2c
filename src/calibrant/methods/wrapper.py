"""Methods that wrap another method, their task; statistics of one process or of all."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch import distributed as dist

from calibrant.errors import InputError
from calibrant.losses.masking import IGNORED
from calibrant.methods.base import Method, checked_method
from calibrant.methods.cross_entropy import CrossEntropy
from calibrant.methods.gradients import report

if TYPE_CHECKING:
    from calibrant.training.step import Step

__all__ = ["Regularizer", "Wrapper"]


class Wrapper(Method):
    """A method that wraps a task (default cross-entropy) and delegates its other hooks to it.

    >>> class Halved(Wrapper):
    ...     "Half of the loss of another method."
    ...
    ...     def loss(self, step):
    ...         return self.task.loss(step) / 2
    >>> import torch
    >>> from calibrant.methods import Focal
    >>> from calibrant.training import Step
    >>> step = Step(torch.zeros(2, 2), torch.tensor([0, 1]))
    >>> Focal(gamma=2.0).loss(step), Halved(Focal(gamma=2.0)).loss(step)
    (tensor(0.1733), tensor(0.0866))
    """

    def __init__(self, task: Method | None) -> None:
        super().__init__()
        self.has_task = task is not None
        self.task = CrossEntropy() if task is None else checked_method(task, type(self).__name__)
        self.needs_holdout = self.task.needs_holdout
        self.needs_model = self.task.needs_model
        if self.task.passes != 1:
            inner, outer = type(self.task).__name__, type(self).__name__
            other = "one is enough" if inner == outer else f"write {inner}({outer}(…)) instead"
            raise InputError(
                f"{outer} cannot wrap {inner}, which splits the gradient between head and "
                f"encoder: {other}."
            )

    def prepare(self, batch: Any) -> Any:
        """Delegate to the task."""
        return self.task.prepare(batch)

    def at_head(self, features: Tensor) -> Tensor:
        """Delegate to the task."""
        return self.task.at_head(features)

    def outer_step(self, step: Step) -> None:
        """Delegate to the task."""
        self.task.outer_step(step)


class Regularizer(Wrapper):
    """A task loss plus ``weight`` times a statistic of the whole batch.

    As a method the sum trains encoder and head. As a part (``HeadNoise(with_=…)``,
    ``MetaRegularization(outer=…)``) only the statistic is used, and no task may be given.

    A statistic of a batch is not a sum over examples: under gradient accumulation it is that of
    each micro-batch, weighted by its share of the kept examples. ``across_ranks=True`` takes it
    over the joined batch of all processes (each then holds all logits of the batch).

    >>> class Confidence(Regularizer):
    ...     "The mean confidence of the batch."
    ...
    ...     def term(self, step):
    ...         return step.logits[step.kept].softmax(-1).amax(-1).mean()
    >>> import torch
    >>> from calibrant.training import Step
    >>> step = Step(torch.zeros(2, 2), torch.tensor([0, 1]))
    >>> Confidence(weight=0.1).loss(step)  # log 2 + 0.1 · 0.5
    tensor(0.7431)
    """

    def __init__(
        self, task: Method | None = None, weight: float = 1.0, across_ranks: bool = False
    ) -> None:
        super().__init__(task)
        self.weight = weight
        self.across_ranks = across_ranks

    @abstractmethod
    def term(self, step: Step) -> Tensor:
        """Return the statistic of the kept examples of ``step``."""

    def penalty(self, step: Step) -> Tensor:
        """Return ``weight`` times the statistic, weighted by the share of this micro-batch."""
        if not self.across_ranks:
            return self.weight * step.weigh(self.term(step))
        step, ranks = _join_ranks(step)
        whole = self.weight * step.weigh(self.term(step))
        # Data-parallel wrappers average gradients over ranks; with num_items the trainer
        # multiplies the whole loss by their number. The value is this rank's share of the mean.
        factor = ranks if step.num_items is None else 1
        return report(factor * whole, factor * whole.detach() / ranks, 1)

    def loss(self, step: Step) -> Tensor:
        """Return the task loss plus the penalty."""
        return self.task.loss(step) + self.penalty(step)


def _join_ranks(step: Step) -> tuple[Step, int]:
    """Return the step with the logits and labels of all ranks, and the number of ranks.

    Only this rank's rows carry a gradient: the sum of the ranks' gradients is then the gradient
    of the joined batch.
    """
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return step, 1
    logits = step.logits.reshape(-1, step.classes)
    labels = step.labels.reshape(-1)
    rows = torch.tensor(len(labels), device=labels.device)
    dist.all_reduce(rows, op=dist.ReduceOp.MAX)
    short = int(rows) - len(labels)
    logits = torch.nn.functional.pad(logits, (0, 0, 0, short))
    labels = torch.nn.functional.pad(labels, (0, short), value=IGNORED)
    joined = replace(step, logits=_gather(logits), labels=_gather(labels), examples=None)
    return joined, dist.get_world_size()


def _gather(rows: Tensor) -> Tensor:
    """Return the rows of all ranks in rank order; only this rank's rows keep their graph."""
    own = rows.detach().contiguous()
    parts = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, own)
    parts[dist.get_rank()] = rows
    return torch.cat(parts)
