"""Train a recipe with the Hugging Face Trainer, on one device or, under torchrun, on several."""

from __future__ import annotations

import math
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from calibrant.errors import InputError
from calibrant.experiments.history import Epoch, History, SavePace
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.recipe_parts import build_method
from calibrant.experiments.reporter import Reporter
from calibrant.experiments.run_folder import RunFolder
from calibrant.extras import require
from calibrant.tasks import task_of
from calibrant.tasks.data import Data, Examples
from calibrant.tasks.encoders.foreign_models import quiet
from calibrant.training.checkpoint import read_checkpoint, write_checkpoint
from calibrant.training.trainer import Trainer

if TYPE_CHECKING:
    from transformers import PrinterCallback, TrainerCallback
else:
    _library = require("transformers", "transformers", "The Trainer engine")
    PrinterCallback, TrainerCallback = _library.PrinterCallback, _library.TrainerCallback

__all__ = ["train_with_trainer"]

_STATE = "calibrant.pt"  # Written last into a checkpoint: one that has it is complete.


def train_with_trainer(
    recipe: Recipe,
    data: Data,
    model: nn.Module,
    run: RunFolder,
    device: str,
    reporter: Reporter,
) -> dict[str, Any]:
    """Train ``model``, leave it in evaluation mode, and return what a record says of the training.

    A checkpoint is written after each epoch.
    """
    method = build_method(recipe)
    if method.parts_needing_examples():
        raise InputError(f"Method '{recipe.method}' with a history trains with --engine lean.")
    arguments = _arguments(recipe, data, run, device)
    course = _RunCallback(recipe, data, reporter)
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=_Rows(data.load("train")),
        holdout_dataset=_Rows(data.load("held")) if "held" in data.splits else None,
        data_collator=data.collate,
        method=method,
        callbacks=[course],
    )
    trainer.remove_callback(PrinterCallback)  # The reporter shows the course.
    last = _last_complete(run.trainer, remove=trainer.is_world_process_zero())
    trainer.accelerator.wait_for_everyone()
    if last is not None:
        course.resume(last)
    if not course.history.stops:
        with quiet():
            trainer.train(resume_from_checkpoint=None if last is None else str(last))
    if course.best is not None:
        model.load_state_dict(course.best)
    model.eval()
    if trainer.is_world_process_zero():
        course.history.write(run.log)
    return _numbers(course.history)


def _numbers(history: History) -> dict[str, Any]:
    """Describe the training as the lean engine does; a part of the curve is an epoch."""
    losses, steps = [epoch.loss for epoch in history.epochs], history.epochs[-1].step
    curve = {"every": steps // len(losses), "losses": [float(f"{loss:.4g}") for loss in losses]}
    mean = sum(losses) / len(losses)
    return {
        "steps": steps,
        **history.training(),
        "mean_loss": mean,
        "loss_curve": curve,
        "notes": [],
    }


def _arguments(recipe: Recipe, data: Data, run: RunFolder, device: str) -> Any:
    transformers = require("transformers", "transformers", "The Trainer engine")
    cpu = device == "cpu"
    common = {"output_dir": str(run.trainer), "use_cpu": cpu}
    world = transformers.TrainingArguments(**common, report_to=[]).world_size
    share, rest = divmod(recipe.batch, recipe.accumulate * world)
    if rest:
        raise InputError(
            f"A batch of {recipe.batch} cannot be shared by {world} processes in "
            f"{recipe.accumulate} parts each."
        )
    steps = math.ceil(len(data.load("train")) / recipe.batch) * recipe.epochs
    return transformers.TrainingArguments(
        **common,
        num_train_epochs=recipe.epochs,
        per_device_train_batch_size=share,
        per_device_eval_batch_size=share,
        gradient_accumulation_steps=recipe.accumulate,
        learning_rate=recipe.learning_rate,
        weight_decay=recipe.weight_decay,
        warmup_steps=math.ceil(recipe.warm_up * steps),
        lr_scheduler_type="linear",
        max_grad_norm=recipe.clip,
        seed=recipe.seed,
        bf16=recipe.dtype == "bfloat16",
        fp16=recipe.dtype == "float16",
        save_strategy="epoch",
        logging_strategy="epoch",
        report_to=[],
        disable_tqdm=True,
        remove_unused_columns=False,
        dataloader_pin_memory=not cpu,
    )


class _Rows(torch.utils.data.Dataset[dict[str, Any]]):
    """The windows or texts of a split, one by one."""

    def __init__(self, examples: Examples) -> None:
        self.examples = examples

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, row: int) -> dict[str, Any]:
        return self.examples[row]


class _RunCallback(TrainerCallback):
    """Follows the Trainer: measures each epoch, stops in time, and makes checkpoints complete."""

    def __init__(self, recipe: Recipe, data: Data, reporter: Reporter) -> None:
        self.task, self.data, self.reporter = task_of(recipe.task), data, reporter
        self.history = History(recipe.patience)
        self.best: dict[str, Tensor] | None = None
        self.began = time.monotonic()
        self.pace, self.writes = SavePace(math.inf), time.monotonic()

    def resume(self, checkpoint: Path) -> None:
        saved = read_checkpoint(checkpoint / _STATE)
        assert saved is not None
        if saved["data"] != self.data.fingerprint:
            raise InputError(
                f"The data '{self.data.name}' have changed since {checkpoint.parent.parent} was "
                "started: restore them, or name a new folder."
            )
        self.history, self.best = History.from_dict(saved["history"]), saved["best"]
        self.reporter.line(f"Continuing after epoch {len(self.history.epochs)}.")

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        self.reporter.step(state.global_step, state.max_steps // math.ceil(args.num_train_epochs))

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Skip checkpoints of short epochs; several processes would have to agree on it."""
        control.should_save &= args.world_size > 1 or self.pace.is_due(ends=True)

    def on_log(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Measure the epoch: its mean loss is known, and its checkpoint comes next."""
        logs, model, data = more["logs"], more["model"], self.data
        if "loss" not in logs:
            return
        model.eval()
        valid = data.predict(model, data.parts["valid"])
        model.train()
        seconds, self.began = time.monotonic() - self.began, time.monotonic()
        number = round(state.epoch)
        loss = float(logs["loss"])
        epoch = Epoch.measured(self.task, number, state.global_step, loss, valid, seconds)
        if self.history.add(epoch) and self.history.patience:
            self.best = {name: v.detach().cpu().clone() for name, v in model.state_dict().items()}
        control.should_training_stop |= self.history.stops
        if state.is_world_process_zero:
            self.history.write(Path(args.output_dir).parent / "log.jsonl")
            self.reporter.epoch(epoch)
        self.writes = self.pace.now()

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        if not state.is_world_process_zero:
            return
        folder = Path(args.output_dir)
        now = folder / f"checkpoint-{state.global_step}"
        content = {"history": self.history.to_dict(), "best": self.best}
        write_checkpoint(now / _STATE, {**content, "data": self.data.fingerprint})
        for other in folder.glob("checkpoint-*"):
            if other != now:
                shutil.rmtree(other)
        self.pace.wrote(self.writes)


def _last_complete(folder: Path, remove: bool) -> Path | None:
    """Return the newest complete checkpoint; ``remove`` the incomplete ones."""
    found = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]))
    complete = [path for path in found if (path / _STATE).exists()]
    for path in found if remove else ():
        if path not in complete:
            shutil.rmtree(path)
    return complete[-1] if complete else None
