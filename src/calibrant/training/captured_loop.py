"""Optimizer steps over planned batches on one device, as CUDA graphs where possible."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from calibrant.errors import InputError
from calibrant.methods.base import Method
from calibrant.methods.random_stream import rank
from calibrant.training import checkpoint
from calibrant.training.loop_resources import drawing_from, own_stream
from calibrant.training.schedule import Schedule
from calibrant.training.windows import Rows

__all__ = ["Planned", "rewind_optimizer"]

_WARM_UP = 3  # Eager steps before a capture, so that lazy initialisation is done.


class Planned(ABC):
    """Base of every loop over ``windows``: the plan, the clock, the stream and the graphs.

    A subclass defines one step (:meth:`_step`), the trained parts (:attr:`modules`,
    :attr:`methods`, :meth:`weights`) and how to reset everything (:meth:`_rewind`).
    """

    def __init__(
        self,
        windows: Rows,
        schedule: Schedule,
        methods: Sequence[Method],
        holdout: Rows | None = None,
    ) -> None:
        schedule.check()
        for method in methods:
            if method.needs_holdout != (holdout is not None):
                needs = "learns" if method.needs_holdout else "does not learn"
                raise InputError(f"{type(method).__name__} {needs} from held-out data: holdout=…")
        self.device, self.windows, self.schedule = windows.device, windows, schedule
        self.places = _expect_examples(methods, windows)
        self.holdout = holdout
        if schedule.dtype != "float32":  # Process-wide: torch has no narrower switch.
            torch.set_float32_matmul_precision("high")
        self.stream = own_stream(self, self.device)
        if self.stream is None and self.device.type == "cuda":
            raise InputError(
                "All 32 streams of the GPU are used by loops that run in parallel: use fewer jobs."
            )
        # Dropout draws from its own stream, so that parallel loops stay independent.
        self.random = torch.Generator(self.device)
        self.done, self.learning_rate = (torch.zeros((), device=self.device) for _ in range(2))
        self.rows: dict[int, Tensor] = {}
        self.position: dict[int, Tensor] = {}
        self.held_rows: Tensor | None = None
        self.order: list[int] = []
        self.number = 0  # steps queued
        self.replays: dict[int, torch.cuda.CUDAGraph] = {}
        self.note: str | None = None  # why steps are not captured, if they could be

    @property
    @abstractmethod
    def methods(self) -> Sequence[Method]:
        """The methods whose random streams the loop restarts."""

    @property
    @abstractmethod
    def modules(self) -> Sequence[nn.Module]:
        """The modules to switch between training and evaluation mode."""

    @abstractmethod
    def weights(self) -> dict[str, Tensor]:
        """Return all trained tensors by name, not copies."""

    @abstractmethod
    def _step(self, length: int) -> None:
        """Take one optimizer step on the next batch of this length, entirely on the device."""

    @abstractmethod
    def _zero_grad(self) -> None:
        """Drop the gradients."""

    @abstractmethod
    def _rewind(self, weights: Mapping[str, Tensor]) -> None:
        """Reset everything to its state before the first step, in place."""

    def __len__(self) -> int:
        return len(self.order)

    @property
    def epoch_steps(self) -> int:
        """The number of steps per epoch, the same for every epoch."""
        return len(self.order) // self.schedule.epochs

    def steps(self) -> Iterator[int]:
        """Queue one optimizer step after another; yield the number queued so far."""
        self.train()
        self._follow_default_stream()
        while self.number < len(self.order):
            length = self.order[self.number]
            with self.on_stream():
                if self.replays:  # A graph keeps the generators that it was captured with.
                    self.replays[length].replay()
                else:
                    with drawing_from(self.random):
                        self._step(length)
            self.number += 1
            yield self.number

    def wait(self) -> None:
        """Wait until the device has finished the queued steps."""
        if self.stream is not None:
            self.stream.synchronize()

    def finished(self) -> bool:
        """Return whether the device has finished the queued steps."""
        return self.stream is None or bool(self.stream.query())

    def train(self, mode: bool = True) -> None:
        """Switch the trained modules to training mode, or to evaluation mode."""
        for module in self.modules:
            module.train(mode)

    def on_stream(self) -> contextlib.AbstractContextManager[Any]:
        """Run work queued inside the block after the steps queued before it."""
        return contextlib.nullcontext() if self.stream is None else torch.cuda.stream(self.stream)

    def _follow_default_stream(self) -> None:
        """Wait for the default stream, on which weights and tables were made."""
        if self.stream is not None:
            self.stream.wait_stream(torch.cuda.default_stream(self.device))

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """Use the schedule's number format for a forward pass."""
        # Disable the cache: a cast made in one graph would be stale memory in the next.
        return torch.autocast(
            self.device.type,
            dtype=torch.bfloat16,
            enabled=self.schedule.dtype == "bfloat16",
            cache_enabled=False,
        )

    def _plan(self, seed: int) -> None:
        """Plan the batches of all epochs. The tables stay in place because graphs read them."""
        plan = self.windows.plan(self.schedule.batch, self.schedule.epochs, seed)
        self.order = plan.order.tolist()
        for length, rows in plan.rows.items():
            table = torch.as_tensor(rows, device=self.device)
            self.rows.setdefault(length, table).copy_(table)
            self.position.setdefault(length, torch.zeros(1, dtype=torch.long, device=self.device))
        if self.holdout is not None:
            shape = (len(self.order), self.schedule.batch)
            drawn = np.random.default_rng([seed, 1]).integers(len(self.holdout), size=shape)
            table = torch.as_tensor(drawn, device=self.device)
            self.held_rows = table if self.held_rows is None else self.held_rows.copy_(table)
        self.random.manual_seed(_seed_of_rank(seed))
        for method in self.methods:
            for stream in checkpoint.method_streams(method):
                stream.restart(seed, self.device)

    def _next_rows(self, length: int) -> Tensor:
        """Return the windows of the next batch of this length."""
        position = self.position[length]
        rows = self.rows[length].index_select(0, position)[0]
        position.add_(1).remainder_(len(self.rows[length]))
        return rows

    def _examples(self, rows: Tensor, labels: Tensor) -> Tensor | None:
        """Return the index of each label in the data, if a method needs it."""
        if not self.places:
            return None
        inside = torch.arange(labels[0].numel(), device=self.device).view(labels.shape[1:])
        return rows.view(-1, *(1 for _ in labels.shape[1:])) * self.places + inside

    def _held_batch(self, holdout: Rows) -> dict[str, Tensor]:
        """Return the held-out batch of the step whose learning rate was set last."""
        assert self.held_rows is not None
        # Warming up for a capture may take more steps than a short run has.
        step = (self.done.long().view(1) - 1).remainder(len(self.held_rows))
        rows = self.held_rows.index_select(0, step)[0]
        return holdout.batch(rows, holdout.longest)

    def _set_learning_rate(self) -> None:
        share = self.schedule.share(self.done, len(self.order))
        self.learning_rate.copy_(self.schedule.learning_rate * share)
        self.done.add_(1)

    def _capture(self, seed: int) -> None:
        """Capture one graph per length, then undo the warm-up steps that capturing needs.

        Some models make constants on the CPU and copy them in each step: they can be captured with
        the GPU as the default device. One that waits for the host cannot be captured at all:
        :attr:`note` says so, and its steps are launched one kernel at a time.
        """
        self.train()
        self._follow_default_stream()
        weights = {name: value.clone() for name, value in self.weights().items()}
        places: list[Any] = [contextlib.nullcontext(), self.device]
        for place in places:
            try:
                with place:
                    self._capture_each()
            except _NotCapturableError as error:
                self.replays = {}
                self.note = (
                    f"{type(self.modules[0]).__name__} trains without CUDA graphs, up to 7 times "
                    f"as slowly as with them: {error}"
                )
            else:
                self.note = None
                break
        self._rewind(weights)
        self._plan(seed)  # The warm-up drew random numbers too.

    def _capture_each(self) -> None:
        pool = torch.cuda.graph_pool_handle()
        # Capture the longest first: the others fit into its memory.
        for length in sorted(self.rows, reverse=True):
            for _ in range(_WARM_UP):
                self._step(length)
            graph = torch.cuda.CUDAGraph()
            for method in self.methods:
                for stream in checkpoint.method_streams(method):
                    graph.register_generator_state(stream.generator(self.device))
            self._zero_grad()
            torch.cuda.empty_cache()  # Graphs have their own memory; the warm-up's is free now.
            graph.capture_begin(pool=pool, capture_error_mode="thread_local")
            try:
                self._step(length)
                graph.capture_end()
            except RuntimeError as error:
                with contextlib.suppress(RuntimeError):  # The captured graphs are invalid.
                    graph.capture_end()
                raise _NotCapturableError(str(error).partition("\n")[0]) from None
            self.replays[length] = graph

    def _rewind_clock(self) -> None:
        for value in (*self.position.values(), self.done):
            value.zero_()
        self.number = 0


class _NotCapturableError(Exception):
    """A step that waits for the host."""


def _expect_examples(methods: Sequence[Method], windows: Rows) -> int:
    """Pass the number of labels to methods that need it; return the most per row, or 0."""
    parts = [part for method in methods for part in method.parts_needing_examples()]
    if not parts:
        return 0
    first = torch.zeros(1, dtype=torch.long, device=windows.device)
    labels = windows.batch(first, windows.longest)["labels"]
    for part in parts:
        part.expect(len(windows) * labels.numel())
    return labels.numel()


def _seed_of_rank(seed: int) -> int:
    """Return a different seed per process; the first process draws as a single process does."""
    mixed = np.random.SeedSequence([seed, rank()])
    return int(mixed.generate_state(1)[0]) if rank() else seed


def rewind_optimizer(optimizer: torch.optim.Optimizer) -> None:
    """Set moments and step counts to zero, in place."""
    for state in optimizer.state.values():
        for value in state.values():
            value.zero_()
