"""The lean loop: data on the device, static shapes, a captured CUDA graph, no synchronisation.

A step of a small encoder is bound by the launching of its many small kernels. Here batches have
one of a few padded lengths (:mod:`calibrant.training.buckets`), everything that a step needs lies
on the device, the learning rate included, and on CUDA the whole step (gather, forward, loss,
backward, clip, optimizer) is one graph per length. Several loops can run side by side on streams
of their own: :func:`side_by_side`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from calibrant.methods.base import Method
from calibrant.methods.stream import Stream
from calibrant.predictions import IGNORED
from calibrant.training.buckets import BatchPlan, bucket_of, plan_batches
from calibrant.training.tap import attach

__all__ = ["Loop", "Schedule", "side_by_side"]

_WARM_UP = 3  # Eager steps before a capture, so that lazy initialisation is done.


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to train; the defaults are the ∇Acc paper's, but for the batch."""

    epochs: int = 10
    batch: int = 32
    learning_rate: float = 5e-5
    weight_decay: float = 0.01
    warm_up: float = 0.0  # share of all steps
    clip: float = 1.0
    seed: int = 0
    dtype: str = "float32"  # of the forward pass; weights and optimizer stay in float32


class Loop:
    """Train ``model`` with ``method`` on windows of word pieces.

    ``data`` has flat ``ids`` and ``labels`` and ``starts`` (see ``calibrant.tasks.pieces``).
    :meth:`steps` yields after each step has been queued; nothing waits for the device.
    """

    def __init__(
        self,
        model: nn.Module,
        method: Method,
        data: Any,
        schedule: Schedule,
        *,
        device: str | torch.device = "cpu",
        padding: int = 0,
        graph: bool | None = None,
    ) -> None:
        self.device = torch.device(device)
        self.graph = self.device.type == "cuda" if graph is None else graph
        self.model, self.method = model.to(self.device), method.to(self.device)
        self.schedule = schedule
        self.plan = plan_batches(data.lengths, schedule.batch, schedule.epochs, schedule.seed)
        self.buffers = {
            length: _Bucket(data, self.plan, length, padding, self.device)
            for length in self.plan.rows
        }
        self.done = torch.zeros((), device=self.device)
        self.learning_rate = torch.zeros((), device=self.device)
        self.loss = torch.zeros((), device=self.device)
        self.optimizer = self._optimizer()
        self.tap = attach(model, method)
        self.stream = torch.cuda.Stream(self.device) if self.device.type == "cuda" else None
        # Dropout draws from a stream of its own, so that loops side by side stay independent.
        self.random = torch.Generator(self.device).manual_seed(schedule.seed)

    def run(self) -> None:
        """Train to the end and wait for it."""
        for _ in self.steps():
            pass
        self.finish()

    def finish(self) -> None:
        """Wait for the device and leave the model as a plain model in evaluation mode."""
        if self.stream is not None:
            self.stream.synchronize()
        self.tap.remove()
        self.model.eval()

    def steps(self) -> Iterator[int]:
        """Queue one optimizer step after another, yielding the number of those queued."""
        self.model.train()
        with self._on_stream(), _drawing_from(self.random):
            replays = self._captured() if self.graph else {}
        for number, length in enumerate(self.plan.order.tolist(), start=1):
            with self._on_stream():
                if self.graph:  # It holds the generator that it was captured with.
                    replays[length].replay()
                else:
                    with _drawing_from(self.random):
                        self._step(self.buffers[length])
            yield number

    def _step(self, bucket: _Bucket) -> None:
        """One optimizer step; every operation stays on the device."""
        ids, labels, mask = bucket.next()
        self._set_learning_rate()
        self.optimizer.zero_grad(set_to_none=True)
        with self._autocast():
            logits = self.model(input_ids=ids, attention_mask=mask).logits
        loss = self.method.loss(self.tap.step(logits, labels))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.schedule.clip, foreach=True)
        self.optimizer.step()
        self.loss.add_(loss.detach())

    def _set_learning_rate(self) -> None:
        total, warm = len(self.plan), self.schedule.warm_up * len(self.plan)
        rising = (self.done + 1) / warm if warm else torch.ones_like(self.done)
        falling = (total - self.done) / (total - warm)
        share = torch.minimum(rising, falling).clamp(0, 1)
        self.learning_rate.copy_(self.schedule.learning_rate * share)
        self.done.add_(1)

    def _optimizer(self) -> torch.optim.Optimizer:
        decayed = [p for p in self.model.parameters() if p.ndim > 1]
        others = [p for p in self.model.parameters() if p.ndim <= 1]
        groups = [
            {"params": decayed, "weight_decay": self.schedule.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]
        fused = self.device.type == "cuda"
        rate: Any = self.learning_rate
        return torch.optim.AdamW(groups, lr=rate, fused=fused, capturable=fused)

    def _captured(self) -> dict[int, torch.cuda.CUDAGraph]:
        """One graph per length; the warm-up steps that capturing needs are undone."""
        before = _snapshot(self.model, self.method)
        graphs: dict[int, torch.cuda.CUDAGraph] = {}
        pool = torch.cuda.graph_pool_handle()
        for length, bucket in self.buffers.items():
            for _ in range(_WARM_UP):
                self._step(bucket)
            graphs[length] = torch.cuda.CUDAGraph()
            for module in self.method.modules():
                if isinstance(module, Stream):
                    graphs[length].register_generator_state(module.generator(self.device))
            self.optimizer.zero_grad(set_to_none=True)
            with torch.cuda.graph(graphs[length], pool=pool, stream=self.stream):
                self._step(bucket)
        self._rewind(before)
        return graphs

    def _rewind(self, before: dict[str, Any]) -> None:
        _restore(self.model, self.method, before)
        for state in self.optimizer.state.values():
            for value in state.values():
                value.zero_()
        for bucket in self.buffers.values():
            bucket.position.zero_()
        self.done.zero_()
        self.loss.zero_()
        self.random.manual_seed(self.schedule.seed)

    def _autocast(self) -> contextlib.AbstractContextManager[Any]:
        dtype = getattr(torch, self.schedule.dtype)
        # Without the cache: a cast that one graph made would be stale memory to the next.
        return torch.autocast(
            self.device.type, dtype=dtype, enabled=dtype != torch.float32, cache_enabled=False
        )

    def _on_stream(self) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext() if self.stream is None else torch.cuda.stream(self.stream)


class _Bucket:
    """The windows of one padded length on the device, and the plan of their batches."""

    def __init__(
        self, data: Any, plan: BatchPlan, length: int, padding: int, device: torch.device
    ) -> None:
        rows = plan.rows[length]
        used = np.unique(rows[rows >= 0])
        ids, labels = data.padded(used, length, padding)
        sizes = data.lengths[used]
        # A last, empty row serves the places that a short batch leaves over.
        self.ids = _with_row(ids, padding, device)
        self.labels = _with_row(labels, IGNORED, device)
        self.sizes = _with_row(sizes, 1, device)
        place = np.where(rows >= 0, np.searchsorted(used, rows), len(used))
        self.plan = torch.as_tensor(place, device=device)
        self.places = torch.arange(length, device=device)
        self.position = torch.zeros((), dtype=torch.long, device=device)

    def next(self) -> tuple[Tensor, Tensor, Tensor]:
        """Ids, labels and mask of the next planned batch."""
        rows = self.plan.index_select(0, self.position.reshape(1))[0]
        self.position.add_(1).remainder_(len(self.plan))
        mask = self.places < self.sizes[rows][:, None]
        return self.ids[rows], self.labels[rows], mask.long()


def side_by_side(loops: Sequence[Loop]) -> Iterator[int]:
    """Queue one step of each loop in turn, so that their streams share the device.

    Yields the number of a loop when it has finished.
    """
    running = {number: loop.steps() for number, loop in enumerate(loops)}
    while running:
        for number in list(running):
            if next(running[number], None) is None:
                del running[number]
                loops[number].finish()
                yield number


def _with_row(values: np.ndarray, filler: int, device: torch.device) -> Tensor:
    last = np.full((1, *values.shape[1:]), filler, values.dtype)
    return torch.as_tensor(np.concatenate([values, last]).astype(np.int64), device=device)


@contextlib.contextmanager
def _drawing_from(generator: torch.Generator) -> Iterator[None]:
    """Let dropout and whatever else takes the default generator draw from this one."""
    if generator.device.type == "cuda":
        default: Any = torch.cuda.default_generators[generator.device.index or 0]
        previous = default.graphsafe_get_state()
        default.graphsafe_set_state(generator)
        try:
            yield
        finally:
            default.graphsafe_set_state(previous)
    else:
        saved = torch.get_rng_state()
        torch.set_rng_state(generator.get_state())
        try:
            yield
        finally:
            generator.set_state(torch.get_rng_state())
            torch.set_rng_state(saved)


def _snapshot(*modules: nn.Module) -> dict[str, Any]:
    return {
        f"{i}.{name}": value.detach().clone() if isinstance(value, Tensor) else value
        for i, module in enumerate(modules)
        for name, value in module.state_dict().items()
    }


def _restore(model: nn.Module, method: nn.Module, before: dict[str, Any]) -> None:
    for i, module in enumerate((model, method)):
        prefix = f"{i}."
        state = {k[len(prefix) :]: v for k, v in before.items() if k.startswith(prefix)}
        module.load_state_dict(state)
