"""A recipe: everything that decides the result of one training run, as data."""

from __future__ import annotations

import hashlib
import itertools
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from calibrant.errors import InputError, unknown_name

__all__ = ["Recipe", "expand_grid", "read_recipes"]


@dataclass(frozen=True)
class Recipe:
    """One run. An experiment is written as differences from these defaults."""

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

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Recipe:
        """A recipe from keys and values; an unknown key is an error.

        >>> Recipe.from_dict({"sede": 1})
        Traceback (most recent call last):
        ...
        calibrant.errors.InputError: Unknown recipe key 'sede'. Did you mean 'seed'?
        """
        known = {f.name for f in fields(cls)}
        for key in content:
            if key not in known:
                raise unknown_name("recipe key", key, known)
        return cls(**content)

    def to_dict(self) -> dict[str, Any]:
        """Every key, defaults included."""
        return {**asdict(self), "method_options": dict(self.method_options)}

    @property
    def key(self) -> str:
        """A name for the run's files: what it is, and a hash of every setting.

        >>> Recipe(data="gum", seed=3).key
        'gum-cross_entropy-128x1-s3-...'
        """
        content = json.dumps(self.to_dict(), sort_keys=True)
        digest = hashlib.sha256(content.encode()).hexdigest()[:8]
        head = f"{self.head_width}x{self.head_depth}"
        return f"{self.data}-{self.method}-{head}-s{self.seed}-{digest}"


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
    method_options = {gamma = 3}}, …]``.

    >>> [r.key[:20] for r in expand_grid({"data": "gum"}, [{"seed": [0, 1], "epochs": 2}])]
    ['gum-cross_entropy-12', 'gum-cross_entropy-12']
    """
    recipes: dict[str, Recipe] = {}
    for grid in grids:
        axes = [
            [_setting(key, value) for value in (values if isinstance(values, list) else [values])]
            for key, values in grid.items()
        ]
        for combination in itertools.product(*axes):
            merged = dict(defaults)
            for setting in combination:
                merged.update(setting)
            recipe = Recipe.from_dict(merged)
            recipes.setdefault(recipe.key, recipe)
    return list(recipes.values())


def _setting(key: str, value: Any) -> dict[str, Any]:
    return dict(value) if key == "variant" else {key: value}


def _toml(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    with path.open("rb") as file:
        return tomllib.load(file)
