"""A Lightning callback that puts a method into any LightningModule."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from calibrant.errors import InputError
from calibrant.extras import require
from calibrant.methods import create
from calibrant.methods.base import Method, checked_method, evaluating
from calibrant.training.head_hook import HeadHook, attach, logits_of
from calibrant.training.step import Step

lightning = require("lightning", "lightning", "calibrant.training.lightning.Calibration")

if TYPE_CHECKING:
    from lightning.pytorch import Callback
else:
    Callback = lightning.pytorch.Callback

__all__ = ["Calibration"]


class Calibration(Callback):
    """Attach ``method`` while fitting, and compute its loss in ``training_step``::

        class Classifier(LightningModule):
            def __init__(self, calibration):
                super().__init__()
                self.model, self.calibration = build(), calibration

            def training_step(self, batch, index):
                inputs, labels = self.calibration.prepare(batch)
                return self.calibration.loss(self.model(inputs), labels)

        calibration = Calibration("head_noise")
        Trainer(callbacks=[calibration]).fit(Classifier(calibration), loader)

    ``model`` is the attribute of the LightningModule that holds the network, and ``head`` names its
    head if it is not found. Lightning divides the loss by ``accumulate_grad_batches``: each
    micro-batch is a separate mean. A method that learns from held-out data is given ``holdout``,
    a callable that returns a pair (inputs, labels); it is called before each optimizer step. The
    method's state is part of rank 0's checkpoint; other ranks start a new noise stream from it.
    """

    def __init__(
        self,
        method: Method | str,
        model: str = "model",
        head: str | None = None,
        holdout: Any = None,
    ) -> None:
        made = create(method) if isinstance(method, str) else method
        self.method = checked_method(made, "Calibration")
        if self.method.needs_holdout and holdout is None:
            raise InputError(
                f"{type(self.method).__name__} learns from held-out data: give holdout."
            )
        self.model = model
        self.head = head
        self.holdout = holdout
        self._hook: HeadHook | None = None
        self._step: Step | None = None

    def prepare(self, batch: Any) -> Any:
        """Return the batch after the method's ``prepare``."""
        return self.method.prepare(batch)

    def loss(self, logits: Tensor, labels: Tensor, **more: Any) -> Tensor:
        """Return the method's loss of the last forward pass; ``more`` is passed to ``Step``."""
        if self._hook is None:
            raise InputError("Calibration is not among the Trainer's callbacks, or not in fit().")
        self._step = self._hook.step(logits, labels, **more)
        return self.method.loss(self._step)

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        """Attach the method."""
        self._hook = attach(getattr(pl_module, self.model), self.method, self.head)

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:  # noqa: ARG002
        """Run the method's own update."""
        if self.method.needs_holdout and self._step is not None:
            batch = trainer.strategy.batch_to_device(self.holdout())
            self.method.outer_step(replace(self._step, holdout=self._holdout_step(*batch)))
        self._step = None

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:  # noqa: ARG002
        """Remove the method from the model."""
        if self._hook is not None:
            self._hook.remove()
        self._hook = self._step = None

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:  # noqa: ARG002
        """Remove the method: Lightning does not tear callbacks down when training fails."""
        self.teardown(trainer, pl_module, "fit")

    def state_dict(self) -> dict[str, Any]:
        """Return the method's state, for the checkpoint."""
        return {"method": self.method.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the method's state."""
        self.method.load_state_dict(state_dict["method"])

    @torch.no_grad()
    def _holdout_step(self, inputs: Any, labels: Tensor) -> Step:
        assert self._hook is not None
        with evaluating(self._hook.model):
            logits = logits_of(self._hook.model(inputs))
        return self._hook.step(logits, labels, inputs=(inputs,))
