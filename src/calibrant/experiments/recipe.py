"""A recipe: everything that decides the result of one training run, as data."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from calibrant.errors import InputError, unknown_name
from calibrant.experiments.choice import AUTO
from calibrant.experiments.recipe_checks import check_recipe, checked_names
from calibrant.experiments.task import TASKS
from calibrant.extras import require
from calibrant.inputs import check_file, check_nesting

__all__ = ["Recipe", "expand_grid", "read_recipes", "read_title"]

# Settings that came after the first records: left out of a key where they have their default, so
# that the records of an older version are still found.
_LATER = (
    "task", "engine", "accumulate", "patience", "shift", "optimizer", "momentum", "decay", "clip",
    "augment", "compile", "calibrator", "image_size", "maps", "train_file", "dev_file", "test_file",
    "unseen_types",
)  # fmt: skip


_MOST_RECIPES = 100_000  # In one grid.
# Texts and comments of TOML, in which brackets mean nothing.
_QUOTED = re.compile(r'"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*')


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
    # Files of the splits, in place of what `data` would find; then `data` is but a name.
    train_file: str = ""
    dev_file: str = ""
    test_file: str = ""
    unseen_types: str = "keep"  # entity types that training does not have: keep, drop or error
    image_size: int = 0  # side to which images are brought; 0: they are all of one size already

    def __post_init__(self) -> None:
        for name, example in (("shift", "['typos-3', 'wnut17']"), ("maps", "['temperature']")):
            # A list, where it comes from a file.
            object.__setattr__(self, name, checked_names(name, getattr(self, name), example))
        check_recipe(self)

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
        known_task = isinstance(task, str) and task in TASKS
        return cls(**{**TASKS[task].defaults, **content} if known_task else content)

    def to_dict(self) -> dict[str, Any]:
        """Every key, defaults included."""
        lists = {"shift": list(self.shift), "maps": list(self.maps)}
        return {**asdict(self), "method_options": dict(self.method_options), **lists}

    @property
    def files(self) -> dict[str, str]:
        """The file of each split that has one of its own."""
        named = {"train": self.train_file, "dev": self.dev_file, "test": self.test_file}
        return {split: path for split, path in named.items() if path}

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


def read_title(path: str | Path) -> str:
    """The title of a TOML file of recipes; empty where it has none."""
    return str(_content(Path(path)).get("title", ""))


def read_recipes(path: str | Path) -> list[Recipe]:
    """The runs of a TOML file: ``[defaults]`` and any number of ``[[grid]]`` tables of lists."""
    path = Path(path)
    content = _content(path)
    defaults, grids = content.get("defaults", {}), content.get("grid", [{}])
    tables = [defaults, *grids] if isinstance(grids, list) else [grids, None]
    if not all(isinstance(table, dict) for table in tables):
        raise InputError(f"{path}: expected one table [defaults], and each grid as [[grid]].")
    try:
        return expand_grid(defaults, grids)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _content(path: Path) -> dict[str, Any]:
    check_file(path)
    try:
        content = _toml(path)
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}.") from None
    except ValueError as error:
        raise InputError(f"{path} is not TOML: {error}.") from None
    for key in content:
        if key not in ("defaults", "grid", "title"):
            raise unknown_name(f"table of {path}:", key, ("defaults", "grid", "title"))
    return dict(content)


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
        if math.prod(map(len, axes)) > _MOST_RECIPES:
            raise InputError(
                f"A grid has {math.prod(map(len, axes)):,} combinations; at most "
                f"{_MOST_RECIPES:,} are taken."
            )
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
    if key in ("shift", "maps") and not any(isinstance(value, list) for value in values):
        return [values]
    if not values:
        raise InputError(f"{key} of a grid has no value: leave it out, or give it one.")
    return values


def _setting(key: str, value: Any) -> dict[str, Any]:
    if key != "variant":
        return {key: value}
    if not isinstance(value, Mapping):
        raise InputError(f"variant of a grid is a list of tables of settings, got {value!r}.")
    return dict(value)


def _toml(path: Path) -> dict[str, Any]:
    name = "tomllib" if sys.version_info >= (3, 11) else "tomli"
    tomllib: Any = require(name, "transformers", "Reading a recipe")
    text = path.read_text(encoding="utf-8")
    check_nesting(_QUOTED.sub("", text))  # A reader that recurses would come to its limit.
    content: dict[str, Any] = tomllib.loads(text)
    return content
