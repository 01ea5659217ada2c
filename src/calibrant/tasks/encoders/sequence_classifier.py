"""A classifier of whole texts with an MLP head of chosen width and depth."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import nn

from calibrant.errors import InputError
from calibrant.tasks.encoders.token_classifier import build_head

__all__ = ["head_name", "with_sequence_head"]

_HEADS = ("classifier", "score", "logits_proj")  # BERT and most others, decoders, XLNet.


def with_sequence_head(
    model: nn.Module, classes: int, seed: int = 0, *, depth: int = 1, **head: Any
) -> nn.Module:
    """``model`` with its linear classifier replaced by ``build_head``, drawn from ``seed`` alone.

    An encoder whose class brings a head of several layers (RoBERTa's and its kin) keeps that, drawn
    anew, and takes no other: its depth is 0.
    """
    name = head_name(model)
    own: Any = getattr(model, name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if isinstance(own, nn.Linear):
            made: Any = build_head(own.in_features, classes, depth=depth, **head)
            if not depth and "bias" not in dict(own.named_parameters()):
                made[-1].bias = None  # Its class would leave one out when it is loaded.
            setattr(model, name, made)
        elif depth:
            raise InputError(
                f"{type(model).__name__} has a head of its own, which takes no hidden layers: "
                "head_depth 0."
            )
        else:
            _draw_anew(cast(nn.Module, own))
    return model


def head_name(model: nn.Module) -> str:
    """The attribute of a classifier of transformers that holds its last layers."""
    found = next((name for name in _HEADS if hasattr(model, name)), None)
    if found is None:
        raise InputError(f"{type(model).__name__} has no {' or '.join(_HEADS)} to put a head in.")
    return found


def _draw_anew(head: nn.Module) -> None:
    for layer in head.modules():
        reset: Any = getattr(layer, "reset_parameters", None)
        if reset is not None:
            reset()
