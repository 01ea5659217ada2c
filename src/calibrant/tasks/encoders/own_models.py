"""Models that a training run wrote, loaded by calibrant's own classes: no code of a folder runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from calibrant.extras import require
from calibrant.tasks.encoders.foreign_models import trusted

__all__ = ["OWN_TYPE", "is_own_model", "load_own_encoder", "load_own_tokenizer"]

OWN_TYPE = "encoder_with_head"  # The model type of an encoder with hidden layers in its head.


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
        ignore_mismatched_sizes=True,  # The head is made anew, whatever classes it had.
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
