"""The lean loop: data on the device, static shapes, a captured CUDA graph, no synchronisation.

A step of a small encoder is bound by the launching of its many small kernels. Here batches have
one of a few padded lengths (:mod:`calibrant.training.buckets`), everything that a step needs lies
on the device, the learning rate included, and on CUDA the whole step (gather, forward, loss,
backward, clip, optimizer) is one graph per length. A loop can be started again with other seeds
without being captured again, and several can run side by side, each on a stream of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from calibrant.methods.base import Method
from calibrant.methods.stream import Stream
from calibrant.predictions import IGNORED
from calibrant.training.buckets import LENGTHS, plan_batches
from calibrant.training.tap import attach

__all__ = ["Loop", "Schedule", "Windows"]

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
    dtype: str = "float32"  # of the forward pass; weights and optimizer stay in float32


class Windows:
    """Windows of word pieces on a device, padded once; any number of loops can share them.

    ``data`` has flat ``ids`` and ``labels`` and the ``lengths`` of its windows (see
    ``calibrant.tasks.pieces``). A last, empty row fills the batches that come out short.
    """

    def __init__(self, data: Any, device: str | torch.device, padding: int = 0) -> None:
        self.lengths: np.ndarray = data.lengths
        longest = next(length for length in LENGTHS if length >= self.lengths.max())
        ids, labels = data.padded(np.arange(len(data)), longest, padding)
        self.ids = _with_row(ids, padding, torch.int32, device)
        self.labels = _with_row(labels, IGNORED, torch.int16, device)
        self.sizes = _with_row(self.lengths, 1, torch.int32, device)
        self.device = self.ids.device

    def batch(self, rows: Tensor, length: int) -> tuple[Tensor, Tensor, Tensor]:
        """Ids, labels and mask of some rows, cut to ``length``; row −1 is empty."""
        ids, labels = self.ids[rows, :length].long(), self.labels[rows, :length].long()
        places = torch.arange(length, device=self.device)
        return ids, labels, (places < self.sizes[rows][:, None]).long()


class Loop:
    """Train ``model`` with ``method`` on ``windows``.

    :meth:`steps` yields after each step has been queued; nothing waits for the device.
    """

    def __init__(
        self,
        model: nn.Module,
        method: Method,
        windows: Windows,
        schedule: Schedule,
        *,
        seed: int = 0,
        graph: bool | None = None,
    ) -> None:
        self.device, self.windows, self.schedule = windows.device, windows, schedule
        self.model, self.method = model.to(self.device), method.to(self.device)
        cuda = self.device.type == "cuda"
        self.stream: Any = torch.cuda.Stream(self.device) if cuda else None  # type: ignore[no-untyped-call]
        # Dropout draws from a stream of its own, so that loops side by side stay independent.
        self.random = torch.Generator(self.device)
        self.done, self.learning_rate, self.loss = (
            torch.zeros((), device=self.device) for _ in range(3)
        )
        self.optimizer = self._optimizer()
        self.tap = attach(model, method)
        self.rows: dict[int, Tensor] = {}
        self.position: dict[int, Tensor] = {}
        self._method_state = {k: v.clone() for k, v in _tensors(method).items()}
        self._plan(seed)
        with self.on_stream(), _drawing_from(self.random):
            self.replays = self._capture() if (cuda if graph is None else graph) else {}

    def __len__(self) -> int:
        return len(self.order)

    def restart(self, weights: Mapping[str, Tensor], seed: int) -> None:
        """Begin a new run from other weights and another seed, with the same captured graphs."""
        with self.on_stream():
            self._plan(seed)
            self._rewind(weights)

    def run(self) -> None:
        """Train to the end, wait for it, and leave a plain model in evaluation mode."""
        for _ in self.steps():
            pass
        self.wait()
        self.close()

    def wait(self) -> None:
        """Until the device has done what is queued."""
        if self.stream is not None:
            self.stream.synchronize()

    def finished(self) -> bool:
        """Whether the device has done what is queued."""
        return self.stream is None or bool(self.stream.query())

    def close(self) -> None:
        """Take the method off the model."""
        self.tap.remove()
        self.model.eval()
        self.replays = {}

    def steps(self) -> Iterator[int]:
        """Queue one optimizer step after another, yielding the number of those queued."""
        self.model.train()
        for number, length in enumerate(self.order, start=1):
            with self.on_stream():
                if self.replays:  # A graph holds the generators that it was captured with.
                    self.replays[length].replay()
                else:
                    with _drawing_from(self.random):
                        self._step(length)
            yield number

    def _plan(self, seed: int) -> None:
        """The batches of all epochs; the tables keep their place, for graphs read from there."""
        plan = plan_batches(self.windows.lengths, self.schedule.batch, self.schedule.epochs, seed)
        self.order: list[int] = plan.order.tolist()
        for length, rows in plan.rows.items():
            table = torch.as_tensor(rows, device=self.device)
            self.rows.setdefault(length, table).copy_(table)
            self.position.setdefault(length, torch.zeros(1, dtype=torch.long, device=self.device))
        self.random.manual_seed(seed)
        for stream in self._method_streams():
            stream.restart(seed, self.device)

    def _step(self, length: int) -> None:
        """One optimizer step; every operation stays on the device."""
        position = self.position[length]
        rows = self.rows[length].index_select(0, position)[0]
        position.add_(1).remainder_(len(self.rows[length]))
        ids, labels, mask = self.windows.batch(rows, length)
        self._set_learning_rate()
        self.optimizer.zero_grad(set_to_none=True)
        with self._autocast():
            logits = self.model(input_ids=ids, attention_mask=mask).logits
        loss = self.method.loss(self.tap.step(logits, labels))
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.schedule.clip, foreach=True)
        self.optimizer.step()
        self.loss.add_(loss.detach())

    def _set_learning_rate(self) -> None:
        total, warm = len(self.order), self.schedule.warm_up * len(self.order)
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
        return torch.optim.AdamW(groups, lr=self.learning_rate, fused=fused, capturable=fused)

    def _capture(self) -> dict[int, torch.cuda.CUDAGraph]:
        """One graph per length; the warm-up steps that capturing needs are undone."""
        self.model.train()
        weights = {name: value.clone() for name, value in self.model.state_dict().items()}
        graphs: dict[int, torch.cuda.CUDAGraph] = {}
        pool = torch.cuda.graph_pool_handle()
        for length in self.rows:
            for _ in range(_WARM_UP):
                self._step(length)
            graph = torch.cuda.CUDAGraph()
            for stream in self._method_streams():
                graph.register_generator_state(stream.generator(self.device))
            self.optimizer.zero_grad(set_to_none=True)
            # torch.cuda.graph() would wait for the whole device, other loops included.
            graph.capture_begin(pool=pool, capture_error_mode="thread_local")
            self._step(length)
            graph.capture_end()
            graphs[length] = graph
        self._rewind(weights)
        return graphs

    def _rewind(self, weights: Mapping[str, Tensor]) -> None:
        """Everything as before the first step, in place."""
        with torch.no_grad():
            for name, value in self.model.state_dict().items():
                value.copy_(weights[name])
            for name, value in _tensors(self.method).items():
                value.copy_(self._method_state[name])
        for state in self.optimizer.state.values():
            for value in state.values():
                value.zero_()
        for value in (*self.position.values(), self.done, self.loss):
            value.zero_()

    def _method_streams(self) -> Iterator[Stream]:
        return (module for module in self.method.modules() if isinstance(module, Stream))

    def _autocast(self) -> contextlib.AbstractContextManager[Any]:
        dtype = getattr(torch, self.schedule.dtype)
        # Without the cache: a cast that one graph made would be stale memory to the next.
        return torch.autocast(
            self.device.type, dtype=dtype, enabled=dtype != torch.float32, cache_enabled=False
        )

    def on_stream(self) -> contextlib.AbstractContextManager[Any]:
        """What is queued inside runs after the steps queued before it."""
        return contextlib.nullcontext() if self.stream is None else torch.cuda.stream(self.stream)


def _with_row(
    values: np.ndarray, filler: int, dtype: torch.dtype, device: str | torch.device
) -> Tensor:
    last = np.full((1, *values.shape[1:]), filler, values.dtype)
    return torch.as_tensor(np.concatenate([values, last]), dtype=dtype, device=device)


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers, by name."""
    return {
        name: value.detach()
        for name, value in [*module.named_parameters(), *module.named_buffers()]
    }


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
