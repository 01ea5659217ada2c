"""Several runs as one model: encoders stacked along a new first axis, over the same batches.

Runs of one seed see the same batches for every method and head. Their encoders have the same
shape, so one batched matrix product does the work of many small ones: a step of twenty runs
launches hardly more kernels than a step of one. Each run keeps its own head, method and loss, its
gradient is clipped by its own norm, and AdamW works number by number: nothing passes between runs.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from calibrant.errors import InputError
from calibrant.losses.fused import has_triton
from calibrant.methods.base import Method
from calibrant.training import checkpoint
from calibrant.training.captured_loop import Planned, rewind_optimizer
from calibrant.training.head import find_head
from calibrant.training.head_hook import attach
from calibrant.training.loop_resources import drawing_from, own_stream
from calibrant.training.schedule import Schedule
from calibrant.training.stacked.adamw import StackedAdamW
from calibrant.training.stacked.attention import StackedAttention
from calibrant.training.stacked.bert import StackedBert
from calibrant.training.stacked.weights import StackedWeights
from calibrant.training.step import Step
from calibrant.training.windows import Rows

__all__ = ["NotStackableError", "Stack"]

_SIDES = 8  # Streams for heads, in addition to the main one,
_LEFT = 8  # while this many are left for other loops.


class NotStackableError(InputError):
    """Raised for encoders that cannot be trained as one model."""


class Stack(Planned):
    """Train ``models`` with ``methods``, one each, on the same batches of ``windows``.

    The models may differ only in the head. Dropout differs between runs. With
    dtype "bfloat16" the encoders train in it throughout, from copies of their float32 weights that
    are made once a step, and the heads in float32; evaluation is in float32.

    ``compiled`` fuses what a BERT does between its matrix products, after some time of compiling;
    it does nothing on a GPU where Triton cannot compile.
    Methods must be static (:func:`~calibrant.training.checkpoint.is_static`), and need the head
    alone: no run has its own complete model.
    """

    def __init__(
        self,
        models: Sequence[nn.Module],
        methods: Sequence[Method],
        windows: Rows,
        schedule: Schedule,
        *,
        seed: int = 0,
        graph: bool | None = None,
        compiled: bool = False,
        holdout: Rows | None = None,
    ) -> None:
        super().__init__(windows, schedule, methods, holdout)
        if not models or len(models) != len(methods):
            raise InputError(f"{len(models)} models and {len(methods)} methods do not make pairs.")
        for method in methods:
            if not checkpoint.is_static(method):
                raise InputError(f"{type(method).__name__} keeps state on the host: use Loop.")
            if method.needs_model:
                raise InputError(f"{type(method).__name__} runs the whole model again: use Loop.")
        if schedule.optimizer_name != "adamw":
            raise InputError(f"A stack trains with adamw, not {schedule.optimizer_name}: use Loop.")
        bodies = [_without_head(model) for model in models]
        self.body = copy.deepcopy(bodies[0]).to(self.device)
        self.buffers = dict(self.body.named_buffers())  # Use the first run's: they are not trained.
        quick = compiled and (self.device.type != "cuda" or has_triton())
        self.bert = StackedBert(self.body, quick) if StackedBert.serves(self.body) else None
        self.stacked = StackedWeights(
            bodies,
            self.device,
            half=schedule.dtype == "bfloat16",
            apart=() if self.bert is None else self.bert.apart,
        )
        self.optimizer = StackedAdamW(
            self.stacked.groups, schedule.weight_decay, self.learning_rate, self.done
        )
        self.scale = torch.ones(len(models), device=self.device)
        self.runs = [
            _Run(i, model, method, schedule, self)
            for i, (model, method) in enumerate(zip(models, methods, strict=True))
        ]
        more = iter(lambda: own_stream(self, self.device, leave=_LEFT), None)
        self.sides: list[Any] = list(itertools.islice(more, min(_SIDES, len(models))))
        self._plan(seed)
        if self.bert is None:
            self._try_forward()
            self._plan(seed)  # Dropout drew numbers.
        if (self.device.type == "cuda") if graph is None else graph:
            with self.on_stream(), drawing_from(self.random):
                self._capture(seed)

    @property
    def methods(self) -> Sequence[Method]:
        """The methods, one per run."""
        return [run.method for run in self.runs]

    @property
    def modules(self) -> Sequence[nn.Module]:
        """The encoder of all runs, and the head of each."""
        return [self.body, *(run.head for run in self.runs)]

    def weights(self) -> dict[str, Tensor]:
        """Return the stacked encoders, and each run's head under its number."""
        found = {f"body.{name}": value for name, value in self.stacked.masters().items()}
        for number, run in enumerate(self.runs):
            found.update({f"{number}.{name}": v for name, v in run.head.state_dict().items()})
        return found

    def restart(self, models: Sequence[nn.Module], seed: int) -> None:
        """Restart the same runs from other weights and another seed."""
        bodies = [_without_head(model) for model in models]
        stacked = StackedWeights(bodies, self.device).masters()
        weights = {f"body.{name}": value for name, value in stacked.items()}
        for number, model in enumerate(models):
            head = find_head(model)[1].state_dict()
            weights.update({f"{number}.{name}": value for name, value in head.items()})
        with self.on_stream():
            self._rewind(weights)
            self._plan(seed)

    def losses(self) -> list[float]:
        """Return the mean loss of each run so far; waits for the device."""
        self.wait()
        return [float(run.loss) / max(self.number, 1) for run in self.runs]

    def loss_sums(self) -> Tensor:
        """Return the sum of each run's losses so far, without waiting for the device."""
        with self.on_stream():
            return torch.stack([run.loss for run in self.runs])

    @torch.no_grad()
    def logits(self, **inputs: Tensor) -> list[Tensor]:
        """Return each run's logits in evaluation mode, also between two steps."""
        training = self.body.training
        self.train(False)
        with self.on_stream():
            features = self._features(inputs)
            found = [run.evaluate(f) for run, f in zip(self.runs, features, strict=True)]
        self.train(training)
        return found

    def _features(self, inputs: Mapping[str, Tensor]) -> Sequence[Tensor]:
        trained = torch.is_grad_enabled()
        weights = self.stacked.leaves() if trained else self.stacked.masters()
        half = trained and self.schedule.dtype == "bfloat16"
        dtype = torch.bfloat16 if half else torch.float32
        if self.bert is not None and set(inputs) == set(StackedBert.INPUTS):
            ids, mask = (inputs[name] for name in StackedBert.INPUTS)
            return self.bert(weights, ids, mask, dtype).float().unbind()

        def encode(stacked: dict[str, Tensor]) -> Tensor:
            output: Any = functional_call(self.body, (stacked, self.buffers), (), dict(inputs))
            logits: Tensor = output.logits
            return logits

        with StackedAttention():
            same = {name: value.to(dtype) for name, value in weights.items()}
            return vmap(encode, randomness="different")(same).float().unbind()

    def _try_forward(self) -> None:
        """Raise an error for a model that torch cannot map over a new axis."""
        rows = torch.zeros(self.schedule.batch, dtype=torch.long, device=self.device)
        inputs = self.windows.batch(rows, min(self.rows))
        del inputs["labels"]
        self.train()
        self._follow_default_stream()
        try:
            with self.on_stream(), drawing_from(self.random):
                sums = [found.sum() for found in self._features(inputs)]
                if sums[0].requires_grad:  # Not if the whole encoder is frozen.
                    torch.autograd.backward(sums)
                self._zero_grad()
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
            reason = str(error).partition("\n")[0]
            raise NotStackableError(
                f"{type(self.body).__name__} cannot be stacked, so its runs train one by one, "
                f"several times as slowly on a GPU: {reason}"
            ) from error

    def _step(self, length: int) -> None:
        rows = self._next_rows(length)
        inputs = self.windows.batch(rows, length)
        labels = inputs.pop("labels")
        examples = self._examples(rows, labels)
        self._set_learning_rate()
        self._zero_grad()
        for run in self.runs:  # Mixup draws; methods in a stack change only the head's input.
            run.method.prepare({**inputs, "labels": labels})
        features, steps, losses = self._features(inputs), [], []
        for run in self._side_by_side():
            steps.append(run.step(features[run.number], labels, examples))
            losses.append(run.method.loss(steps[-1]))
            run.loss.add_(losses[-1].detach())
        torch.autograd.backward(losses)
        if self.holdout is not None:
            self._outer_steps(self.holdout, steps)
        squares = self.optimizer.squares() if self.schedule.clip else None
        for run in self._side_by_side():
            run.update(None if squares is None else squares[run.number], self.scale[run.number])
        self.optimizer.step(self.scale)

    def _side_by_side(self) -> Iterator[_Run]:
        """Run each run on parallel streams: heads and optimizers are many small kernels."""
        if not self.sides:
            yield from self.runs
            return
        main = torch.cuda.current_stream(self.device)
        for side in self.sides:
            side.wait_stream(main)
        for run in self.runs:
            with torch.cuda.stream(self.sides[run.number % len(self.sides)]):
                yield run
        for side in self.sides:
            main.wait_stream(side)

    def _outer_steps(self, holdout: Rows, steps: Sequence[Step]) -> None:
        inputs = self._held_batch(holdout)
        labels = inputs.pop("labels")
        with torch.no_grad():
            self.train(False)
            features = self._features(inputs)
            held = [run.step(f, labels) for run, f in zip(self.runs, features, strict=True)]
            self.train()
        for run, step, other in zip(self.runs, steps, held, strict=True):
            run.method.outer_step(replace(step, holdout=other))

    def _zero_grad(self) -> None:
        self.stacked.zero_grad()
        for run in self.runs:
            run.optimizer.zero_grad(set_to_none=True)

    def _rewind(self, weights: Mapping[str, Tensor]) -> None:
        checkpoint.restore_tensors(self.weights(), weights)
        self.stacked.refresh()
        self.optimizer.rewind()
        for run in self.runs:
            run.rewind()
        self._rewind_clock()


class _Run(nn.Module):
    """The parts that belong to one run: head, method, loss and the head's optimizer."""

    def __init__(
        self, number: int, model: nn.Module, method: Method, schedule: Schedule, stack: Planned
    ) -> None:
        super().__init__()
        self.number, self.clip = number, schedule.clip
        self.head = find_head(model)[1].to(stack.device)
        self.method = method.to(stack.device)
        self.fresh = copy.deepcopy(method)
        self.hook = attach(nn.ModuleDict({"head": self.head}), method, "head")
        self.loss = torch.zeros((), device=stack.device)
        self.optimizer = schedule.optimizer(self.head, stack.learning_rate)

    def step(self, features: Tensor, labels: Tensor, examples: Tensor | None = None) -> Step:
        return self.hook.step(self.head(features), labels, examples=examples)

    def update(self, squares: Tensor | None, scale: Tensor) -> None:
        """Take a step with the head; store in ``scale`` the clipping of the encoder's gradient.

        ``squares`` is the squared norm of that gradient; the norm of both together is clipped.
        """
        if squares is not None:
            gradients = [p.grad for p in self.head.parameters() if p.grad is not None]
            if gradients:  # None if the head is frozen.
                squares = squares + torch.stack(torch._foreach_norm(gradients)).square().sum()
            norm = squares.sqrt()
            scale.copy_((self.clip / (norm + 1e-6)).clamp(max=1.0))  # Like clip_grad_norm_.
            if gradients:
                torch._foreach_mul_(gradients, scale)
        self.optimizer.step()

    def evaluate(self, features: Tensor) -> Tensor:
        with self.hook.pause():
            logits: Tensor = self.head(features)
        return logits

    def rewind(self) -> None:
        checkpoint.rewind_method(self.method, self.fresh)
        rewind_optimizer(self.optimizer)
        self.loss.zero_()


def _without_head(model: nn.Module) -> nn.Module:
    """Return the model without its head: its logits are the head's input."""
    name, _ = find_head(model)
    body = copy.copy(model)
    if "." in name:
        raise InputError(f"A stack takes models whose head is an attribute, not '{name}'.")
    body._modules = {**body._modules, name: nn.Identity()}
    return body
