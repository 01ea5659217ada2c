"""BERT-like encoders of several runs as one: batched products, with the rest fused.

A model mapped by :func:`torch.func.vmap` launches a kernel for every bias, residual and mask of
every layer, and most of a step is spent moving the same numbers repeatedly. The layer is
written out here with the runs as first axis, so that ``torch.compile`` can fuse everything
except the matrix products; it is compiled once, for any number of runs, sentences and pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import (
    dropout,
    embedding,
    gelu,
    layer_norm,
    one_hot,
    scaled_dot_product_attention,
)

__all__ = ["StackedBert"]

_SHORT = 96  # Up to this many pieces all scores of a layer are written out.
_BERT_LAYER = (
    "attention.self.query", "attention.self.key", "attention.self.value",
    "attention.output.dense", "attention.output.LayerNorm",
    "intermediate.dense", "output.dense", "output.LayerNorm",
)  # fmt: skip


@dataclass(frozen=True)
class _Relative:
    """The part names of a BERT relative, and its differences from BERT."""

    prefix: str
    layers: str = "encoder.layer"
    parts: tuple[str, ...] = _BERT_LAYER
    attention_dropout: str = "attention.self.dropout"
    types: bool = True  # It adds the embedding of a type of token.
    counts: bool = False  # Positions count pieces other than padding, from the padding's id on.
    distances: bool = False  # Scores get a bias by the distance of two pieces.
    drops_mixed: bool = True  # Dropout follows the projection after attention.

    def embeddings(self) -> tuple[str, ...]:
        types = ("token_type_embeddings.weight",) if self.types else ()
        tables = ("word_embeddings.weight", "position_embeddings.weight", *types)
        return tuple(
            f"{self.prefix}.embeddings.{name}"
            for name in (*tables, "LayerNorm.weight", "LayerNorm.bias")
        )

    def layer(self, number: int) -> list[str]:
        stem = f"{self.prefix}.{self.layers}.{number}"
        return [f"{stem}.{part}.{kind}" for part in self.parts for kind in ("weight", "bias")]

    def distance_bias(self) -> tuple[str, ...]:
        return (f"{self.prefix}.encoder.relative_attention_bias.weight",) if self.distances else ()

    def names(self, layers: int) -> set[str]:
        """Return the names of all parameters except the head's."""
        inner = (name for number in range(layers) for name in self.layer(number))
        return {*self.embeddings(), *inner, *self.distance_bias()}


_RELATIVES = {
    "BertForTokenClassification": _Relative("bert"),
    "ElectraForTokenClassification": _Relative("electra"),
    "RobertaForTokenClassification": _Relative("roberta", counts=True),
    "XLMRobertaForTokenClassification": _Relative("roberta", counts=True),
    "MPNetForTokenClassification": _Relative(
        "mpnet",
        parts=(
            "attention.attn.q", "attention.attn.k", "attention.attn.v", "attention.attn.o",
            "attention.LayerNorm", "intermediate.dense", "output.dense", "output.LayerNorm",
        ),
        attention_dropout="attention.attn.dropout",
        types=False,
        counts=True,
        distances=True,
    ),
    "DistilBertForTokenClassification": _Relative(
        "distilbert",
        layers="transformer.layer",
        parts=(
            "attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin",
            "sa_layer_norm", "ffn.lin1", "ffn.lin2", "output_layer_norm",
        ),
        attention_dropout="attention.dropout",
        types=False,
        drops_mixed=False,
    ),
}  # fmt: skip


class StackedBert:
    """Compute the input of the runs' heads from the stacked weights of their encoders.

    With ``compiled`` the layers go through ``torch.compile`` while they train on windows that are
    not long. :meth:`serves` returns whether this class supports a model.
    """

    INPUTS = ("input_ids", "attention_mask")
    """The inputs it accepts: all of them are required, and no others."""

    def __init__(self, body: nn.Module, compiled: bool = False) -> None:
        self.body, self.compiled = body, compiled
        self.kind = _RELATIVES[type(body).__name__]
        self.inner: Any = getattr(body, self.kind.prefix)
        config: Any = body.config
        self.layers, self.heads = config.num_hidden_layers, config.num_attention_heads
        self.eps = self.inner.embeddings.LayerNorm.eps
        self.distances: dict[int, Tensor] = {}

    @property
    def apart(self) -> tuple[str, ...]:
        """The tables to store separately: all runs look up in them as in one."""
        return self.kind.embeddings()[: 2 if self.kind.counts else 1]

    @staticmethod
    def serves(body: nn.Module) -> bool:
        """Whether ``body``, without its head, is a supported token classifier."""
        kind = _RELATIVES.get(type(body).__name__)
        config: Any = getattr(body, "config", None)
        return (
            kind is not None
            and getattr(config, "hidden_act", getattr(config, "activation", None)) == "gelu"
            and getattr(config, "position_embedding_type", "absolute") == "absolute"
            and not getattr(config, "is_decoder", False)
            and kind.names(config.num_hidden_layers) == {n for n, _ in body.named_parameters()}
            and all(len(rates) == 1 for rates in _dropout_rates(body, kind).values())
        )

    def __call__(
        self, stacked: Mapping[str, Tensor], ids: Tensor, mask: Tensor, dtype: torch.dtype
    ) -> Tensor:
        """Return runs × sentences × pieces × width, in ``dtype``."""
        body: Any = self.body
        rates = _dropout_rates(body, self.kind)
        hidden, attention = (p if body.training else 0.0 for (p,) in rates.values())
        # Long windows need fused attention, which cannot be compiled for any length; they are few.
        quick = self.compiled and body.training and ids.shape[1] <= _SHORT
        begin, layer = map(_compiled, (_begin, _layer)) if quick else (_begin, _layer)
        words, places, *others = self._embeddings(stacked, ids)
        keep = mask.bool()[None, ..., None]
        bias = self._bias(stacked, ids.shape[1], dtype)
        states = begin(words, places, *others, dropped=hidden, dtype=dtype, eps=self.eps)
        for number in range(self.layers):
            weights = [stacked[name] for name in self.kind.layer(number)]
            states = layer(
                states, keep, *bias, *weights, hidden=hidden, attention=attention,
                mixed=hidden if self.kind.drops_mixed else 0.0, heads=self.heads, eps=self.eps,
            )  # fmt: skip
        last: Tensor = body.dropout(states)
        return last

    def _embeddings(self, stacked: Mapping[str, Tensor], ids: Tensor) -> list[Tensor]:
        """Look up each piece in its run's table; add position and type, if any, and normalise."""
        table, places, *others = (stacked[name] for name in self.kind.embeddings())
        types, norm = ([others[0][:, None, :1]], others[1:]) if self.kind.types else ([], others)
        embeddings = self.inner.embeddings
        padding = embeddings.word_embeddings.padding_idx
        words = _look_up(table, ids, padding)
        if self.kind.counts:
            first = embeddings.position_embeddings.padding_idx
            real = (ids != padding).long()
            position = _look_up(places, real.cumsum(1) * real + first, first)
        else:
            position = places[:, None, : ids.shape[1]]
        return [words, position, *types, *norm]

    def _bias(self, stacked: Mapping[str, Tensor], length: int, dtype: torch.dtype) -> list[Tensor]:
        """Return the bias by distance of two pieces: runs × 1 × heads × pieces × pieces."""
        if not self.kind.distances:
            return []
        (weights,) = (stacked[name] for name in self.kind.distance_bias())
        if length not in self.distances:  # Computed once per length: it is the same in all steps.
            at = torch.arange(length, device=weights.device)
            bucket = self.inner.encoder.relative_position_bucket(at[None] - at[:, None])
            self.distances[length] = one_hot(bucket, weights.shape[1]).flatten(0, 1)
        # A product, not a look-up: its gradient is a product too, with reproducible bits.
        chosen = self.distances[length].to(dtype) @ weights.to(dtype)
        return [chosen.transpose(1, 2).reshape(len(weights), 1, -1, length, length)]


def _look_up(table: Tensor, ids: Tensor, padding: int | None) -> Tensor:
    """Return runs × sentences × pieces × width from runs × rows × width; padding is not trained."""
    runs, rows = table.shape[:2]
    first = rows * torch.arange(runs, device=ids.device)[:, None, None]
    found = embedding(ids + first, table.flatten(0, 1))
    if padding is None:
        return found
    fixed = table[:, None, None, padding].detach()
    return torch.where((ids == padding)[..., None], fixed, found)


def _dropout_rates(body: nn.Module, kind: _Relative) -> dict[str, set[float]]:
    """Return the active rates, of hidden states and of attention: one of each in a plain model."""
    rates: dict[str, set[float]] = {"hidden": set(), "attention": set()}
    for name, part in body.get_submodule(kind.prefix).named_modules():
        if isinstance(part, nn.Dropout):
            where = "attention" if name.endswith(f".{kind.attention_dropout}") else "hidden"
            rates[where].add(part.p)
    return rates


def _begin(
    words: Tensor,
    *others: Tensor,
    dropped: float,
    dtype: torch.dtype,
    eps: float,
) -> Tensor:
    *added, weight, bias = others
    for each in added:
        words = words + each
    states = _norm(words.flatten(1, 2), weight, bias, eps)
    return dropout(states, dropped).to(dtype).view_as(words)


def _layer(
    states: Tensor,
    keep: Tensor,
    *others: Tensor,
    hidden: float,
    attention: float,
    mixed: float,
    heads: int,
    eps: float,
) -> Tensor:
    """Run one layer of all runs in the dtype of the states; ``others`` holds its 16 weights.

    The score bias may precede them.
    """
    *bias, query, query_bias, key, key_bias, value, value_bias = (
        weight.to(states.dtype) for weight in others[:-10]
    )
    out, out_bias, norm, norm_bias, up, up_bias, down, down_bias, last, last_bias = (
        weight.to(states.dtype) for weight in others[-10:]
    )
    rows = states.flatten(1, 2)
    projected = _linear(
        rows, torch.cat([query, key, value], 1), torch.cat([query_bias, key_bias, value_bias], 1)
    )
    found = _attend(projected, keep, heads, attention, *bias)
    found = dropout(_linear(found, out, out_bias), mixed)
    rows = _norm(rows + found, norm, norm_bias, eps)
    wide = gelu(_linear(rows, up, up_bias))
    rows = _norm(rows + dropout(_linear(wide, down, down_bias), hidden), last, last_bias, eps)
    return rows.view_as(states)


def _attend(
    projected: Tensor, keep: Tensor, heads: int, dropped: float, bias: Tensor | None = None
) -> Tensor:
    """Attend, given queries, keys and values side by side."""
    runs, rows, width = projected.shape[0], projected.shape[1], projected.shape[2] // 3
    batch, length = keep.shape[1:3]
    parts = projected.view(runs, batch, length, 3, heads, width // heads)
    query, key, value = parts.permute(3, 0, 1, 4, 2, 5).flatten(1, 2).unbind()
    mask = keep.expand(runs, -1, -1, -1).reshape(runs * batch, 1, 1, length)
    if bias is not None:
        bias = bias.expand(-1, batch, -1, -1, -1).flatten(0, 1)
    # Not −∞: a window that is all padding would have no position to attend to.
    least = torch.finfo(projected.dtype).min
    if length <= _SHORT:
        scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-2, -1)
        scores = scores if bias is None else scores + bias
        mixed = dropout(scores.masked_fill(~mask, least).softmax(-1), dropped) @ value
    else:
        mask = mask.expand(-1, heads, length, length)
        mask = mask if bias is None else bias.masked_fill(~mask, least)
        mixed = scaled_dot_product_attention(query, key, value, mask, dropped)
    return mixed.transpose(1, 2).reshape(runs, rows, width)


def _linear(rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    product: Tensor = _Product.apply(rows, weight)  # type: ignore[no-untyped-call]
    return product + bias[:, None]


class _Product(torch.autograd.Function):
    """Compute rows · weightᵀ per run, with a gradient in the memory layout of the weight.

    The gradient of ``torch.bmm`` is transposed, and copying it takes as long as AdamW itself.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(rows, weight)
        return torch.bmm(rows, weight.transpose(1, 2))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        rows, weight = ctx.saved_tensors
        return torch.bmm(gradient, weight), torch.bmm(gradient.transpose(1, 2), rows)


def _norm(rows: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    return layer_norm(rows, rows.shape[-1:], eps=eps) * weight[:, None] + bias[:, None]


_GROWING = {4: (0, 1, 2), 5: (0, 3, 4)}  # Axes of any size, by the number of axes; else the first.


@cache
def _compiled(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return ``function``, compiled once for any number of runs, sentences and pieces."""
    compiled = torch.compile(function)

    def call(*tensors: Tensor, **options: Any) -> Tensor:
        for tensor in tensors:
            axes = _GROWING.get(tensor.ndim, (0,))
            torch._dynamo.maybe_mark_dynamic(tensor, [a for a in axes if tensor.shape[a] > 1])
        result: Tensor = compiled(*tensors, **options)
        return result

    return call
