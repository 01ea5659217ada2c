"""Which examples count: the −100 mask, applied once, as weights.

A loss flattens its logits to ``(n, K)``, blanks ignored rows and gives them weight 0. Weights, not
boolean indexing: shapes stay fixed, so nothing waits for the GPU and a training step can be
captured in a CUDA graph or compiled. Values at an ignored position, even NaN, reach neither
the value nor the gradient.
"""

from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from calibrant.errors import InputError

__all__ = ["IGNORED", "Kept", "Reduction", "flatten", "keep", "reduce", "widest"]

IGNORED = -100
"""The label that every loss ignores, as in PyTorch and Hugging Face."""

Reduction = Literal["mean", "sum", "none"]


class Kept(NamedTuple):
    """Flat logits and labels, with weight 1 for a kept example and 0 for an ignored one."""

    logits: Float[Tensor, "n classes"]
    """At least float32; 0 where ignored."""
    labels: Int[Tensor, " n"]
    """0 where ignored."""
    weight: Float[Tensor, " n"]
    """1 or 0, in the type of the logits."""
    counted: Bool[Tensor, " n"]
    """The same as ``weight``, as true or false."""
    labelled: Bool[Tensor, " n"]
    """Whether there is a label; differs from ``counted`` only under ``count_ignored``."""

    @property
    def total(self) -> Float[Tensor, ""]:
        """Return the number of kept examples; 1 if there are none, because it is a divisor."""
        return self.weight.sum().clamp(min=1)

    def mean(self, values: Float[Tensor, " n"]) -> Float[Tensor, ""]:
        """Return the mean of ``values`` over the kept examples; 0 if there are none."""
        return (values * self.weight).sum() / self.total


def keep(
    logits: Float[Tensor, "*batch classes"],
    labels: Int[Tensor, "*batch"],
    *,
    count_ignored: bool = False,
) -> Kept:
    """Flatten, widen half precision to float32, and mark the kept examples.

    ``count_ignored=True`` gives ignored positions weight 1 and keeps their logits: only to
    reproduce published code that forgot the mask.

    >>> keep(torch.zeros(2, 3, 5), torch.tensor([[1, 2, -100], [0, -100, -100]])).weight
    tensor([1., 1., 0., 1., 0., 0.])
    """
    _check(logits, labels)
    flat = logits.reshape(-1, logits.shape[-1])
    flat = flat if flat.dtype in (torch.float32, torch.float64) else flat.float()
    flat_labels = labels.reshape(-1).long()
    labelled = flat_labels != IGNORED
    counted = torch.ones_like(labelled) if count_ignored else labelled
    return Kept(
        torch.where(counted.unsqueeze(-1), flat, 0.0),
        torch.where(labelled, flat_labels, 0),
        counted.to(flat.dtype),
        counted,
        labelled,
    )


def flatten(
    values: Float[Tensor, "*batch"], like: Int[Tensor, "*batch"], kept: Kept, name: str
) -> Float[Tensor, " n"]:
    """Return per-example ``values``, one for each label, flat and 0 where ignored."""
    if values.shape != like.shape:
        raise InputError(
            f"{name} takes one value for each label, shape {tuple(like.shape)}; "
            f"got shape {tuple(values.shape)}."
        )
    return torch.where(kept.counted, values.reshape(-1), 0.0)


def reduce(
    values: Float[Tensor, " n"], kept: Kept, labels: Int[Tensor, "*batch"], reduction: Reduction
) -> Float[Tensor, "..."]:
    """Return the mean or sum over the kept examples, or each value in the shape of the labels."""
    if reduction == "mean":
        return kept.mean(values)
    if reduction == "sum":
        return (values * kept.weight).sum()
    if reduction == "none":
        return (values * kept.weight).reshape(labels.shape)
    raise InputError(f"reduction is 'mean', 'sum' or 'none'; got {reduction!r}.")


def widest(values: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Return ``values`` in float64, or float32 on a device without float64."""
    return values.float() if values.device.type == "mps" else values.double()


def _check(logits: Tensor, labels: Tensor) -> None:
    if logits.dim() == 0 or logits.shape[-1] == 0 or logits.shape[:-1] != labels.shape:
        raise InputError(
            "A loss takes logits of shape (..., classes) and labels of shape (...), with one class "
            f"or more; got logits {tuple(logits.shape)} and labels {tuple(labels.shape)}."
        )
    if not logits.is_floating_point():
        raise InputError(f"A loss takes floating-point logits; got {logits.dtype}.")
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise InputError(f"A loss takes class numbers as integer labels; got {labels.dtype}.")
    # Reading values would make a GPU wait; there the gather kernel itself fails.
    if labels.device.type == "cpu" and not torch.compiler.is_compiling():
        wrong = ((labels < 0) | (labels >= logits.shape[-1])) & (labels != IGNORED)
        if bool(wrong.any()):
            raise InputError(
                f"Labels are 0 … {logits.shape[-1] - 1}, or {IGNORED} for ignored; "
                f"got {int(labels[wrong][0])}."
            )
