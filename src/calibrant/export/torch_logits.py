"""Torch models as plain functions to logits, for tracing; and a temperature in their last layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from calibrant.errors import InputError
from calibrant.tasks.encoders.heads import head_name
from calibrant.tasks.feature_signals import WithSignals
from calibrant.training.head_hook import logits_of

__all__ = ["divide_head", "logits_module"]


class _OfPieces(nn.Module):
    """The logits of word pieces, and signals where the model computes some."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, ...]:
        """Logits of tokens or of texts."""
        return _outputs(self.model(input_ids=input_ids, attention_mask=attention_mask))


class _OfPixels(nn.Module):
    """The logits of images, and signals where the model computes some."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixel_values: Tensor) -> tuple[Tensor, ...]:
        """Logits of images or of their pixels."""
        return _outputs(self.model(pixel_values=pixel_values))


def _outputs(made: Any) -> tuple[Tensor, ...]:
    logits = logits_of(made).float()
    return (logits, made["signals"]) if isinstance(made, dict) and "signals" in made else (logits,)


def logits_module(model: nn.Module, names: Sequence[str]) -> tuple[nn.Module, list[str]]:
    """Return a module that takes inputs of these names in their order, and names its outputs."""
    made = (_OfPixels if tuple(names) == ("pixel_values",) else _OfPieces)(model).eval()
    return made, ["logits", *["signals"] * isinstance(model, WithSignals)]


def divide_head(model: nn.Module, temperature: float) -> None:
    """Divide the last linear layer of a classifier of transformers by a temperature; in place."""
    inner = getattr(model, "model", model)
    inner = inner if hasattr(inner, "config") and _has_head(inner) else model
    layers = [m for m in getattr(inner, head_name(inner)).modules() if isinstance(m, nn.Linear)]
    if not layers:
        raise InputError("The head of this model has no linear layer to hold a temperature.")
    with torch.no_grad():
        for values in layers[-1].parameters():
            values.div_(temperature)


def _has_head(model: nn.Module) -> bool:
    try:
        return hasattr(model, head_name(model))
    except (InputError, StopIteration):
        return False
