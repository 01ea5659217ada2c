"""Compute a batch statistic over the joined batch of all processes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch import distributed as dist

from calibrant.losses.masking import IGNORED

if TYPE_CHECKING:
    from calibrant.training.step import Step

__all__ = ["join_ranks"]


def join_ranks(step: Step) -> tuple[Step, int]:
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
