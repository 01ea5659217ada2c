"""A trained classifier of tokens or texts as a folder that plain transformers loads.

With a linear head the model has the encoder's own class. With an MLP head the folder contains its
code (:mod:`~calibrant.tasks.encoders.modeling_encoder_with_head`), which transformers runs if it is
trusted. calibrant has the same code itself and runs none from a folder.
"""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

from torch import nn

from calibrant.errors import InputError
from calibrant.extras import require
from calibrant.tasks import encoders
from calibrant.tasks.encoders.finding import OWN_TYPE, load_own_tokenizer
from calibrant.tasks.encoders.fine_tuned import with_merged
from calibrant.tasks.encoders.foreign_models import loading, quiet, trusted
from calibrant.tasks.encoders.heads import head_name

__all__ = ["load_model", "write_model"]

_MODULE = "modeling_encoder_with_head"


def write_model(
    model: Any,
    tokenizer: Any,
    folder: Path,
    *,
    width: int,
    depth: int,
    activation: str,
    unit: str = "token",
) -> None:
    """Write config, weights (safetensors) and tokenizer; ``model`` stays as it is.

    ``model`` is a classifier of tokens or of sequences (``unit``) whose head is a stack of
    ``depth`` hidden layers and a linear one (:mod:`~calibrant.tasks.encoders.heads`), or
    with depth 0 the encoder's own.
    """
    name = head_name(model)
    layers = getattr(model, name)
    if depth == 0 and not isinstance(layers, nn.Sequential):
        whole: Any = model
    elif depth == 0:
        linear = next(layer for layer in layers.modules() if isinstance(layer, nn.Linear))
        plain = copy.copy(model)  # Shares all but the table of its children.
        plain._modules = {**model._modules, name: linear}
        whole = plain
    else:
        dropout = next(layer.p for layer in layers if isinstance(layer, nn.Dropout))
        head = {"width": width, "depth": depth, "activation": activation, "dropout": dropout}
        whole = _with_code(model, head, unit)
        code = Path(encoders.__path__[0]) / f"{_MODULE}.py"
        shutil.copyfile(code, folder / f"{_MODULE}.py")
    with quiet():
        whole.save_pretrained(str(folder))
        tokenizer.save_pretrained(str(folder))


def load_model(folder: Path, unit: str = "token") -> tuple[Any, Any]:
    """Load the model, in evaluation mode, and its tokenizer; code in the folder needs trust."""
    transformers = require("transformers", "transformers", "A trained model")
    with loading(f"{folder} is not a model that can be loaded"):
        config = json.loads((folder / "config.json").read_text())
        kind = getattr(transformers, f"AutoModelFor{unit.capitalize()}Classification")
        if config["model_type"] == OWN_TYPE:
            from calibrant.tasks.encoders.modeling_encoder_with_head import KINDS

            kind = KINDS[unit]
        model, found = kind.from_pretrained(
            str(folder), trust_remote_code=trusted(), output_loading_info=True
        )
        tokenizer = load_own_tokenizer(folder)
        _check_pieces(folder, model, tokenizer)
        if tokenizer.pad_token_id is None:
            raise InputError(f"{folder} is not a model that can be loaded: it has no token to pad.")
        for fault, keys in (("lacks", "missing_keys"), ("has no place for", "unexpected_keys")):
            if found[keys]:  # transformers draws them at random, or leaves them out.
                first = sorted(found[keys])[0]
                raise InputError(f"{folder} is not a model that can be loaded: it {fault} {first}.")
    return with_merged(model).eval(), tokenizer


def _with_code(model: Any, head: dict[str, Any], unit: str) -> Any:
    from calibrant.tasks.encoders.modeling_encoder_with_head import KINDS, EncoderWithHeadConfig

    kind = KINDS[unit]

    config = EncoderWithHeadConfig(
        # Without what saving adds: a resumed run may never have been saved.
        encoder={**model.config.to_dict(), "architectures": None, "dtype": None},
        head=head,
        id2label=model.config.id2label,
        label2id=model.config.label2id,
        pad_token_id=model.config.pad_token_id,
        auto_map={
            "AutoConfig": f"{_MODULE}.EncoderWithHeadConfig",
            f"AutoModelFor{unit.capitalize()}Classification": f"{_MODULE}.{kind.__name__}",
        },
    )
    whole: Any = kind(config)
    whole.model = model
    return whole


def _check_pieces(folder: Path, model: Any, tokenizer: Any) -> None:
    """Check that every piece of a text has a vector; pieces that were only added may lack one."""
    added = tokenizer.get_added_vocab()
    pieces = {number for piece, number in tokenizer.get_vocab().items() if piece not in added}
    special = (getattr(tokenizer, f"{name}_token_id") for name in ("cls", "sep", "unk", "pad"))
    most = max(pieces | {number for number in special if number is not None}, default=0)
    if most >= len(model.get_input_embeddings().weight):
        raise InputError(
            f"{folder} is not a model that can be loaded: piece {most} of its tokenizer is not in "
            "the model."
        )
