"""The options of ``calibrant train``: those of a recipe come from its fields."""

from __future__ import annotations

import argparse
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from calibrant.cli.old_options import calibrator_name, method_name
from calibrant.cli.options import (
    add_data_dir,
    add_device,
    add_labels,
    add_set,
    add_trust,
    parse_settings,
    read_label_pairs,
)
from calibrant.errors import InputError
from calibrant.experiments.recipe import Recipe
from calibrant.tasks import all_tasks
from calibrant.tasks.reading.catalogue import is_place

__all__ = ["add_options", "recipe_from"]

_NAMES = {"method": method_name, "calibrator": calibrator_name, "measure": calibrator_name}
_PLACES = ("data", "model", "train_file", "dev_file", "test_file")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add an option for each field of a recipe, then those that do not decide the result."""
    groups: dict[str, Any] = {}
    for setting in fields(Recipe):
        title = setting.metadata["group"]
        if title not in groups:
            groups[title] = parser.add_argument_group(title)
        _add_option(groups[title], setting)
    _add_where(parser.add_argument_group("where it runs (no part of the recipe)"))


def _add_option(group: Any, setting: Field[Any]) -> None:
    about, kind = setting.metadata, type(setting.default)
    if setting.default is MISSING:
        if setting.name == "method_options":
            add_set(group, about["help"])
        else:
            add_labels(group)
        return
    options: dict[str, Any] = {"help": f"{about['help']}{_default(setting)}".replace("%", "%%")}
    if kind in (int, float) or setting.name in _NAMES:
        options["type"] = _NAMES.get(setting.name, kind)
    if kind is bool:
        options |= {"action": "store_const", "const": True}
    if kind is tuple:
        options["nargs"] = "+"
    options |= {name: about[name] for name in ("metavar", "nargs") if name in about}
    flag = about.get("flag", "--" + setting.name.replace("_", "-"))
    group.add_argument(flag, dest=setting.name, **options)


def _default(setting: Field[Any]) -> str:
    """Describe the default, and those of tasks that have another.

    >>> next(_default(field) for field in fields(Recipe) if field.name == "batch")
    ' (32; image 64, segmentation 16)'
    """
    default = setting.default
    if default is False or default in ("", ()) or not setting.metadata.get("shows_default", True):
        return ""
    known = ((name, task.defaults.get(setting.name)) for name, task in all_tasks().items())
    others = ", ".join(f"{name} {_text(value)}" for name, value in known if value is not None)
    shown = _text(default).replace("_", "-") if setting.name == "method" else _text(default)
    return f" ({shown}{'; ' * bool(others)}{others})"


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _add_where(group: Any) -> None:
    add_trust(group)
    add_data_dir(group)
    add_device(group)
    group.add_argument(
        "--save-every",
        type=float,
        default=300.0,
        metavar="SECONDS",
        help="write checkpoints inside an epoch too, not only at its end (300; lean engine)",
    )
    group.add_argument(
        "--tensorboard",
        action="store_true",
        help="write each epoch's numbers to RUN/tensorboard too, for 'tensorboard --logdir'",
    )
    group.add_argument(
        "--bootstrap",
        type=int,
        default=1000,
        help="bootstrap replicates for the report's intervals (1000)",
    )


def recipe_from(args: argparse.Namespace, seed: int, device: str) -> Recipe:
    """Make the recipe of the options; other settings have the default of the task."""
    if bool(args.data) == bool(args.train_file):
        raise InputError("Name the training data: --data NAME|FOLDER, or --train FILE --test FILE.")
    named = {field.name: getattr(args, field.name, None) for field in fields(Recipe)}
    given: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    for name in _PLACES:  # A folder or file is the same from every working directory.
        if name in given:
            given[name] = _resolved(given[name])
    given.setdefault("data", given.get("train_file"))
    given["shift"] = [_resolved(name) for name in given.get("shift", ())]
    if "labels" in given:
        given["labels"] = read_label_pairs(given["labels"])
    given |= {"seed": seed, "method_options": parse_settings(args.settings)}
    return Recipe.from_dict(given).on(device)


def _resolved(name: str) -> str:
    return str(Path(name).resolve()) if is_place(name) else name
