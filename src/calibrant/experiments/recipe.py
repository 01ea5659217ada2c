"""A recipe: everything that decides the result of one training run, as data."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from calibrant.calibrators import calibrator_class
from calibrant.errors import InputError, unknown_name
from calibrant.experiments.choice import AUTO
from calibrant.experiments.task import TASKS, entry_of

__all__ = ["Recipe", "expand_grid", "read_recipes"]

CHOICES = {
    "task": tuple(TASKS),
    "engine": ("lean", "trainer"),
    "dtype": ("float32", "tf32", "bfloat16", "float16"),
    "optimizer": ("adamw", "sgd"),
    "decay": ("linear", "cosine", "step"),
}
LEAST = {
    "head_width": 1, "head_depth": 0, "seed": 0, "epochs": 1, "batch": 1, "max_length": 16,
    "accumulate": 1, "patience": 0, "image_size": 0,
}  # fmt: skip
# Settings that came after the first records: left out of a key where they have their default, so
# that the records of an older version are still found.
_LATER = (
    "task", "engine", "accumulate", "patience", "shift", "optimizer", "momentum", "decay", "clip",
    "augment", "compile", "calibrator", "image_size", "maps",
)  # fmt: skip


@dataclass(frozen=True)
class Recipe:
    """One run. An experiment is written as differences from these defaults.

    They are those of named entity recognition; :meth:`from_dict` takes those of the task instead
    (:data:`calibrant.experiments.task.TASKS`).
    """

    data: str = "conll2003"
    model: str = "minilm"
    method: str = "cross_entropy"
    method_options: Mapping[str, Any] = field(default_factory=dict)
    head_width: int = 128
    head_depth: int = 1
    head_activation: str = "relu"
    seed: int = 0
    epochs: int = 10
    batch: int = 32
    learning_rate: float = 5e-5
    weight_decay: float = 0.01
    warm_up: float = 0.0
    dtype: str = "bfloat16"
    max_length: int = 512
    task: str = "ner"
    engine: str = "lean"
    accumulate: int = 1  # parts that a batch is run in
    patience: int = 0  # epochs without a better validation F1 before stopping; 0: never
    shift: tuple[str, ...] = ()  # what to test on besides: corruptions (typos-3), other corpora
    calibrator: str = AUTO  # the post-hoc map that a run is put to use with
    # Post-hoc maps to measure with; under shift, the first two.
    maps: tuple[str, ...] = ("identity", "temperature")
    optimizer: str = "adamw"
    momentum: float = 0.9  # of sgd, Nesterov's
    decay: str = "linear"  # of the learning rate: linear, cosine, or step at 50 and 75 %
    clip: float = 1.0  # largest norm of the gradient; 0: any
    augment: str = "none"  # of images: crop, flip and cutout, joined by +
    compile: bool = False  # the encoder of images, with torch.compile
    image_size: int = 0  # side to which images are brought; 0: they are all of one size already

    def __post_init__(self) -> None:
        for name, known in CHOICES.items():
            if getattr(self, name) not in known:
                raise unknown_name(name, str(getattr(self, name)), known)
        for name, least in LEAST.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(f"{name} is a whole number from {least} on, got {value!r}.")
        if not 0 < self.learning_rate < math.inf:
            raise InputError(f"learning_rate is greater than 0, got {self.learning_rate!r}.")
        if not 0 <= self.warm_up < 1:
            raise InputError(f"warm_up is a share of all steps in [0, 1), got {self.warm_up!r}.")
        if self.batch % self.accumulate:
            raise InputError(
                f"A batch of {self.batch} cannot be run in {self.accumulate} equal parts."
            )
        for name, example in (("shift", "['typos-3', 'wnut17']"), ("maps", "['temperature']")):
            # A list, where it comes from a file.
            object.__setattr__(self, name, _names(name, getattr(self, name), example))
        self._check_task()
        for name in {*self.maps, self.calibrator} - {AUTO}:
            calibrator_class(name)  # Says so where there is none of that name.
        self._check_optimizer()

    def _check_optimizer(self) -> None:
        for name in ("momentum", "clip", "weight_decay"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InputError(f"{name} is a number from 0 on, got {getattr(self, name)!r}.")
        if self.momentum >= 1:
            raise InputError(f"momentum is below 1, got {self.momentum!r}.")
        if self.optimizer != "sgd" and self.momentum != Recipe.momentum:
            raise InputError(f"momentum is a setting of optimizer 'sgd', not '{self.optimizer}'.")
        if self.engine == "trainer" and (self.optimizer, self.decay) != ("adamw", "linear"):
            raise InputError("Engine 'trainer' has AdamW with linear decay: leave both out.")

    def _check_task(self) -> None:
        entry = entry_of(self.task)
        if self.engine not in entry.engines:
            raise InputError(
                f"Task '{self.task}' is trained by engine {' or '.join(entry.engines)}, not by "
                f"'{self.engine}'."
            )
        defaults = {f.name: f.default for f in fields(self)}
        for other, its in TASKS.items():
            for name in set(its.own) - set(entry.own):
                if getattr(self, name) != defaults[name]:
                    raise InputError(f"{name} is a setting of task '{other}', not '{self.task}'.")

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Recipe:
        """A recipe from keys and values over its task's defaults; an unknown key is an error.

        >>> Recipe.from_dict({"sede": 1})
        Traceback (most recent call last):
        ...
        calibrant.errors.InputError: Unknown recipe key 'sede'. Did you mean 'seed'?
        """
        known = {f.name for f in fields(cls)}
        for key in content:
            if key not in known:
                raise unknown_name("recipe key", key, known)
        task = content.get("task", cls.task)
        return cls(**{**TASKS[task].defaults, **content} if task in TASKS else content)

    def to_dict(self) -> dict[str, Any]:
        """Every key, defaults included."""
        lists = {"shift": list(self.shift), "maps": list(self.maps)}
        return {**asdict(self), "method_options": dict(self.method_options), **lists}

    @property
    def key(self) -> str:
        """A name for the run's files: what it is, and a hash of every setting.

        >>> Recipe(data="gum", seed=3).key
        'gum-cross_entropy-128x1-s3-...'
        """
        later = {f.name: f.default for f in fields(self) if f.name in _LATER}
        old = {name for name, default in later.items() if getattr(self, name) == default}
        settings = {k: v for k, v in self.to_dict().items() if k not in old}
        content = json.dumps(settings, sort_keys=True)
        digest = hashlib.sha256(content.encode()).hexdigest()[:8]
        head = f"{self.head_width}x{self.head_depth}"
        return f"{Path(self.data).name}-{self.method}-{head}-s{self.seed}-{digest}"


def read_recipes(path: str | Path) -> list[Recipe]:
    """The runs of a TOML file: ``[defaults]`` and any number of ``[[grid]]`` tables of lists."""
    path = Path(path)
    try:
        content = _toml(path)
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}.") from None
    except ValueError as error:
        raise InputError(f"{path} is not TOML: {error}.") from None
    for key in content:
        if key not in ("defaults", "grid", "title"):
            raise unknown_name("table", key, ("defaults", "grid", "title"))
    return expand_grid(content.get("defaults", {}), content.get("grid", [{}]))


def expand_grid(defaults: Mapping[str, Any], grids: list[Mapping[str, Any]]) -> list[Recipe]:
    """Every combination of the lists of each grid, over the defaults, each run once.

    A list of tables may stand where one key decides others: ``variant = [{method = "focal",
    method_options = {gamma = 3}}, …]``. The names of ``shift`` and of ``maps`` are one setting, not
    several.

    >>> [r.key[:20] for r in expand_grid({"data": "gum"}, [{"seed": [0, 1], "epochs": 2}])]
    ['gum-cross_entropy-12', 'gum-cross_entropy-12']
    """
    recipes: dict[str, Recipe] = {}
    for grid in grids:
        axes = [
            [_setting(key, value) for value in _choices(key, values)]
            for key, values in grid.items()
        ]
        for combination in itertools.product(*axes):
            merged = dict(defaults)
            for setting in combination:
                merged.update(setting)
            recipe = Recipe.from_dict(merged)
            recipes.setdefault(recipe.key, recipe)
    return list(recipes.values())


def _choices(key: str, values: Any) -> list[Any]:
    if not isinstance(values, list):
        return [values]
    several = key != "shift" or any(isinstance(value, list) for value in values)
    return values if several else [values]


def _names(key: str, names: Any, example: str) -> tuple[str, ...]:
    listed = isinstance(names, (list, tuple))
    if not listed or not all(isinstance(name, str) and name for name in names):
        raise InputError(f"{key} is a list of names, such as {example}, got {names!r}.")
    if len(set(names)) < len(names):
        raise InputError(f"{key} names something twice: {', '.join(names)}.")
    return tuple(names)


def _setting(key: str, value: Any) -> dict[str, Any]:
    return dict(value) if key == "variant" else {key: value}


def _toml(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    with path.open("rb") as file:
        return tomllib.load(file)
