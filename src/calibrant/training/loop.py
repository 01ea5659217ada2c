"""The lean loop: data on the device, static shapes, a captured CUDA graph, no synchronisation.

A step of a small encoder is bound by the launching of its many small kernels. Here batches have
one of a few padded lengths (:mod:`calibrant.training.windows`), everything that a step needs is
on the device, the learning rate included, and on CUDA the whole step (gather, forward, loss,
backward, clip, optimizer) is one graph per length. A loop can be started again with other seeds
without being captured again, and several can run in parallel, each on its own stream.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from calibrant.errors import InputError
from calibrant.methods.base import Method
from calibrant.predictions import IGNORED
from calibrant.training import checkpoint, processes
from calibrant.training.captured_loop import Planned, rewind_optimizer
from calibrant.training.head_hook import attach, logits_of
from calibrant.training.loop_resources import as_written, drawing_from
from calibrant.training.schedule import Schedule
from calibrant.training.step import Step
from calibrant.training.windows import Rows, Windows

__all__ = ["Loop", "Schedule", "Windows"]


class Loop(Planned):
    """Train ``model`` with ``method`` on ``windows``.

    :meth:`steps` yields after each step has been queued; nothing waits for the device. ``holdout``
    is the held-out part of the training split, for methods that learn from it. A method with state
    on the host (see :func:`~calibrant.training.checkpoint.is_static`) runs without a graph.

    Where ``torch.distributed`` runs several processes, each takes its share of every batch, and
    gradients are added up to those of the whole (:mod:`calibrant.training.processes`); no graph.
    """

    def __init__(
        self,
        model: nn.Module,
        method: Method,
        windows: Rows,
        schedule: Schedule,
        *,
        seed: int = 0,
        graph: bool | None = None,
        holdout: Rows | None = None,
    ) -> None:
        super().__init__(windows, schedule, [method], holdout)
        if processes.world() > 1 and (graph or holdout is not None or self.places):
            what = "captures no graph" if graph else f"cannot train {type(method).__name__}"
            raise InputError(f"The lean loop {what} in several processes: run it in one.")
        processes.check_shares(schedule.batch, schedule.accumulate)
        self.model, self.method = model.to(self.device), method.to(self.device)
        self.loss = torch.zeros((), device=self.device)
        self.optimizer = schedule.optimizer(self.model, self.learning_rate)
        self.hook = attach(model, method)
        self._fresh = copy.deepcopy(method)
        self._plan(seed)
        cuda = self.device.type == "cuda" and processes.world() == 1
        if checkpoint.is_static(method) and (cuda if graph is None else graph):
            with self.on_stream(), drawing_from(self.random):
                self._capture(seed)

    @property
    def methods(self) -> Sequence[Method]:
        """The one method, in a list."""
        return (self.method,)

    @property
    def modules(self) -> Sequence[nn.Module]:
        """The one model, in a list."""
        return (self.model,)

    def weights(self) -> dict[str, Tensor]:
        """Return the model's state."""
        state: dict[str, Tensor] = self.model.state_dict()
        return state

    def loss_sums(self) -> Tensor:
        """Return the sum of the losses so far (1,), without waiting for the device."""
        with self.on_stream():
            return self.loss.clone().reshape(1)

    def restart(self, weights: Mapping[str, Tensor], seed: int) -> None:
        """Start a new run from other weights and another seed, with the same captured graphs."""
        with self.on_stream():
            self._rewind(weights)
            self._plan(seed)

    def state(self) -> dict[str, Any]:
        """Return everything that determines the remaining steps; waits for the device."""
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
            "processes": processes.gather(self._own_state()),
        }

    def _own_state(self) -> dict[str, Any]:
        """Return the state that differs between processes, on the host."""
        if processes.world() == 1:
            return {}  # A single process has it all in the state itself.
        method = checkpoint.method_state(self.method, self.device)
        own = {"random": self.random.get_state(), "method": method, "loss": self.loss}
        copied: dict[str, Any] = checkpoint.on_host(own)
        return copied

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state of a loop over the same windows, schedule and seed."""
        others = state.get("processes", [{}])
        if len(others) != processes.world():
            raise InputError(
                f"The checkpoint was written by {len(others)} process(es), but this run has "
                f"{processes.world()}: continue with the same number."
            )
        state = {**state, **others[processes.rank()]}
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
        """Train to the end, wait for the device, and leave a plain model in evaluation mode."""
        for _ in self.steps():
            pass
        self.wait()
        self.close()

    def close(self) -> None:
        """Remove the method from the model."""
        self.hook.remove()
        self.model.eval()
        self.replays = {}

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        """Put the model in evaluation mode between two steps, after all queued steps."""
        self.wait()
        processes.match_buffers(self.model)
        self.model.eval()
        with self.on_stream(), self.hook.pause():
            yield
        self.model.train()

    def _step(self, length: int) -> None:
        rows = self._next_rows(length)
        own = processes.share_of(rows).chunk(self.schedule.accumulate)
        parts = [self.windows.batch(r, length) for r in own]
        self._set_learning_rate()
        self._zero_grad()
        for step in self._forward(parts, own):
            loss = self.method.loss(step)
            torch.autograd.backward(loss)
            self.loss.add_(loss.detach())
        if self.holdout is not None:
            self.method.outer_step(replace(step, holdout=self._holdout_step(self.holdout)))
        if processes.world() > 1:
            processes.add_up_gradients(self.model.parameters())
        self.schedule.clip_gradient(self.model.parameters())
        self.optimizer.step()

    def _zero_grad(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)

    def _forward(
        self, parts: Sequence[dict[str, Tensor]], rows: Sequence[Tensor]
    ) -> Iterator[Step]:
        """Yield the step of each part of a batch; their losses add up to the whole batch's."""
        several: dict[str, Any] = {}
        if len(parts) * processes.world() > 1:
            kept = torch.stack([(part["labels"] != IGNORED).sum() for part in parts]).sum()
            several["num_items"] = processes.add_up(kept)
        for number, part in enumerate(parts, start=1):
            examples = self._examples(rows[number - 1], part["labels"])
            inputs = dict(self.method.prepare(part))
            labels = inputs.pop("labels")
            with self.autocast():
                logits = logits_of(self.model(**inputs))
            if several:
                several["last"] = number == len(parts)
            yield self.hook.step(logits, labels, inputs=inputs, examples=examples, **several)

    @torch.no_grad()
    def _holdout_step(self, holdout: Rows) -> Step:
        inputs = self._held_batch(holdout)
        labels = inputs.pop("labels")
        self.model.eval()
        with self.autocast(), as_written():
            logits = logits_of(self.model(**inputs))
        self.model.train()
        return self.hook.step(logits, labels, inputs=inputs)

    def _rewind(self, weights: Mapping[str, Tensor]) -> None:
        checkpoint.restore_tensors(self.model.state_dict(), weights)
        if checkpoint.is_static(self.method):
            checkpoint.rewind_method(self.method, self._fresh)
        else:
            self.hook.remove()
            self.method = copy.deepcopy(self._fresh)
            self.hook = attach(self.model, self.method)
        rewind_optimizer(self.optimizer)
        self.loss.zero_()
        self._rewind_clock()
