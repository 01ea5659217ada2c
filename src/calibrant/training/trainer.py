"""The Hugging Face Trainer with a calibration method."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from calibrant.errors import InputError
from calibrant.extras import require
from calibrant.methods import create
from calibrant.methods.base import Method, checked_method, evaluating
from calibrant.methods.cross_entropy import CrossEntropy
from calibrant.methods.random_stream import rank
from calibrant.training.checkpoint import write_checkpoint
from calibrant.training.head import unwrap
from calibrant.training.head_hook import HeadHook, attach, logits_of
from calibrant.training.step import Step

require("accelerate", "transformers", "calibrant.training.trainer.Trainer")
transformers = require("transformers", "transformers", "calibrant.training.trainer.Trainer")

if TYPE_CHECKING:
    from transformers import Trainer as _Trainer
    from transformers.trainer_utils import get_last_checkpoint
else:
    _Trainer = transformers.Trainer
    get_last_checkpoint = transformers.trainer_utils.get_last_checkpoint

__all__ = ["Trainer"]

_NO_HOLDOUT = "Trainer: holdout_dataset is empty, and the method learns from it: give it examples."


class Trainer(_Trainer):
    """A ``transformers.Trainer`` that trains with ``method``; all other arguments are unchanged.

    ``method`` is a method or its name. ``head`` names the model's head if it is not found, and
    ``holdout_dataset`` is the held-out part of the training split for methods that learn from it.
    A column "examples", the index of each example (in the shape of its labels), is not given to the
    model but to the method: ``ErrorRegularization(error="history")`` needs it.

    The method's loss replaces the model's through the Trainer's own ``compute_loss_func``: it
    is averaged over all kept labels of the accumulated batch and of all processes, and the logged
    loss is that of the task. Evaluation reports plain cross-entropy. The method's state, noise
    stream and place in the held-out data included, is saved in each checkpoint, one file for each
    process, and restored on resume.
    """

    def __init__(
        self,
        *args: Any,
        method: Method | str = "cross_entropy",
        head: str | None = None,
        holdout_dataset: Any = None,
        **kwargs: Any,
    ) -> None:
        if kwargs.get("compute_loss_func") is not None:
            raise InputError("Trainer: the method computes the loss; leave compute_loss_func out.")
        made = create(method) if isinstance(method, str) else method
        self.method = checked_method(made, "Trainer")
        if self.method.needs_holdout and holdout_dataset is None:
            raise InputError(
                f"{type(self.method).__name__} learns from held-out data: split a part off the "
                "training set and pass it as holdout_dataset=…"
            )
        if hasattr(holdout_dataset, "__len__") and not len(holdout_dataset):
            raise InputError(_NO_HOLDOUT)
        self.head = head
        self.holdout_dataset = holdout_dataset
        self._hook: HeadHook | None = None
        self._step: Step | None = None
        self._inputs: dict[str, Any] = {}
        self._examples: Tensor | None = None
        self._holdout: Iterator[Any] | None = None
        self._held = 0  # Batches taken of it since its beginning.
        _check_smoothing(kwargs["args"] if "args" in kwargs else next(iter(args[1:]), None))
        super().__init__(*args, **{**kwargs, "compute_loss_func": self._method_loss})
        if self.args.n_gpu > 1:
            raise InputError(
                f"Trainer: {self.args.n_gpu} GPUs in one process (DataParallel) copy the model "
                "and lose the head's input; start one process for each: torchrun --nproc-per-node."
            )

    def train(  # type: ignore[override]  # What else it takes changes with the version.
        self, resume_from_checkpoint: str | bool | None = None, **kwargs: Any
    ) -> Any:
        """Train, with the method's saved state on resume, then remove the method from the model."""
        self._load_method(resume_from_checkpoint)
        try:
            return super().train(resume_from_checkpoint=resume_from_checkpoint, **kwargs)
        finally:
            if self._hook is not None:
                self._hook.remove()
            self._hook = self._step = None

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Compute the loss on the batch that the method prepared."""
        self._examples = inputs.pop("examples", None)
        if self._hook is None:
            _check_classifier(model)
        if model.training:
            if self._hook is None:
                self._hook = attach(model, self.method, self.head)
            inputs = self.method.prepare(inputs)
            self._inputs = {k: v for k, v in inputs.items() if k not in self.label_names}
        found = super().compute_loss(model, inputs, return_outputs, *args, **kwargs)
        return (found[0], _loss_first(*found)) if return_outputs else found

    def training_step(self, *args: Any, **kwargs: Any) -> Tensor:
        """Run the usual step, then the method's own update, before the optimizer's step."""
        try:
            loss = super().training_step(*args, **kwargs)
        except BaseException:  # The optimizer step will not be completed.
            self.method.abandon()
            raise
        if self.method.needs_holdout and self.accelerator.sync_gradients:
            assert self._step is not None
            self.method.outer_step(replace(self._step, holdout=self._holdout_step()))
        self._step = None
        return loss

    def _method_loss(
        self, outputs: Any, labels: Tensor | None, num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        logits, labels = logits_of(outputs), self._checked_labels(labels)
        if self._hook is None or not self._hook.head.training:
            return CrossEntropy().loss(Step(logits, labels, num_items=num_items_in_batch))
        self._step = self._hook.step(
            logits,
            labels,
            num_items=num_items_in_batch,
            last=self.accelerator.sync_gradients,
            examples=self._examples,
            inputs=self._inputs,
        )
        return self.method.loss(self._step)

    def _checked_labels(self, labels: Any) -> Tensor:
        if isinstance(labels, Tensor):
            return labels
        name = next(iter(self.label_names), None)
        missing = "its forward names none" if name is None else f"the batches have no '{name}'"
        raise InputError(
            f"Trainer: a method learns from labels, and {missing}: give "
            "TrainingArguments(label_names=['labels']) with the column of the data set."
        )

    @torch.no_grad()
    def _holdout_step(self) -> Step:
        assert self._hook is not None
        inputs = dict(self._prepare_inputs(self._held_batch()))
        labels = self._checked_labels(inputs.pop(next(iter(self.label_names), ""), None))
        inputs.pop("examples", None)
        with evaluating(self._hook.model):
            logits = logits_of(self._hook.model(**inputs))
        return self._hook.step(logits, labels, inputs=inputs)

    def _held_batch(self) -> Any:
        """Return the next batch of held-out data; after the last one they begin again."""
        batch = next(self._holdout, None) if self._holdout else self._opened_holdout()
        if batch is None:
            self._held = 0
            batch = self._opened_holdout()
        if batch is None:
            raise InputError(_NO_HOLDOUT)
        self._held += 1
        return batch

    def _opened_holdout(self) -> Any:
        """Open the held-out data and return their first batch, or the next in a resumed run."""
        # A new loader draws a seed. A resumed run opens one at another step, and must draw as much.
        with torch.random.fork_rng(devices=()):
            batches = iter(self.get_eval_dataloader(self.holdout_dataset))
            self._holdout = islice(batches, self._held, None)
            return next(self._holdout, None)

    def _set_signature_columns_if_needed(self) -> None:
        # The columns that remove_unused_columns keeps.
        super()._set_signature_columns_if_needed()
        columns: Any = self._signature_columns
        if "examples" not in columns:
            columns.append("examples")

    def _save_rng_state(self, output_dir: str) -> None:
        # At this point every process saves its own state into the checkpoint.
        super()._save_rng_state(output_dir)
        content = {"method": self.method.state_dict(), "held": self._held}
        write_checkpoint(_state_file(output_dir, rank()), content)

    def _load_method(self, checkpoint: str | bool | None) -> None:
        if checkpoint is True:
            checkpoint = get_last_checkpoint(self.args.output_dir)  # type: ignore[no-untyped-call]
        if not isinstance(checkpoint, str):
            return
        # More processes than were saved: the method's learnt state is the same for all, and a noise
        # stream saved by another rank is not continued but branched off.
        for number in (rank(), 0):
            file = _state_file(checkpoint, number)
            if file.exists():
                saved = torch.load(file, weights_only=True, map_location="cpu")
                if saved.keys() != {"method", "held"}:  # Of an earlier version.
                    saved = {"method": saved, "held": 0}
                self.method.load_state_dict(saved["method"])
                self._holdout, self._held = None, saved["held"]
                return


def _check_smoothing(arguments: Any) -> None:
    # Before transformers reads it, which then asks a plain module for its config.
    if factor := getattr(arguments, "label_smoothing_factor", 0):
        raise InputError(
            "Trainer: the method computes the loss, so label_smoothing_factor would do nothing;"
            f" use LabelSmoothing(alpha={factor})."
        )


def _check_classifier(model: Any) -> None:
    # Their labels are the words themselves, which only their own loss shifts to the next word.
    classifier: Any = unwrap(model)
    if hasattr(classifier, "get_base_model"):  # peft's
        classifier = classifier.get_base_model()
    name = type(classifier).__name__
    if name in _language_models():
        raise InputError(
            f"Trainer: {name} predicts the next word, and a method learns from the label of each "
            "example or word: use AutoModelForSequenceClassification or "
            "AutoModelForTokenClassification."
        )


@cache
def _language_models() -> frozenset[str]:
    auto = transformers.models.auto.modeling_auto
    causal = auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    both = auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES
    return frozenset([*causal.values(), *both.values()])


def _loss_first(loss: Tensor, outputs: Any) -> Any:
    """Return outputs as transformers reads them in evaluation: a dict, or a loss and then logits.

    Without labels, which the method keeps, a model returns no loss: then its logits would be taken
    for one.
    """
    if isinstance(outputs, Mapping):
        return {name: value for name, value in outputs.items() if value is not None}
    if isinstance(outputs, (tuple, list)):
        parts = [part for part in outputs if part is not None]
        has_loss = isinstance(parts[0], Tensor) and not parts[0].ndim
        return tuple(parts) if has_loss else (loss, *parts)
    return loss, logits_of(outputs)


def _state_file(folder: str, number: int) -> Path:
    return Path(folder) / f"calibrant_method_{number}.pt"
