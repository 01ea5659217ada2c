"""The lean loop: data on the device, static shapes, a captured CUDA graph, no synchronisation.

A step of a small encoder is bound by the launching of its many small kernels. Here batches have
one of a few padded lengths (:mod:`calibrant.training.buckets`), everything that a step needs lies
on the device, the learning rate included, and on CUDA the whole step (gather, forward, loss,
backward, clip, optimizer) is one graph per length. A loop can be started again with other seeds
without being captured again, and several can run side by side, each on a stream of its own.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from calibrant.errors import InputError
from calibrant.methods.base import Method
from calibrant.predictions import IGNORED
from calibrant.training import checkpoint
from calibrant.training.buckets import plan_batches
from calibrant.training.generators import drawing_from
from calibrant.training.schedule import Schedule
from calibrant.training.step import Step
from calibrant.training.tap import attach
from calibrant.training.windows import Windows

__all__ = ["Loop", "Schedule", "Windows"]

_WARM_UP = 3  # Eager steps before a capture, so that lazy initialisation is done.


class Loop:
    """Train ``model`` with ``method`` on ``windows``.

    :meth:`steps` yields after each step has been queued; nothing waits for the device. ``holdout``
    is the held-out part of the training split, for methods that learn from it. A method with state
    on the host (see :func:`~calibrant.training.checkpoint.is_static`) runs without a graph.
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
        holdout: Windows | None = None,
    ) -> None:
        schedule.check()
        if method.needs_holdout != (holdout is not None):
            needs = "learns" if method.needs_holdout else "does not learn"
            raise InputError(f"{type(method).__name__} {needs} from held-out data: holdout=…")
        self.device, self.windows, self.schedule = windows.device, windows, schedule
        self.holdout = holdout
        self.model, self.method = model.to(self.device), method.to(self.device)
        cuda = self.device.type == "cuda"
        if schedule.dtype == "tf32":  # For the whole process: torch has no narrower switch.
            torch.set_float32_matmul_precision("high")
        self.stream: Any = torch.cuda.Stream(self.device) if cuda else None  # type: ignore[no-untyped-call]
        # Dropout draws from a stream of its own, so that loops side by side stay independent.
        self.random = torch.Generator(self.device)
        self.done, self.learning_rate, self.loss = (
            torch.zeros((), device=self.device) for _ in range(3)
        )
        self.optimizer = schedule.optimizer(self.model, self.learning_rate)
        self.tap = attach(model, method)
        self.rows: dict[int, Tensor] = {}
        self.position: dict[int, Tensor] = {}
        self.number = 0  # steps queued
        self._fresh = copy.deepcopy(method)
        self._plan(seed)
        static = checkpoint.is_static(method)
        with self.on_stream(), drawing_from(self.random):
            self.replays = self._capture() if static and (cuda if graph is None else graph) else {}

    def __len__(self) -> int:
        return len(self.order)

    @property
    def epoch_steps(self) -> int:
        """Steps of one epoch: every epoch has as many."""
        return len(self.order) // self.schedule.epochs

    def restart(self, weights: Mapping[str, Tensor], seed: int) -> None:
        """Begin a new run from other weights and another seed, with the same captured graphs."""
        with self.on_stream():
            self._rewind(weights)
            self._plan(seed)

    def state(self) -> dict[str, Any]:
        """All that decides the steps to come; waits for the device."""
        self.wait()
        return {
            "number": self.number,
            "model": self.model.state_dict(),
            "optimizer": checkpoint.optimizer_state(self.optimizer),
            "method": checkpoint.method_state(self.method, self.device),
            "random": self.random.get_state(),
            "position": self.position,
            "done": self.done,
            "loss": self.loss,
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state of a loop over the same windows, schedule and seed."""
        with self.on_stream():
            checkpoint.restore_tensors(self.model.state_dict(), state["model"])
            checkpoint.restore_optimizer(self.optimizer, state["optimizer"])
            checkpoint.restore_method(self.method, state["method"], self.device)
            checkpoint.restore_tensors({"done": self.done, "loss": self.loss}, state)
            for length, position in self.position.items():
                position.copy_(state["position"][length])
        self.random.set_state(state["random"].cpu())
        self.number = state["number"]

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

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        """The model in evaluation mode, after the steps queued so far; between two steps."""
        self.wait()
        self.model.eval()
        with self.on_stream(), self.tap.pause():
            yield
        self.model.train()

    def steps(self) -> Iterator[int]:
        """Queue one optimizer step after another, yielding the number of those queued."""
        self.model.train()
        while self.number < len(self.order):
            length = self.order[self.number]
            with self.on_stream():
                if self.replays:  # A graph holds the generators that it was captured with.
                    self.replays[length].replay()
                else:
                    with drawing_from(self.random):
                        self._step(length)
            self.number += 1
            yield self.number

    def _plan(self, seed: int) -> None:
        """The batches of all epochs; the tables keep their place, for graphs read from there."""
        plan = plan_batches(self.windows.lengths, self.schedule.batch, self.schedule.epochs, seed)
        self.order: list[int] = plan.order.tolist()
        for length, rows in plan.rows.items():
            table = torch.as_tensor(rows, device=self.device)
            self.rows.setdefault(length, table).copy_(table)
            self.position.setdefault(length, torch.zeros(1, dtype=torch.long, device=self.device))
        if self.holdout is not None:
            shape = (len(self.order), self.schedule.batch)
            drawn = np.random.default_rng([seed, 1]).integers(len(self.holdout), size=shape)
            self.held_rows = torch.as_tensor(drawn, device=self.device)
        self.random.manual_seed(seed)
        for stream in checkpoint.method_streams(self.method):
            stream.restart(seed, self.device)

    def _step(self, length: int) -> None:
        """One optimizer step; every operation stays on the device."""
        position = self.position[length]
        rows = self.rows[length].index_select(0, position)[0]
        position.add_(1).remainder_(len(self.rows[length]))
        parts = [self.windows.batch(r, length) for r in rows.chunk(self.schedule.accumulate)]
        self._set_learning_rate()
        self.optimizer.zero_grad(set_to_none=True)
        for step in self._forward(parts):
            loss = self.method.loss(step)
            torch.autograd.backward(loss)
            self.loss.add_(loss.detach())
        if self.holdout is not None:
            self.method.outer_step(replace(step, holdout=self._holdout_step(self.holdout)))
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.schedule.clip, foreach=True)
        self.optimizer.step()

    def _forward(self, parts: list[dict[str, Tensor]]) -> Iterator[Step]:
        """The step of each part of a batch, whose losses add up to that of the whole batch."""
        several: dict[str, Any] = {}
        if len(parts) > 1:
            several["num_items"] = sum((part["labels"] != IGNORED).sum() for part in parts)
        for number, part in enumerate(parts, start=1):
            inputs = dict(self.method.prepare(part))
            labels = inputs.pop("labels")
            with self._autocast():
                logits = self.model(**inputs).logits
            if several:
                several["last"] = number == len(parts)
            yield self.tap.step(logits, labels, inputs=inputs, **several)

    @torch.no_grad()
    def _holdout_step(self, holdout: Windows) -> Step:
        inputs = holdout.batch(self.held_rows[self.number], holdout.longest)
        labels = inputs.pop("labels")
        self.model.eval()
        with self._autocast():
            logits = self.model(**inputs).logits
        self.model.train()
        return self.tap.step(logits, labels, inputs=inputs)

    def _set_learning_rate(self) -> None:
        share = self.schedule.share(self.done, len(self.order))
        self.learning_rate.copy_(self.schedule.learning_rate * share)
        self.done.add_(1)

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
            for stream in checkpoint.method_streams(self.method):
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
        checkpoint.restore_tensors(self.model.state_dict(), weights)
        if checkpoint.is_static(self.method):
            fresh = checkpoint.method_tensors(self._fresh)
            checkpoint.restore_tensors(checkpoint.method_tensors(self.method), fresh)
        else:
            self.tap.remove()
            self.method = copy.deepcopy(self._fresh)
            self.tap = attach(self.model, self.method)
        for state in self.optimizer.state.values():
            for value in state.values():
                value.zero_()
        for value in (*self.position.values(), self.done, self.loss):
            value.zero_()
        self.number = 0

    def _autocast(self) -> contextlib.AbstractContextManager[Any]:
        # Without the cache: a cast that one graph made would be stale memory to the next.
        return torch.autocast(
            self.device.type,
            dtype=torch.bfloat16,
            enabled=self.schedule.dtype == "bfloat16",
            cache_enabled=False,
        )

    def on_stream(self) -> contextlib.AbstractContextManager[Any]:
        """What is queued inside runs after the steps queued before it."""
        return contextlib.nullcontext() if self.stream is None else torch.cuda.stream(self.stream)
