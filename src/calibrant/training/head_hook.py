"""Record the input of the head, and put a method in front of it, without touching the model."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from calibrant.errors import InputError
from calibrant.methods.base import Method, checked_method
from calibrant.training.head import advice, by_position, find_head, unwrap
from calibrant.training.step import Step

__all__ = ["HeadHook", "HeadPass", "attach", "logits_of"]


def attach(model: nn.Module, method: Method, head: str | None = None) -> HeadHook:
    """Put ``method`` before the head of ``model`` until ``remove`` or the end of the with-block.

    The model does not change: one hook runs before its head and one after it. Attach before
    the first call of a model that ``torch.compile`` has wrapped: compiled code holds the hooks that
    it was traced with. Under FSDP2 either shard the head on its own, or leave the root gathered
    after its forward pass (the default): a method that runs the head again needs its parameters.

    >>> import torch
    >>> from calibrant.methods import HeadNoise
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> method = HeadNoise()
    >>> with attach(model, method) as hook:
    ...     logits = model(torch.ones(2, 4))
    ...     method.loss(hook.step(logits, torch.tensor([0, 1]))).backward()
    >>> model[2].weight.grad is not None, len(model[2]._forward_hooks)  # And the hooks are gone.
    (True, 0)
    """
    return HeadHook(model, method, head)


class HeadHook:
    """Hooks on the head that record its input and output and let the method change the input.

    >>> import torch
    >>> from calibrant.methods import CrossEntropy
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> hook = attach(model, CrossEntropy())
    >>> step = hook.step(model(torch.ones(2, 4)), torch.tensor([0, 1]))
    >>> hook.name, tuple(step.features.shape)  # What goes into the head.
    ('2', (2, 8))
    >>> hook.remove()
    """

    def __init__(self, model: nn.Module, method: Method, head: str | None = None) -> None:
        self.model = unwrap(model)
        self.method = checked_method(method, "attach")
        self.name, self.head = find_head(model, head)
        self._check_free()
        self._check_trained()
        self.method.abandon()
        for part in self.method.modules():
            if isinstance(part, Method):
                part.head_by_position = by_position(self.head)
        self.paused = False
        self._scale = 1
        self._features: Tensor | None = None
        self._output: Tensor | None = None
        self._picks: bool | None = None  # Picks a position after the head; None: unknown.
        self._call: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})
        self._autocast: tuple[bool, torch.dtype] | None = None
        self._handles = (
            self.head.register_forward_pre_hook(self._before_head, with_kwargs=True),
            self.head.register_forward_hook(self._after_head),
        )

    def step(self, logits: Tensor, labels: Tensor, **more: Any) -> Step:
        """Return the step of the last forward pass; ``more`` goes into ``Step`` (num_items, …)."""
        if self._features is None:
            raise InputError(
                f"The head '{self.name}' was not called since the last step: run the model first, "
                "and attach the method before a compiled model is called for the first time."
            )
        features, self._features = self._at_label(self._features, logits), None
        head = HeadPass(self, self._call, self._autocast, logits.shape[-1])
        more.setdefault("model", self.model)
        return Step(logits, labels, features, head, gradient_scale=self._scale, **more)

    def remove(self) -> None:
        """Remove the hooks; the model is as before."""
        for handle in self._handles:
            handle.remove()
        self._features, self._output, self._call = None, None, ((), {})
        self.method.abandon()

    def __enter__(self) -> HeadHook:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Allow calls of the head without recording them: the method's own passes."""
        self.paused = True
        try:
            yield
        finally:
            self.paused = False

    def _check_free(self) -> None:
        """Refuse a second method: both would change the head's input and gradient."""
        for hook in self.head._forward_pre_hooks.values():
            other = getattr(hook, "__self__", None)
            if isinstance(other, HeadHook):
                raise InputError(
                    f"The head '{self.name}' already has {type(other.method).__name__} attached: "
                    "remove() that hook first, or compose the two, as in HeadNoise(Focal())."
                )

    def _check_trained(self) -> None:
        """Refuse a frozen head with a pass that trains only the head."""
        parameters = list(self.head.parameters())
        if self.method.passes > 1 and not any(p.requires_grad for p in parameters):
            warnings.warn(
                f"{type(self.method).__name__} teaches the head '{self.name}', whose parameters "
                "are frozen, so that it does nothing: train the head too (LoRA: modules_to_save="
                f"['{self.name}']).",
                stacklevel=4,
            )

    def _after_head(self, _: nn.Module, __: Any, output: Any) -> None:
        if not self.paused:
            self._output = output.detach() if isinstance(output, Tensor) else None

    def _at_label(self, features: Tensor, logits: Tensor) -> Tensor:
        """Return the features behind the logits, for models that pick a position after the head.

        Decoders that classify a text (Llama, Qwen2, GPT-2) run the head at every position and take
        the logits of the last position before the padding. They equal the model's bit for bit.
        """
        output, self._output = self._output, None
        if output is None or not _has_positions(features, output, logits):
            return features
        same = (output.to(logits.dtype) == logits.detach().unsqueeze(1)).all(-1)
        if self._picks is None:  # Do this once: it makes the host wait for the device.
            self._picks = bool(same.any(-1).all())
        if not self._picks:  # For example a mean over positions.
            return features
        last = same.shape[1] - 1 - same.flip(1).int().argmax(-1)
        return features[torch.arange(len(last), device=last.device), last]

    def _before_head(
        self, head: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        if self.paused:
            return None
        features = _features_of(args, kwargs, self.name)
        device = features.device.type
        self._features, self._call = features, (args, kwargs)
        self._autocast = (torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))
        trains = head.training and torch.is_grad_enabled()
        self._scale = self.method.passes if trains else 1
        if not trains:
            return None
        return _with_features(args, kwargs, self.method.at_head(features))


@dataclass(frozen=True)
class HeadPass:
    """Run the head again, as called in the forward pass, on other features.

    It restores the autocast state, which a trainer may have left before computing the loss.
    The head's buffers (running statistics of a batch norm) are copied for the pass: the method's
    inputs must not enter them.
    """

    hook: HeadHook
    call: tuple[tuple[Any, ...], dict[str, Any]]
    autocast: tuple[bool, torch.dtype] | None
    classes: int

    @property
    def module(self) -> nn.Module:
        """The head itself."""
        return self.hook.head

    def __call__(self, features: Tensor, parameters: Mapping[str, Tensor] | None = None) -> Tensor:
        """Return the head's logits, under other parameters if given."""
        args, kwargs = _with_features(*self.call, features)
        replaced = {name: buffer.clone() for name, buffer in self.module.named_buffers()}
        replaced.update(parameters or {})
        with self.hook.pause(), self._as_recorded(features.device.type):
            if replaced:
                logits = functional_call(self.module, replaced, args, kwargs)
            else:
                logits = self.module(*args, **kwargs)
        return self._checked(logits_of(logits))

    def whole_model(
        self, inputs: Mapping[str, Any] | tuple[Any, ...], parameters: Mapping[str, Tensor]
    ) -> Tensor:
        """Return the logits of the whole model under other parameters, unrecorded."""
        args, kwargs = ((), dict(inputs)) if isinstance(inputs, Mapping) else (inputs, {})
        replaced = {name: buffer.clone() for name, buffer in self.hook.model.named_buffers()}
        replaced.update(parameters)
        with self.hook.pause():
            return logits_of(functional_call(self.hook.model, replaced, args, kwargs))

    def _checked(self, logits: Tensor) -> Tensor:
        """Check the output: a layer inside the encoder can look like the head until then."""
        if logits.shape[-1:] != (self.classes,):
            raise InputError(
                f"'{self.hook.name}' is not the head of {type(self.hook.model).__name__}: it gives "
                f"{tuple(logits.shape)}, and the logits have {self.classes} classes, last. "
                f"{advice(self.hook.model)}"
            )
        return logits

    def _as_recorded(self, device: str) -> contextlib.AbstractContextManager[Any]:
        now = (torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))
        if self.autocast is None or self.autocast == now:
            return contextlib.nullcontext()
        enabled, dtype = self.autocast
        return torch.autocast(device, dtype=dtype, enabled=enabled)


def _features_of(args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> Tensor:
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor):
            return value
    raise InputError(f"The head '{name}' was called without a tensor: no features to record.")


def _with_features(
    args: tuple[Any, ...], kwargs: dict[str, Any], features: Tensor
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the call with its first tensor replaced."""
    for index, value in enumerate(args):
        if isinstance(value, Tensor):
            return (*args[:index], features, *args[index + 1 :]), kwargs
    key = next(key for key, value in kwargs.items() if isinstance(value, Tensor))
    return args, {**kwargs, key: features}


def _has_positions(features: Tensor, output: Tensor, logits: Tensor) -> bool:
    """Whether the head maps features (b, t, d) to (b, t, K) while the model returns (b, K)."""
    several = features.ndim == output.ndim == 3 and features.shape[:2] == output.shape[:2]
    return several and logits.shape == (len(output), output.shape[-1])


def logits_of(outputs: Any) -> Tensor:
    """Return the logits of a model's or head's output: a tensor, its ``logits``, or in a tuple.

    In a tuple a loss, which has no axis, may precede them.

    >>> logits_of((torch.tensor(0.1), torch.zeros(2, 3), "other")).shape
    torch.Size([2, 3])
    >>> logits_of({"logits": torch.zeros(2, 3)}).shape
    torch.Size([2, 3])
    """
    logits = outputs
    if isinstance(outputs, Mapping) and "logits" in outputs:
        logits = outputs["logits"]
    elif hasattr(outputs, "logits"):
        logits = outputs.logits
    if isinstance(logits, (tuple, list)):
        tensors = (part for part in logits if isinstance(part, Tensor) and part.ndim)
        logits = next(tensors, logits)
    if not isinstance(logits, Tensor):
        keys = f" with {', '.join(map(str, outputs))}" if isinstance(outputs, Mapping) else ""
        raise InputError(
            "A model returns its logits as a tensor, as .logits or ['logits'], or first in a "
            f"tuple; got {type(outputs).__name__}{keys}."
        )
    return logits
