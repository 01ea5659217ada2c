"""BERT encoders of several runs as one: batched matrix products, and what lies between them fused.

What :func:`torch.func.vmap` makes of a model launches a kernel for every bias, residual and mask of
every layer, and most of a step goes into moving the same numbers again and again. The layer is
written out here with the runs as first axis, so that ``torch.compile`` can fuse all that is no
matrix product; it is compiled once, for any number of runs, sentences and pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, embedding, gelu, layer_norm, scaled_dot_product_attention

__all__ = ["StackedBert"]

_SHORT = 96  # Pieces up to which all scores of a layer are written out.

_EMBEDDINGS = [
    "word_embeddings.weight", "position_embeddings.weight", "token_type_embeddings.weight",
    "LayerNorm.weight", "LayerNorm.bias",
]  # fmt: skip
_LAYER = [
    f"{part}.{kind}"
    for part in (
        "attention.self.query", "attention.self.key", "attention.self.value",
        "attention.output.dense", "attention.output.LayerNorm",
        "intermediate.dense", "output.dense", "output.LayerNorm",
    )
    for kind in ("weight", "bias")
]  # fmt: skip


class StackedBert:
    """The features that the runs' heads get, from the stacked weights of their encoders.

    With ``compiled`` the layers go through ``torch.compile`` while they train on windows that are
    not long. :meth:`serves` tells whether a model is one that is written out here.
    """

    APART = ("bert.embeddings.word_embeddings.weight",)
    """Looked up in as one table of all runs, so it must lie by itself."""

    INPUTS = ("input_ids", "attention_mask")
    """What it takes: all of it, and nothing else."""

    def __init__(self, body: nn.Module, compiled: bool = False) -> None:
        self.body = body
        config: Any = body.config
        self.layers, self.eps = config.num_hidden_layers, config.layer_norm_eps
        self.compiled = compiled

    @staticmethod
    def serves(body: nn.Module) -> bool:
        """Whether ``body``, which has no head, is a plain BERT that classifies tokens."""
        config = getattr(body, "config", None)
        return (
            type(body).__name__ == "BertForTokenClassification"
            and getattr(config, "hidden_act", None) == "gelu"
            and getattr(config, "position_embedding_type", "absolute") == "absolute"
            and not getattr(config, "is_decoder", False)
            and _names(config) == {name for name, _ in body.named_parameters()}
            and _drops_as_configured(body, config)
        )

    def __call__(
        self, stacked: Mapping[str, Tensor], ids: Tensor, mask: Tensor, dtype: torch.dtype
    ) -> Tensor:
        """Runs × sentences × pieces × width, in ``dtype``."""
        body: Any = self.body
        training, config = body.training, body.config
        hidden = config.hidden_dropout_prob if training else 0.0
        attention = config.attention_probs_dropout_prob if training else 0.0
        heads: int = config.num_attention_heads
        # Fused attention, which long windows need, cannot be compiled for any length; they are few.
        quick = self.compiled and training and ids.shape[1] <= _SHORT
        begin, layer = map(_compiled, (_begin, _layer)) if quick else (_begin, _layer)
        words, *others = self._embeddings(stacked, ids)
        keep = mask.bool()[None, ..., None]
        states = begin(words, *others, dropped=hidden, dtype=dtype, eps=self.eps)
        for number in range(self.layers):
            weights = [stacked[f"bert.encoder.layer.{number}.{name}"] for name in _LAYER]
            states = layer(
                states, keep, *weights, hidden=hidden, attention=attention, heads=heads,
                eps=self.eps,
            )  # fmt: skip
        last: Tensor = body.dropout(states)
        return last

    def _embeddings(self, stacked: Mapping[str, Tensor], ids: Tensor) -> list[Tensor]:
        """Of each piece, looked up in its run's table; then positions, type, and the norm's."""
        table, places, types, *norm = (stacked[f"bert.embeddings.{name}"] for name in _EMBEDDINGS)
        runs, pieces = table.shape[:2]
        first = pieces * torch.arange(runs, device=ids.device)[:, None, None]
        words = embedding(ids + first, table.flatten(0, 1))
        padding = cast(Any, self.body).bert.embeddings.word_embeddings.padding_idx
        if padding is not None:  # Its row is not trained.
            fixed = table[:, None, None, padding].detach()
            words = torch.where((ids == padding)[..., None], fixed, words)
        return [words, places[:, None, : ids.shape[1]], types[:, None, :1], *norm]


def _names(config: Any) -> set[str]:
    """Of all parameters, but for the head's."""
    layers = (
        f"encoder.layer.{number}.{name}"
        for number in range(config.num_hidden_layers)
        for name in _LAYER
    )
    return {f"bert.{name}" for name in (*(f"embeddings.{n}" for n in _EMBEDDINGS), *layers)}


def _drops_as_configured(body: nn.Module, config: Any) -> bool:
    """Whether nobody has set another rate of dropout since the model was made."""
    return all(
        part.p == (
            config.attention_probs_dropout_prob if name.endswith("attention.self.dropout")
            else config.hidden_dropout_prob
        )
        for name, part in body.get_submodule("bert").named_modules()
        if isinstance(part, nn.Dropout)
    )  # fmt: skip


def _begin(
    words: Tensor,
    places: Tensor,
    types: Tensor,
    weight: Tensor,
    bias: Tensor,
    *,
    dropped: float,
    dtype: torch.dtype,
    eps: float,
) -> Tensor:
    states = _norm((words + places + types).flatten(1, 2), weight, bias, eps)
    return dropout(states, dropped).to(dtype).view_as(words)


def _layer(
    states: Tensor,
    keep: Tensor,
    *weights: Tensor,
    hidden: float,
    attention: float,
    heads: int,
    eps: float,
) -> Tensor:
    """One layer of all runs, in the type of the states."""
    query, query_bias, key, key_bias, value, value_bias, *rest = (
        weight.to(states.dtype) for weight in weights
    )
    out, out_bias, norm, norm_bias, up, up_bias, down, down_bias, last, last_bias = rest
    rows = states.flatten(1, 2)
    projected = _linear(
        rows, torch.cat([query, key, value], 1), torch.cat([query_bias, key_bias, value_bias], 1)
    )
    mixed = _attend(projected, keep, heads, attention)
    mixed = dropout(_linear(mixed, out, out_bias), hidden)
    rows = _norm(rows + mixed, norm, norm_bias, eps)
    wide = gelu(_linear(rows, up, up_bias))
    rows = _norm(rows + dropout(_linear(wide, down, down_bias), hidden), last, last_bias, eps)
    return rows.view_as(states)


def _attend(projected: Tensor, keep: Tensor, heads: int, dropped: float) -> Tensor:
    """Queries, keys and values side by side in; what each piece takes from the others out."""
    runs, rows, width = projected.shape[0], projected.shape[1], projected.shape[2] // 3
    batch, length = keep.shape[1:3]
    parts = projected.view(runs, batch, length, 3, heads, width // heads)
    query, key, value = parts.permute(3, 0, 1, 4, 2, 5).flatten(1, 2).unbind()
    mask = keep.expand(runs, -1, -1, -1).reshape(runs * batch, 1, 1, length)
    if length <= _SHORT:
        scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-2, -1)
        # Not −∞: a window of padding alone would have no place to look at.
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        mixed = dropout(scores.softmax(-1), dropped) @ value
    else:
        mask = mask.expand(-1, heads, length, length)
        mixed = scaled_dot_product_attention(query, key, value, mask, dropped)
    return mixed.transpose(1, 2).reshape(runs, rows, width)


def _linear(rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch.bmm(rows, weight.transpose(1, 2)) + bias[:, None]


def _norm(rows: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    return layer_norm(rows, rows.shape[-1:], eps=eps) * weight[:, None] + bias[:, None]


@cache
def _compiled(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """``function``, compiled once for any number of runs, sentences and pieces."""
    compiled = torch.compile(function)

    def call(*tensors: Tensor, **options: Any) -> Tensor:
        for tensor in tensors:
            axes = range(3 if tensor.ndim == 4 else 1)
            torch._dynamo.maybe_mark_dynamic(tensor, [a for a in axes if tensor.shape[a] > 1])
        result: Tensor = compiled(*tensors, **options)
        return result

    return call
