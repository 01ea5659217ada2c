"""The weights of several encoders in few large tensors, one row per run.

A step then clips, updates and casts all of them with a handful of kernels, where tensor by tensor
it would launch thousands.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from calibrant.errors import InputError

__all__ = ["Group", "StackedWeights"]


@dataclass(frozen=True, eq=False)
class Group:
    """Parameters stored side by side: ``master`` is runs × numbers in float32.

    ``leaf`` is what gradients are taken of: the master itself, or its copy in bfloat16; it requires
    none where the parameters are frozen. The first ``decayed`` numbers of a row belong to matrices,
    which decay; the others to biases and norms.
    """

    shapes: Mapping[str, torch.Size]
    master: Tensor
    leaf: Tensor
    decayed: int

    def views(self, whole: Tensor) -> dict[str, Tensor]:
        """Return each parameter, runs first; one backward pass reaches all of them at once."""
        sizes = [shape.numel() for shape in self.shapes.values()]
        # The gradient of a split is a copy, which a single part does not need.
        parts = torch.split(whole, sizes, 1) if len(sizes) > 1 else [whole]
        return {
            name: part.view(len(whole), *shape)
            for (name, shape), part in zip(self.shapes.items(), parts, strict=True)
        }


class StackedWeights:
    """The parameters of ``bodies``, which must be alike in names and shapes.

    With ``half`` they are differentiated in bfloat16, except those ``apart``, which stay in
    float32 and are stored separately. Frozen parameters stay unchanged. A trainable parameter
    that no output depends on has a gradient of 0 here, so it decays.
    """

    def __init__(
        self,
        bodies: Sequence[nn.Module],
        device: torch.device,
        *,
        half: bool = False,
        apart: Collection[str] = (),
    ) -> None:
        self.groups: list[Group] = []
        found = [dict(body.named_parameters()) for body in bodies]
        kinds = [{n: (p.shape, p.requires_grad) for n, p in each.items()} for each in found]
        if any(each != kinds[0] for each in kinds):
            raise InputError("The models of a stack must be alike except for the head.")
        self.names = list(found[0])
        together = [name for name in self.names if name not in apart]
        together.sort(key=lambda name: found[0][name].ndim <= 1)  # Matrices first: they decay.
        for trained in (True, False):
            names = [name for name in together if found[0][name].requires_grad == trained]
            self.groups += [_group(found, names, device, half)] if names else []
        alone = [name for name in self.names if name in apart]
        self.groups += [_group(found, [name], device, False) for name in alone]

    def masters(self) -> dict[str, Tensor]:
        """Return every parameter in float32, runs first, in the models' order; no gradients."""
        return self._ordered(group.views(group.master.detach()) for group in self.groups)

    def leaves(self) -> dict[str, Tensor]:
        """Return the same parameters to differentiate by."""
        return self._ordered(group.views(group.leaf) for group in self.groups)

    def refresh(self) -> None:
        """Renew the bfloat16 copies after the masters were changed from outside."""
        with torch.no_grad():
            for group in self.groups:
                if group.leaf is not group.master:
                    group.leaf.copy_(group.master)

    def zero_grad(self) -> None:
        """Drop the gradients."""
        for group in self.groups:
            group.leaf.grad = None

    def _ordered(self, views: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
        found = {name: value for each in views for name, value in each.items()}
        return {name: found[name] for name in self.names}


def _group(
    found: Sequence[Mapping[str, nn.Parameter]],
    names: Sequence[str],
    device: torch.device,
    half: bool,
) -> Group:
    shapes = {name: found[0][name].shape for name in names}
    rows = [torch.cat([each[name].detach().flatten() for name in names]) for each in found]
    master = torch.stack(rows).to(device, torch.float32)
    leaf = master.bfloat16() if half else master
    decayed = sum(shape.numel() for shape in shapes.values() if len(shape) > 1)
    return Group(shapes, master, leaf.requires_grad_(found[0][names[0]].requires_grad), decayed)
