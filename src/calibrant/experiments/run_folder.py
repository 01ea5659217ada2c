"""The folder of one training run: its files, its lock, and whether it is finished."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from calibrant.errors import InputError
from calibrant.experiments.recipe import Recipe
from calibrant.inputs import read_json
from calibrant.outputs import make_folder, new_file
from calibrant.tasks import all_tasks
from calibrant.tasks.run_files import read_labels
from calibrant.unfinished import sweep

__all__ = ["RunFolder"]

_LOCK = ".lock"
_FILES = (
    "recipe.json", "labels.json", "metrics.json", "temperature.json", "calibrator.json",
    "evidence.npz", "signals.npz", "log.jsonl", "report.html", "checkpoint.pt",
    *(f"{split}.{kind}" for split in ("valid", "test", "ood") for kind in ("parquet", "npz")),
)  # fmt: skip


@dataclass(frozen=True)
class RunFolder:
    """``recipe.json`` is written first and ``metrics.json`` last; a run that has both is finished.

    Every file gets its name when it is complete, so every named file can be read.
    """

    path: Path

    @property
    def checkpoint(self) -> Path:
        """The checkpoint of an unfinished run (lean engine)."""
        return self.path / "checkpoint.pt"

    @property
    def trainer(self) -> Path:
        """The checkpoints of an unfinished run (Trainer engine)."""
        return self.path / "trainer"

    @property
    def model(self) -> Path:
        """The trained model, for transformers."""
        return self.path / "model"

    @property
    def metrics(self) -> Path:
        """The record of the run."""
        return self.path / "metrics.json"

    @property
    def temperature(self) -> Path:
        """The fitted temperature."""
        return self.path / "temperature.json"

    @property
    def calibrator(self) -> Path:
        """The fitted calibrator that predictions use."""
        return self.path / "calibrator.json"

    @property
    def log(self) -> Path:
        """One line per epoch."""
        return self.path / "log.jsonl"

    @property
    def report(self) -> Path:
        """The audit of the test split, before and after the calibrator of the run."""
        return self.path / "report.html"

    def predictions(self, split: str) -> Path:
        """Return the file of a split, such as ``valid``: parquet, or npz if pyarrow was missing."""
        written = self.path / f"{split}.npz"
        return written if written.exists() else self.path / f"{split}.parquet"

    def files(self) -> list[Path]:
        """Return the files of a run and its model folder; no other output may replace them."""
        more = (name for task in all_tasks().values() for name in task.own_files)
        return [*(self.path / name for name in (*_FILES, *more)), self.model]

    def labels(self) -> tuple[str, ...]:
        """Return the label set of a finished run."""
        return read_labels(self.path)

    @property
    def finished(self) -> bool:
        """Whether the run is complete."""
        return self.metrics.exists()

    def recipe(self) -> Recipe | None:
        """Return the recipe of the run, or None if there is no run."""
        path = self.path / "recipe.json"
        if not path.exists():
            return None
        content = read_json(path, "not a recipe of this version")
        if not isinstance(content, dict):
            raise InputError(f"{path} is not a recipe of this version.")
        try:
            return Recipe.from_dict(content)
        except InputError as error:
            raise InputError(f"{path} is not a recipe of this version: {error}") from None

    def check(self, recipe: Recipe, any_epochs: bool = False) -> None:
        """Refuse a folder that holds another recipe's run, or something else.

        With ``any_epochs`` a run that differs in their number is the same.
        """
        if not self.path.exists():
            return
        there = self.recipe() if self.path.is_dir() else None
        if there is None:
            if not self.path.is_dir() or any(e.name[0] != "." for e in self.path.iterdir()):
                raise InputError(f"{self.path} is not the folder of a run: name a new folder.")
        elif self.finished or self.checkpoint.exists() or self.trainer.exists():
            same = replace(recipe, epochs=there.epochs) if any_epochs else recipe
            _check_same(self.path, there, same)

    @contextlib.contextmanager
    def begun(self, recipe: Recipe) -> Iterator[None]:
        """Make the folder, or continue the run in it, and lock it for other processes."""
        make_folder(self.path)
        with self._locked():
            sweep(self.path, again=True)
            self.check(recipe)
            self.write_json("recipe.json", recipe.to_dict())
            yield

    def clear(self) -> None:
        """Remove the checkpoints of a finished run that was killed before it could."""
        if self.checkpoint.exists() or self.trainer.exists():
            with contextlib.suppress(OSError, InputError), self._locked():  # Or its trainer does.
                self.forget_checkpoints()

    def write_json(self, name: str, content: Any) -> None:
        """Write a small file whole."""
        with new_file(self.path / name, overwrite=True) as unfinished:
            text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
            unfinished.write_text(text, encoding="utf-8")

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock; the system releases the lock of a killed process."""
        with _opened_lock(self.path / _LOCK) as file:
            try:
                import fcntl

                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(f"{self.path} is being trained by another process.") from None
            except (ImportError, OSError):  # Windows, and file systems without locks.
                pass
            yield

    def forget_checkpoints(self) -> None:
        """Remove the checkpoints, which a finished run does not need."""
        self.checkpoint.unlink(missing_ok=True)
        shutil.rmtree(self.trainer, ignore_errors=True)


@contextlib.contextmanager
def _opened_lock(path: Path) -> Iterator[int]:
    """Open the file of a lock; not through a link, which may lead to another file."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    except OSError as error:
        raise InputError(f"{path.parent} cannot be written: {error.strerror}.") from None
    try:
        yield file
    finally:
        os.close(file)


def _check_same(path: Path, there: Recipe, recipe: Recipe) -> None:
    old, new = there.to_dict(), recipe.to_dict()
    other = [f"{key} {old[key]!r} (now {new[key]!r})" for key in new if old[key] != new[key]]
    if other:
        raise InputError(
            f"{path} is a run of another recipe: {', '.join(other)}. Name a new folder, or remove "
            "this one."
        )
