"""Compute signals of a head's input: its norm, and its distance to that of training examples.

A model inside :class:`WithSignals` returns them with its logits, so torch and ONNX compute them in
the same pass, and predictions keep them for calibrators.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from calibrant.errors import InputError
from calibrant.files.npz import opened_npz, read_array
from calibrant.outputs import new_file
from calibrant.predictions import IGNORED
from calibrant.tasks.damage_signal import DamageReader, read_damage
from calibrant.training.head import find_head
from calibrant.training.head_hook import logits_of
from calibrant.training.windows import Rows

__all__ = [
    "FILE",
    "WithSignals",
    "feature_signals",
    "known_features",
    "with_saved_signals",
    "write_signals",
]

FILE = "signals.npz"  # In the folder of a run.
_EXAMPLES = 20_000  # The centres are learned from this many training examples.
_CENTRES = 256  # Over all classes; each class has at least one.
_ROUNDS, _BATCH = 10, 64


class WithSignals(nn.Module):
    """Returns ``logits`` and ``signals``, whose last axis is energy, norm, distance, own distance.

    The energy is log Σ exp of the logits. With f the input of the head, the norm is ‖f‖, and the
    distance is 1 − cos of the angle to the nearest of ``centres`` (classes, m, width), which are
    unit vectors; the own distance is that to the nearest centre of the predicted class. ``damage``
    reads one more signal from inner layers.
    """

    centres: Tensor

    def __init__(
        self, model: nn.Module, centres: Tensor, damage: DamageReader | None = None
    ) -> None:
        super().__init__()
        self.model, self._features = model, None
        self.damage = None if damage is None else damage.watch(model)
        self.register_buffer("centres", centres)
        self.to(next(model.parameters()).device)
        self.train(model.training)
        self._hook = find_head(model)[1].register_forward_pre_hook(self._keep)

    def release(self) -> None:
        """Remove what was put into the model inside: it may be trained on."""
        self._hook.remove()
        if self.damage is not None:
            self.damage.release()

    @property
    def config(self) -> Any:
        """The config of the model inside."""
        return self.model.config

    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        """Run the model on its own inputs."""
        logits = logits_of(self.model(**inputs)).float()
        features = _pooled(self._features, logits, inputs.get("attention_mask"))
        self._features = None
        signals = feature_signals(logits, features, self.centres)
        if self.damage is not None:
            signals = torch.cat([signals, self.damage()[..., None]], -1)
        return {"logits": logits, "signals": signals}

    def _keep(self, head: nn.Module, args: tuple[Any, ...]) -> None:  # noqa: ARG002
        self._features = args[0]


def _pooled(features: Any, logits: Tensor, mask: Tensor | None) -> Tensor:
    """Return one vector for each row of logits: the mean over pieces if the head reads many.

    A head of images may begin by flattening channels at one place.
    """
    found: Tensor = features.float()
    if logits.ndim == 2 and found.ndim == 4 and found.shape[2:] == (1, 1):
        found = found.flatten(1)
    if found.ndim == logits.ndim:
        return found
    if mask is None or found.ndim != logits.ndim + 1:
        raise InputError(
            f"The head reads {tuple(found.shape)} for logits {tuple(logits.shape)}: signals cannot "
            "be computed; train with --copies none."
        )
    weight = mask[..., None].float()
    return (found * weight).sum(1) / weight.sum(1)


def feature_signals(logits: Tensor, features: Tensor, centres: Tensor) -> Tensor:
    """Return the signals of :class:`WithSignals` for rows of logits and of the head's inputs."""
    norm = features.norm(dim=-1)
    classes, several, width = centres.shape
    unit = features / norm.clamp(min=1e-12)[..., None]
    near = unit @ centres.reshape(classes * several, width).T
    near = near.reshape(*near.shape[:-1], classes, several).amax(-1)
    own = near.gather(-1, logits.argmax(-1, keepdim=True))[..., 0]
    return torch.stack([logits.logsumexp(-1), norm, 1 - near.amax(-1), 1 - own], -1)


@torch.no_grad()
def known_features(model: nn.Module, rows: Rows, classes: int) -> Tensor:
    """Return centres (classes, m, width) of the head's inputs on training examples.

    k-means on unit vectors finds them, separately for each class.
    """
    with torch.random.fork_rng(devices=[]):  # Images are augmented.
        torch.manual_seed(0)
        features, labels = _collected(model, rows)
    several = max(1, _CENTRES // classes)
    everything = features.mean(0, keepdim=True)  # For a class without training examples.
    centres = []
    for number in range(classes):
        own = features[labels == number]
        centres.append(_centres(own if len(own) else everything, several))
    return torch.stack(centres).half().float()  # The precision of the saved file.


def _collected(model: nn.Module, rows: Rows) -> tuple[Tensor, Tensor]:
    """Return the features of some labelled training examples, as unit vectors, and their labels."""
    kept: list[Any] = []
    hook = find_head(model)[1].register_forward_pre_hook(lambda _, args: kept.append(args[0]))
    try:
        pairs = list(_some_pairs(model, rows, kept))
    finally:  # Else the hook would keep what every later pass gives to the head.
        hook.remove()
    features, labels = zip(*pairs, strict=True)
    return torch.cat(features), torch.cat(labels)


def _some_pairs(model: nn.Module, rows: Rows, kept: list[Any]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield features and labels, batch by batch; a hook puts the head's input into ``kept``."""
    plan, count = rows.plan(min(_BATCH, len(rows)), 1, 0), 0
    taken = dict.fromkeys(plan.rows, 0)
    for bucket in plan.order.tolist():
        numbers = torch.as_tensor(plan.rows[bucket][taken[bucket]], device=rows.device)
        taken[bucket] += 1
        inputs = rows.batch(numbers, bucket)
        truth = inputs.pop("labels")
        logits = logits_of(model(**inputs))
        if not kept:
            raise InputError("The head of the model was not called: signals cannot be computed.")
        found = _pooled(kept.pop(), logits, inputs.get("attention_mask"))
        known = truth != IGNORED
        yield nn.functional.normalize(found[known], dim=-1), truth[known]
        count += int(known.sum())
        if count >= _EXAMPLES:
            return


def _centres(points: Tensor, several: int) -> Tensor:
    """Return ``several`` centres of k-means; fewer points give repeated centres."""
    chosen = np.random.default_rng(0).permutation(len(points))[:several]
    centres = points[torch.as_tensor(np.resize(chosen, several), device=points.device)]
    for _ in range(_ROUNDS):
        nearest = (points @ centres.T).argmax(1)
        sums = torch.zeros_like(centres).index_add_(0, nearest, points)
        moved = nn.functional.normalize(sums, dim=-1)
        centres = torch.where(sums.norm(dim=-1, keepdim=True) > 0, moved, centres)
    return centres


def write_signals(model: WithSignals, folder: Path) -> None:
    """Write the file that :func:`with_saved_signals` reads."""
    centres = model.centres.cpu().numpy().astype(np.float16)
    with new_file(folder / FILE, overwrite=True) as unfinished, unfinished.open("wb") as file:
        damage: dict[str, Any] = {} if model.damage is None else model.damage.arrays()
        np.savez_compressed(file, centres=centres, **damage)


def with_saved_signals(model: Any, folder: Path) -> Any:
    """Return the model of a run, with signals if its folder has them."""
    path = folder / FILE
    if not path.exists():
        return model
    with opened_npz(path) as archive:
        centres = read_array(archive, "centres")
        damage = read_damage(archive, path)
    if centres.ndim != 3 or not np.isfinite(centres).all():
        raise InputError(
            f"{path} must have centres of features: finite numbers (classes, m, width)."
        )
    return WithSignals(model, torch.as_tensor(centres.astype(np.float32)), damage).eval()
