"""A signal of damage: what the inner layers of a network of images see of it.

The mean and the deviation of each channel of some inner layers tell noise, blur or a tone curve
from a clean image, before the last layers forget it. A small network reads them. It learned from
training images that were damaged at random: has the damage changed the prediction? That needs no
labels, no validation image and none of the named corruptions.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from calibrant.errors import InputError
from calibrant.files.npz import array_names, read_array
from calibrant.training.head_hook import logits_of
from calibrant.training.loop_resources import as_written

__all__ = ["DamageReader", "learned_damage", "learned_from", "read_damage"]

_HIDDEN, _EPOCHS, _BATCH = 48, 6, 256
_RATE, _DECAY = 3e-3, 1e-2
_CLEAN = 2.0  # How often clean images count, relative to one set of damaged ones.
_LEAST = 0.05  # Of the mean deviation: a channel that hardly varies decides nothing.
_STAGES = ("layer1", "layer2", "layer3")  # Of residual networks.
_ARRAYS = ("mean", "spread", "first", "first_bias", "second", "second_bias")


class DamageReader(nn.Module):
    """Reads log-odds that damage has changed the prediction, from the last pass of a model.

    m are the means and deviations of the channels of the inner ``layers``, s = (m − mean) / spread
    and x = sign(s) log(1 + |s|). The log-odds are v · relu(W x + b) + c.
    """

    def __init__(self, layers: Iterable[str], arrays: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.layers = tuple(layers)
        self._kept: dict[int, Tensor] = {}  # Of the last pass, by the number of the layer.
        self._hooks: list[Any] = []
        for name, values in (arrays or {}).items():
            self.register_buffer(name, torch.as_tensor(values, dtype=torch.float32))

    def watch(self, model: nn.Module) -> DamageReader:
        """Keep the moments of the inner layers in every pass of the model."""
        for number, name in enumerate(self.layers):
            layer = model.get_submodule(name)
            self._hooks.append(layer.register_forward_hook(partial(self._keep, number)))
        return self

    def release(self) -> None:
        """Keep nothing more."""
        while self._hooks:
            self._hooks.pop().remove()

    def moments(self) -> Tensor | None:
        """Return the moments (images, values) of the last pass, and forget them.

        There are none if a layer did not run.
        """
        kept, self._kept = self._kept, {}
        if len(kept) < len(self.layers):
            return None
        return torch.cat([kept[number] for number in range(len(self.layers))], -1)

    def forward(self) -> Tensor:
        """Return the log-odds of each image of the last pass."""
        moments = self.moments()
        assert moments is not None
        return self.of(moments)

    def of(self, moments: Tensor) -> Tensor:
        """Return the log-odds of rows of moments."""
        arrays = dict(self.named_buffers())
        inputs = _squashed(moments, arrays["mean"], arrays["spread"])
        hidden = functional.linear(inputs, arrays["first"], arrays["first_bias"]).relu()
        return functional.linear(hidden, arrays["second"], arrays["second_bias"])[..., 0]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what :func:`read_damage` reads."""
        values = {f"damage_{n}": v.cpu().numpy() for n, v in self.named_buffers()}
        return {"damage_layers": np.array(self.layers), **values}

    def _keep(self, number: int, layer: nn.Module, args: Any, output: Any) -> None:  # noqa: ARG002
        # Layers of transformers may return more than their activations.
        values: Tensor = (output if isinstance(output, Tensor) else output[0]).float()
        if values.ndim == 2:  # Features, at no place of the image.
            self._kept[number] = values
            return
        places = (2, 3) if values.ndim == 4 else (1,)
        mean = values.mean(places, keepdim=True)
        spread = (values - mean).square().mean(places).sqrt()
        self._kept[number] = torch.cat([mean.flatten(1), spread], -1)


def _squashed(moments: Tensor, mean: Tensor, spread: Tensor) -> Tensor:
    score = (moments - mean) / spread
    return score.sign() * score.abs().log1p()


def inner_layers(model: nn.Module) -> tuple[str, ...]:
    """Return the names of layers at the start and after a quarter, half and three quarters.

    A residual network has its first normalisation and three stages; of others, these are members of
    the longest row of layers.
    """
    modules = dict(model.named_modules())
    for name in modules:
        inside = [f"{name}.{part}".lstrip(".") for part in ("bn1", "stem", *_STAGES)]
        if all(stage in modules for stage in inside[2:]):
            return tuple(stage for stage in inside if stage in modules)
    rows = {n: m for n, m in modules.items() if isinstance(m, (nn.ModuleList, nn.Sequential))}
    if not rows:
        return ()
    longest = max(rows, key=lambda name: len(rows[name]))
    count = len(rows[longest])
    places = sorted({0, *(max(0, count * i // 4 - 1) for i in (1, 2, 3))})
    return tuple(f"{longest}.{place}".lstrip(".") for place in places)


@torch.no_grad()
def learned_damage(
    model: nn.Module, clean: Iterable[Tensor], damaged: Iterable[Iterable[Tensor]]
) -> DamageReader | None:
    """Learn from batches of clean images, and from several sets of the same images, damaged.

    Return nothing if the model has no inner layers that can be read.
    """
    reader = DamageReader(inner_layers(model))
    if not reader.layers or not _shows_layers(model):
        return None
    reader.watch(model)
    try:
        with as_written():
            before = _passed(model, reader, clean)
            if before is None:
                return None
            sets = (_passed(model, reader, images) for images in damaged)
            found = learned_from(before, (after for after in sets if after is not None))
    finally:
        reader.release()
    return DamageReader(reader.layers, found)


def _shows_layers(model: nn.Module) -> bool:
    """Return whether hooks run: compiled graphs may be older, if they cannot be switched off."""
    compiled = any(getattr(part, "_compiled_call_impl", None) for part in model.modules())
    return not compiled or hasattr(torch.compiler, "set_stance")


def _passed(
    model: nn.Module, reader: DamageReader, batches: Iterable[Tensor]
) -> tuple[Tensor, Tensor] | None:
    """Return predicted classes and moments, on the processor."""
    predicted, moments = [], []
    for pixels in batches:
        predicted.append(logits_of(model(pixel_values=pixels)).argmax(-1).cpu())
        seen = reader.moments()
        if seen is None:
            return None
        moments.append(seen.cpu())
    return torch.cat(predicted), torch.cat(moments)


def learned_from(
    clean: tuple[Tensor, Tensor], damaged: Iterable[tuple[Tensor, Tensor]]
) -> dict[str, Tensor]:
    """Return a reader's arrays, from predicted classes and moments of the same images."""
    predicted, moments = clean
    mean, spread = moments.mean(0), moments.std(0, correction=0)
    spread = spread.clamp(min=_LEAST * float(spread.mean()) + 1e-6)
    inputs, changed = [_squashed(moments, mean, spread)], [torch.zeros(len(moments))]
    weights = [torch.full((len(moments),), _CLEAN)]
    for new, moments in damaged:
        inputs.append(_squashed(moments, mean, spread))
        changed.append((new != predicted).float())
        weights.append(torch.ones(len(moments)))
    found = _learned(torch.cat(inputs), torch.cat(changed), torch.cat(weights))
    return {"mean": mean, "spread": spread, **found}


def _learned(inputs: Tensor, changed: Tensor, weights: Tensor) -> dict[str, Tensor]:
    """Fit the network with one hidden layer by AdamW."""
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(0)
        first, second = nn.Linear(inputs.shape[1], _HIDDEN), nn.Linear(_HIDDEN, 1)
        parameters = [*first.parameters(), *second.parameters()]
        optimizer = torch.optim.AdamW(parameters, _RATE, weight_decay=_DECAY)
        steps = _EPOCHS * -(-len(inputs) // _BATCH)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _RATE, total_steps=steps + 1)
        for rows in _orders(len(inputs)):
            loss = functional.binary_cross_entropy_with_logits(
                second(first(inputs[rows]).relu())[:, 0], changed[rows], weight=weights[rows]
            )
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    return {
        "first": first.weight.detach(), "first_bias": first.bias.detach(),
        "second": second.weight.detach(), "second_bias": second.bias.detach(),
    }  # fmt: skip


def _orders(count: int) -> Iterator[Tensor]:
    for _ in range(_EPOCHS):
        order = torch.randperm(count)
        yield from (order[start : start + _BATCH] for start in range(0, count, _BATCH))


def read_damage(archive: zipfile.ZipFile, path: Any) -> DamageReader | None:
    """Return the reader whose arrays are in an archive, if they are."""
    if "damage_layers" not in array_names(archive):
        return None
    layers = read_array(archive, "damage_layers")
    arrays = {name: read_array(archive, f"damage_{name}") for name in _ARRAYS}
    width = arrays["mean"].shape
    hidden = (_HIDDEN,)
    shapes = (width, width, (*hidden, *width), hidden, (1, *hidden), (1,))
    right = [array.shape for array in arrays.values()] == list(shapes)
    if not right or not all(np.isfinite(array).all() for array in arrays.values()):
        raise InputError(f"{path}: the network that reads damage must have finite numbers.")
    return DamageReader(map(str, layers), arrays)
