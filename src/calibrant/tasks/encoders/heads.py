"""Pretrained encoders, and MLP heads of chosen width and depth for tokens or whole texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from calibrant.errors import InputError, unknown_name
from calibrant.extras import require
from calibrant.tasks.encoders.finding import is_own_model, load_own_encoder
from calibrant.tasks.encoders.foreign_models import loading, trusted
from calibrant.tasks.reading.hub import asking_the_hub

__all__ = ["build_head", "head_name", "load_encoder", "with_head", "with_sequence_head"]

_HEADS = ("classifier", "score", "logits_proj")  # BERT and most others, decoders, XLNet.
ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU, "tanh": nn.Tanh, "none": nn.Identity}


def build_head(
    features: int,
    classes: int,
    width: int = 128,
    depth: int = 1,
    activation: str = "relu",
    dropout: float = 0.1,
) -> nn.Module:
    """Build ``depth`` hidden layers of ``width`` and a linear output; depth 0 is a linear head.

    The ∇Acc paper calls one hidden layer depth 1; its published code has no activation between
    the layers (``activation="none"``).

    >>> sum(isinstance(layer, nn.Linear) for layer in build_head(384, 9, width=128, depth=2))
    3
    """
    if activation not in ACTIVATIONS:
        raise unknown_name("activation", activation, ACTIVATIONS)
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Dropout(dropout), nn.Linear(features, width), ACTIVATIONS[activation]()]
        features = width
    return nn.Sequential(*layers, nn.Dropout(dropout), nn.Linear(features, classes))


def load_encoder(encoder: str | Path, labels: Sequence[str], unit: str = "token") -> nn.Module:
    """Load a pretrained classifier of each token, or sequence, from a folder or a hub name."""
    transformers = require("transformers", "transformers", "A pretrained encoder")
    numbers = dict(enumerate(labels))
    names = {"id2label": numbers, "label2id": {name: k for k, name in numbers.items()}}
    auto = getattr(transformers, f"AutoModelFor{unit.capitalize()}Classification")
    with loading(f"Cannot load the encoder '{encoder}'"), asking_the_hub(str(encoder)):
        if is_own_model(encoder):
            model, found = load_own_encoder(encoder, labels, unit)
        else:
            model, found = auto.from_pretrained(
                str(encoder),
                num_labels=len(labels),
                dtype=torch.float32,
                trust_remote_code=trusted(),
                ignore_mismatched_sizes=True,  # Its classes do not matter: it is replaced.
                output_loading_info=True,
                **names,
            )
        _check_weights(model, found)
    if unit == "token" and not hasattr(model, "classifier"):
        raise InputError(f"{type(model).__name__} has no 'classifier' to put a head in.")
    return cast(nn.Module, model)


def _check_weights(model: Any, found: dict[str, Any]) -> None:
    """Refuse an encoder with a part that would be drawn at random."""
    inside = f"{model.base_model_prefix}."
    lacking = {*found["missing_keys"], *(key for key, *_ in found["mismatched_keys"])}
    random = sorted(key for key in lacking if key.startswith(inside) and "pooler" not in key)
    if random:
        raise ValueError(f"its weights have no {random[0]} of the right shape.")


def with_head(model: nn.Module, classes: int, seed: int = 0, **head: Any) -> nn.Module:
    """Replace the classifier of ``model`` by :func:`build_head`, drawn from ``seed`` alone."""
    width = cast(Any, model.config).hidden_size
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model.classifier = build_head(width, classes, **head)
    return model


def with_sequence_head(
    model: nn.Module, classes: int, seed: int = 0, *, depth: int = 1, **head: Any
) -> nn.Module:
    """Replace the linear classifier of ``model`` by ``build_head``, drawn from ``seed`` alone.

    An encoder whose class has a head of several layers (RoBERTa and its relatives) keeps that head,
    drawn again, and accepts no other: its depth is 0.
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
                f"{type(model).__name__} has its own head, which cannot have hidden layers: "
                "use head_depth 0."
            )
        else:
            _draw_anew(cast(nn.Module, own))
    return model


def head_name(model: nn.Module) -> str:
    """Return the attribute of a classifier of transformers that holds its last layers."""
    found = next((name for name in _HEADS if hasattr(model, name)), None)
    if found is None:
        raise InputError(f"{type(model).__name__} has no {' or '.join(_HEADS)} to put a head in.")
    return found


def _draw_anew(head: nn.Module) -> None:
    for layer in head.modules():
        reset: Any = getattr(layer, "reset_parameters", None)
        if reset is not None:
            reset()
