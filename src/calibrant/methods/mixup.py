"""Mixup of inputs (pixels) or features (text)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from calibrant.errors import InputError
from calibrant.losses.masking import IGNORED
from calibrant.methods.base import Method
from calibrant.methods.random_stream import Stream
from calibrant.methods.wrapper import Wrapper

if TYPE_CHECKING:
    from calibrant.training.step import Step

__all__ = ["FeatureMixup", "InputMixup"]


class _Mixup(Wrapper):
    """Shared base: draw λ and the partners in ``prepare``, mix the two losses in ``loss``.

    A position is mixed only with a kept position; one whose partner is ignored stays as it is.
    α is 0.2, as Zhang et al. choose for ImageNet; the meta-regularisation slides take 1.
    """

    def __init__(self, task: Method | None = None, alpha: float = 0.2, seed: int = 0) -> None:
        super().__init__(task)
        if any(isinstance(part, _Mixup) for part in self.task.modules()):
            raise InputError(
                f"{type(self).__name__} cannot wrap another mixup, as a label would need two "
                "partners: one is enough."
            )
        if alpha <= 0:
            raise InputError(f"Mixup draws from Beta(alpha, alpha) with alpha > 0, got {alpha}.")
        self.alpha = alpha
        self.stream = Stream(seed)
        self._drawn: tuple[Tensor, Tensor, Tensor] | None = None

    def loss(self, step: Step) -> Tensor:
        """Return λ L(y) + (1 − λ) L(y of the partner)."""
        share, partner_rows, partner_labels = self._take()
        self._drawn = None
        share = share.to(step.logits.device)
        partner = replace(step, labels=partner_labels.to(step.labels))
        if step.examples is not None:  # A history is that of the example whose label is compared.
            examples = step.examples[partner_rows.to(step.examples.device)]
            both = self._both.to(step.examples.device)
            partner = replace(partner, examples=examples.where(both, step.examples))
        return share * self.task.loss(step) + (1 - share) * self.task.loss(partner)

    def _drop_waiting(self) -> None:
        self._drawn = None

    def _draw(self, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Draw λ, the partner of each row, and the partners' labels."""
        # All on the labels' device, so that a CUDA graph draws new numbers at each replay.
        device = labels.device
        generator = self.stream.generator(device)
        concentration = torch.full((2,), self.alpha, device=device)
        share = torch._sample_dirichlet(concentration, generator=generator)[0]  # Beta(α, α)
        partner = torch.rand(len(labels), device=device, generator=generator).argsort()
        both = (labels != IGNORED) & (labels[partner] != IGNORED)
        self._drawn = share, partner, labels[partner].where(both, labels)
        self._both = both
        return self._drawn

    def _take(self) -> tuple[Tensor, Tensor, Tensor]:
        if self._drawn is None:
            raise InputError(
                f"{type(self).__name__} needs the batch before the forward pass: "
                "batch = method.prepare(batch)."
            )
        return self._drawn

    def _partners(self, values: Tensor) -> Tensor:
        """Return what each row is mixed with."""
        return values[self._take()[1]]

    def _mix(self, values: Tensor) -> Tensor:
        share, _, _ = self._take()
        mixed = torch.lerp(self._partners(values), values, share.to(values.dtype))
        if self._both.shape != values.shape[: self._both.ndim]:
            raise InputError(
                f"Mixup takes features (…, d) for labels (…): got {tuple(values.shape)} and "
                f"{tuple(self._both.shape)}; images with masks are mixed by 'feature_mixup'."
            )
        both = self._both[(..., *[None] * (values.ndim - self._both.ndim))]
        return mixed.where(both, values)


class FeatureMixup(_Mixup):
    """Mix the head's input: λ f_i + (1 − λ) f_j with λ ~ Beta(α, α), labels in the same shares.

    For text, whose inputs cannot be mixed. ``prepare`` draws, the hook mixes. Texts that a decoder
    classifies by their last piece are mixed by their ends, so ``prepare`` also keeps the
    ``attention_mask`` of the batch.

    Reference: Zhang et al., mixup, ICLR 2018; Verma et al., Manifold Mixup, ICML 2019.

    >>> FeatureMixup(alpha=0.2).passes
    1
    """

    def __init__(self, task: Method | None = None, alpha: float = 0.2, seed: int = 0) -> None:
        super().__init__(task, alpha, seed)
        self._mask: Tensor | None = None

    def prepare(self, batch: Any) -> Any:
        """Draw λ and the partners; the batch stays unchanged."""
        batch = super().prepare(batch)
        self._draw(_parts(batch)[1])
        self._mask = _mask(batch)
        return batch

    def at_head(self, features: Tensor) -> Tensor:
        """Return the mixed features."""
        return self._mix(super().at_head(features))

    def _partners(self, values: Tensor) -> Tensor:
        found, mask = super()._partners(values), self._mask
        whole = self.head_by_position and values.ndim == self._both.ndim + 2 == 3
        if not whole or mask is None or mask.shape != values.shape[:2]:
            return found
        # The model picks the last piece of each text, and a partner has its own at another place.
        pieces = mask.shape[1]
        last = pieces - 1 - mask.flip(1).int().argmax(1).to(values.device)
        behind = (last[self._take()[1]] - last)[:, None]
        place = (torch.arange(pieces, device=values.device) + behind).clamp(0, pieces - 1)
        return found.gather(1, place[..., None].expand_as(found))


class InputMixup(_Mixup):
    """Mix the inputs: λ x_i + (1 − λ) x_j with λ ~ Beta(α, α), labels in the same shares.

    For images. ``prepare`` takes a pair (inputs, labels) or a mapping with "labels", and mixes its
    floating-point tensors.

    Reference: Zhang et al., mixup: Beyond Empirical Risk Minimization, ICLR 2018.

    >>> batch = torch.eye(2), torch.tensor([0, 1])
    >>> inputs, labels = InputMixup(seed=1).prepare(batch)
    >>> inputs.sum(-1)  # each row is shared between two one-hot rows
    tensor([1., 1.])
    """

    def prepare(self, batch: Any) -> Any:
        """Return the batch with mixed inputs and unchanged labels."""
        batch = super().prepare(batch)
        inputs, labels = _parts(batch)
        self._draw(labels)
        mixed = {key: self._mix(value) for key, value in inputs.items()}
        if not mixed:
            raise InputError(
                "InputMixup found no floating-point input to mix; for token ids use FeatureMixup."
            )
        if isinstance(batch, Mapping):
            return {**batch, **mixed}
        return (*mixed.values(), labels)


def _mask(batch: Any) -> Tensor | None:
    """Return which pieces of a batch are no padding, if it says so."""
    inputs = batch if isinstance(batch, Mapping) else batch[0]
    found = inputs.get("attention_mask") if isinstance(inputs, Mapping) else None
    return found if isinstance(found, Tensor) else None


def _parts(batch: Any) -> tuple[dict[Any, Tensor], Tensor]:
    """Return the floating-point inputs of a batch, and its labels."""
    if isinstance(batch, Mapping) and "labels" in batch:
        labels, others = batch["labels"], {k: v for k, v in batch.items() if k != "labels"}
    elif isinstance(batch, (tuple, list)) and len(batch) == 2:
        labels, others = batch[1], {0: batch[0]}
    else:
        raise InputError(
            "Mixup takes a batch as a pair (inputs, labels) or a mapping with 'labels', "
            f"got {type(batch).__name__}."
        )
    floating = {k: v for k, v in others.items() if isinstance(v, Tensor) and v.is_floating_point()}
    return floating, labels
