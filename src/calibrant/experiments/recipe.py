"""A recipe: everything that decides the result of one training run, as data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from calibrant.errors import unknown_name
from calibrant.experiments.recipe_checks import AUTO, WRAPPED, check_recipe, checked_names
from calibrant.tasks import DEFAULT_TASK, TASKS, all_tasks, task_of
from calibrant.tasks.ner.corpora.label_sets import UNSEEN

__all__ = ["Recipe", "with_new_keys"]

# Settings that are newer than the first records. A default value is not part of the key, so that
# the records of older versions are still found.
_LATER = (
    "task", "engine", "accumulate", "patience", "shift", "optimizer", "momentum", "decay", "clip",
    "augment", "compile", "calibrator", "image_size", "measure", "train_file", "dev_file",
    "test_file", "unseen_types", "copies", "labels", "scheme",
)  # fmt: skip
# Key of today → key of older records and recipes, which the hash in a run's name keeps.
_OLD_KEYS = {"measure": "maps"}


_WHAT = "what is trained"  # The group of the option; others say how it is trained.


def setting(default: Any, help: str, group: str = "how it is trained", **more: Any) -> Any:  # noqa: A002
    """Make a field of a recipe with the help text of its option and further metadata.

    ``choices``, ``least`` and ``most`` limit its values; ``flag``, ``metavar``, ``nargs`` and
    ``shows_default`` are about the option.
    """
    about = {"help": help, "group": group, **more}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=about)
    return field(default=default, metadata=about)


def known_by_task(attribute: str) -> str:
    """Join what each task says; tasks that say the same are grouped.

    >>> known_by_task("known_models")[:38]
    'ner, text: minilm, tiny (small, from s'
    """
    tasks: dict[str, list[str]] = {}
    for name, task in all_tasks().items():
        tasks.setdefault(getattr(task, attribute), []).append(name)
    return "; ".join(f"{', '.join(names)}: {known}" for known, names in tasks.items() if known)


def with_new_keys(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a recipe with today's keys; older records have others.

    >>> with_new_keys({"maps": ["identity", "temperature"]})
    {'measure': ['identity', 'temperature']}
    """
    today = {old: new for new, old in _OLD_KEYS.items()}
    return {today.get(key, key): value for key, value in content.items()}


@dataclass(frozen=True)
class Recipe:
    """One run. An experiment is written as differences from these defaults.

    The defaults are those of named entity recognition; :meth:`from_dict` takes those of the task
    (:attr:`calibrant.tasks.task.Task.defaults`). Each field has the help of its option of
    ``calibrant train`` and the values that it may have.
    """

    task: str = setting(
        DEFAULT_TASK, "what to train; 'calibrant list tasks' shows all", _WHAT, choices=TASKS
    )
    data: str = setting(
        "conll2003",
        f"corpus by name, found under --data-dir ({known_by_task('known_data')}), or a folder with "
        "train, (dev) and test parts; docs/tasks.md describes the formats",
        _WHAT,
        metavar="NAME|FOLDER|FILE",
        shows_default=False,
    )
    # Files of the splits; `data` is only a name then.
    train_file: str = setting(
        "", "ner: the training file, instead of --data", _WHAT, metavar="FILE", flag="--train"
    )
    dev_file: str = setting(
        "", "ner: the validation file, if there is one", _WHAT, metavar="FILE", flag="--dev"
    )
    test_file: str = setting("", "ner: the test file", _WHAT, metavar="FILE", flag="--test")
    unseen_types: str = setting(
        "keep",
        "ner: keep entity types that training does not have, as entities that cannot be found, "
        "drop them, or raise an error",
        _WHAT,
        choices=UNSEEN,
    )
    model: str = setting(
        "minilm",
        known_by_task("known_models"),
        _WHAT,
        metavar="NAME|FOLDER",
    )
    method: str = setting(
        "cross_entropy", "training method; 'calibrant list methods' shows all", _WHAT
    )
    method_options: Mapping[str, Any] = setting({}, "set an option of the method", _WHAT)
    head_width: int = setting(
        128, "width of hidden head layers, or of the U-Net", _WHAT, least=1, most=65_536
    )
    head_depth: int = setting(1, "number of hidden layers of the head", _WHAT, least=0, most=100)
    head_activation: str = setting(
        "relu", "activation of hidden head layers: relu, gelu, tanh or none", _WHAT
    )
    shift: tuple[str, ...] = setting(
        (),
        "other data to test on: corruptions such as typos-3 ('calibrant list corruptions' shows "
        "all), corpora, folders or files",
        _WHAT,
        metavar="NAME",
        example="['typos-3', 'wnut17']",
    )
    copies: tuple[str, ...] = setting(
        (AUTO,),
        "corrupted copies of the validation split, such as typos-3, from which a shift-aware "
        "calibrator learns; auto: those of the task if there are 5,000 validation examples; none: "
        "no copies",
        metavar="NAME",
        example="['typos-3', 'ocr-3']",
    )
    engine: str = setting(
        "lean",
        "lean: fast, float32 or bfloat16; trainer: the Hugging Face Trainer, also float16, not for "
        "images; both also under torchrun; wrapped: a fine-tuned model as it is, as 'calibrant "
        "wrap' does",
        choices=("lean", "trainer", WRAPPED),
    )
    # Of engine "wrapped" alone.
    labels: Mapping[str, str] = setting({}, "wrapped: names of the model's classes in the corpus")
    scheme: str = setting(
        "bio",
        "wrapped, ner: io reads B- and I- of the model as one, for models whose B- only separates "
        "entities that touch (IOB1); auto finds out",
        choices=("bio", "io", "auto"),
    )
    seed: int = setting(
        0,
        "seed of head, batches, dropout and noise; several, such as --seed 0 1 2, train RUN/seed-0 "
        "and so on, and print means with intervals",
        least=0,
        nargs="+",
    )
    epochs: int = setting(
        10,
        "passes over the training data; without this option, more if there is little data",
        least=1,
        most=100_000,
    )
    batch: int = setting(
        32, "windows, texts or images per step, over all devices", least=1, most=1_000_000
    )
    accumulate: int = setting(1, "run each batch in this many parts, for less memory", least=1)
    optimizer: str = setting(
        "adamw", "adamw, or sgd with Nesterov momentum", choices=("adamw", "sgd")
    )
    learning_rate: float = setting(5e-5, "highest learning rate")
    momentum: float = setting(0.9, "momentum of sgd")
    weight_decay: float = setting(0.01, "weight decay, decoupled with adamw")
    decay: str = setting(
        "linear",
        "decay of the learning rate: linear, cosine, or step at 50 and 75 %",
        choices=("linear", "cosine", "step"),
    )
    warm_up: float = setting(0.0, "share of all steps over which the learning rate rises")
    clip: float = setting(1.0, "largest norm of the gradient; 0: no limit")
    augment: str = setting("none", "images: none, or crop, flip and cutout joined by +")
    image_size: int = setting(0, "side to scale images to; 0: keep their size", least=0, most=8_192)
    compile: bool = setting(False, "image: compile the encoder with torch.compile")
    calibrator: str = setting(
        AUTO,
        "calibrator of the predictions, fitted on the validation split; 'calibrant list "
        "calibrators' shows all; auto chooses the simplest one that no other beats in "
        "cross-validated log-loss",
    )
    measure: tuple[str, ...] = setting(
        ("identity", "temperature"),
        "measure the predictions with these calibrators too; under shift, with the first two",
        metavar="NAME",
        example="['temperature']",
    )
    patience: int = setting(
        0,
        "stop after this many epochs without a better validation score (F1, or accuracy), and take "
        "the best epoch; 0: never, take the last",
        least=0,
    )
    dtype: str = setting(
        AUTO,
        "float32, tf32, bfloat16 or float16; auto: bfloat16 on CUDA, else float32",
        choices=(AUTO, "float32", "tf32", "bfloat16", "float16"),
    )
    max_length: int = setting(
        512,
        "most subword tokens; longer sentences become windows, longer texts are cut",
        least=16,
        most=512,
    )

    def __post_init__(self) -> None:
        for name in ("shift", "measure", "copies"):  # A list, if it comes from a file.
            object.__setattr__(self, name, checked_names(self, name))
        if isinstance(self.method, str):  # Records always have underscores.
            object.__setattr__(self, "method", self.method.replace("-", "_"))
        check_recipe(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Recipe:
        """Make a recipe from keys and values over its task's defaults; an unknown key is an error.

        >>> Recipe.from_dict({"sede": 1})
        Traceback (most recent call last):
        ...
        calibrant.errors.InputError: Unknown recipe key 'sede'. Did you mean 'seed'?
        """
        known = {f.name for f in fields(cls)}
        content = with_new_keys(content)
        for key in content:
            if key not in known:
                raise unknown_name("recipe key", key, known)
        task = content.get("task", cls.task)
        known_task = isinstance(task, str) and task in TASKS
        return cls(**{**task_of(task).defaults, **content} if known_task else content)

    def to_dict(self) -> dict[str, Any]:
        """Return every key with its value, defaults included."""
        lists = {name: list(getattr(self, name)) for name in ("shift", "measure", "copies")}
        tables = {name: dict(getattr(self, name)) for name in ("method_options", "labels")}
        return {**asdict(self), **tables, **lists}

    def on(self, device: str) -> Recipe:
        """Return the recipe with the number type that it has on a device.

        >>> Recipe().on("cpu").dtype, Recipe().on("cuda:1").dtype
        ('float32', 'bfloat16')
        """
        if self.dtype != AUTO:
            return self
        return replace(self, dtype="bfloat16" if device.startswith("cuda") else "float32")

    @property
    def wrapped(self) -> bool:
        """Whether the model is taken as it is, with its own head; nothing is trained."""
        return self.engine == WRAPPED

    @property
    def files(self) -> dict[str, str]:
        """The file of each split that has its own."""
        named = {"train": self.train_file, "dev": self.dev_file, "test": self.test_file}
        return {split: path for split, path in named.items() if path}

    @property
    def key(self) -> str:
        """A name for the run's files: what it is, and a hash of every setting.

        >>> Recipe(data="gum", seed=3).key
        'gum-cross_entropy-128x1-s3-...'
        """
        plain = type(self)()
        old = {name for name in _LATER if getattr(self, name) == getattr(plain, name)}
        settings = {_OLD_KEYS.get(k, k): v for k, v in self.to_dict().items() if k not in old}
        content = json.dumps(settings, sort_keys=True)
        digest = hashlib.sha256(content.encode()).hexdigest()[:8]
        head = f"{self.head_width}x{self.head_depth}"
        return f"{Path(self.data).name}-{self.method}-{head}-s{self.seed}-{digest}"
