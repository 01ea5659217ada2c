"""Load and write fine-tuned classifiers of transformers with their own head and classes."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from calibrant.errors import InputError
from calibrant.extras import require
from calibrant.tasks.encoders.finding import (
    OWN_TYPE,
    check_place,
    find_encoder,
    is_own_model,
    load_tokenizer,
    with_padding,
)
from calibrant.tasks.encoders.foreign_models import loading, quiet, trusted
from calibrant.tasks.reading.hub import asking_the_hub

__all__ = [
    "FineTuned", "check_classifier", "class_names", "load_fine_tuned", "longest_input",
    "most_pieces", "with_classes", "with_merged", "write_fine_tuned",
]  # fmt: skip

# In the config: the class of the run that each output belongs to; of one output, both classes.
_MERGED = "calibrant_labels"
_TASKS = {"token": "ner", "sequence": "text", "image": "image"}
_LONGEST = 512  # Pieces; longer sentences become windows, longer texts are cut.
# RoBERTa and its relatives count positions from the id of the padding.
_COUNTS_FROM_PADDING = (
    "camembert", "data2vec-text", "ibert", "longformer", "mpnet", "roberta",
    "roberta-prelayernorm", "xlm-roberta", "xlm-roberta-xl", "xmod",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class FineTuned:
    """A fine-tuned classifier and its ``reader``: a tokenizer or an image processor."""

    model: Any
    reader: Any

    @classmethod
    def load(cls, name: str, unit: str) -> FineTuned:
        """Load a classifier of ``unit`` ("token" or "sequence") and its tokenizer."""
        model = load_fine_tuned(name, unit)
        return cls.of(model, load_tokenizer(name, words=unit == "token"))

    @classmethod
    def of(cls, model: Any, tokenizer: Any) -> FineTuned:
        """Take a classifier of tokens or texts and its fast tokenizer."""
        if not getattr(tokenizer, "is_fast", False):
            raise InputError(
                f"A fast tokenizer is needed to find words, got {type(tokenizer).__name__}."
            )
        tokenizer = with_padding(tokenizer, type(model).__name__)
        model.config.pad_token_id = (
            tokenizer.pad_token_id
        )  # Decoders read the last piece that is not padding.
        return cls(model, tokenizer)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the model's classes."""
        return class_names(self.model)

    def named(self, names: Sequence[str]) -> FineTuned:
        """Return the classifier with other names of its classes."""
        return replace(self, model=with_classes(self.model, names))


def load_fine_tuned(name: str, unit: str) -> Any:
    """Load a classifier of ``unit`` ("token", "sequence", "image") from a folder or the hub."""
    transformers = require("transformers", "transformers", "A fine-tuned model")
    import torch

    where = find_encoder(name)
    check_place(f"the model '{name}'", where)
    kind: Any = getattr(transformers, f"AutoModelFor{unit.capitalize()}Classification")
    if is_own_model(where):
        from calibrant.tasks.encoders.modeling_encoder_with_head import KINDS

        kind = KINDS[unit]
    with loading(f"Cannot load the model '{name}'", _hint(where)), asking_the_hub(where):
        options = _options_of_timm(where, unit)
        model, found = kind.from_pretrained(
            where,
            trust_remote_code=trusted(),
            dtype=torch.float32,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # Its own error names no weight.
            **options,
        )
    check_classifier(model, unit, name)
    _check_shapes(found["mismatched_keys"], name)
    lacking = sorted(found["missing_keys"])
    if lacking:
        raise InputError(
            f"'{name}' is not a fine-tuned classifier: its weights have no {lacking[0]}. "
            f"'calibrant train --model {name}' trains one."
        )
    return with_merged(model).eval()


def _check_shapes(mismatched: Collection[tuple[Any, ...]], name: str) -> None:
    """Refuse weights of other shapes than the config says, which would be drawn at random."""
    for weight, found, expected in sorted(mismatched):
        raise InputError(
            f"The weights of '{name}' do not fit its config.json: {weight} has the shape "
            f"{tuple(found)}, and {tuple(expected)} was expected. Save both from the same model."
        )


def _options_of_timm(where: str, unit: str) -> dict[str, Any]:
    """Return the config of a model of timm, as an option, where transformers cannot use it.

    timm 1.0.31 also saves the number of classes among ``model_args``, and transformers 5.22 then
    gives it to ``timm.create_model`` twice.
    """
    transformers = require("transformers", "transformers", "A fine-tuned model")
    if unit != "image":
        return {}
    settings, _ = transformers.PretrainedConfig.get_config_dict(where)
    if "num_classes" not in (settings.get("model_args") or {}):
        return {}
    config = transformers.AutoConfig.from_pretrained(where, trust_remote_code=trusted())
    config.model_args = {k: v for k, v in config.model_args.items() if k != "num_classes"}
    return {"config": config}


def check_classifier(model: Any, unit: str, name: str) -> None:
    """Refuse a model of another task, or one that does not choose between classes."""
    made = next(iter(getattr(model.config, "architectures", None) or ()), type(model).__name__)
    other = re.search(r"For(Token|Sequence|Image)Classification$", str(made))
    if other is not None and other[1].lower() != unit:
        raise InputError(
            f"'{name}' is a {made}, which is a model of task '{_TASKS[other[1].lower()]}', not "
            f"'{_TASKS[unit]}': give --task {_TASKS[other[1].lower()]}."
        )
    kind, outputs = getattr(model.config, "problem_type", None), len(class_names(model))
    if kind == "regression":
        raise InputError(
            f"'{name}' predicts numbers (its problem_type is regression), which have no "
            "confidence; a classifier is needed. If its one output is the logit of a class, say so "
            'in its config: "problem_type": "multi_label_classification".'
        )
    if outputs == 1 and unit == "token":
        raise InputError(
            f"'{name}' has one output for each token; a tagger has one for each tag, O included."
        )
    if kind == "multi_label_classification" and outputs > 1:
        raise InputError(
            f"'{name}' does not choose one of several classes: its problem_type is {kind}, and it "
            f"has {outputs} outputs. Write the sigmoids of its outputs and the labels to a table: "
            "'calibrant audit', 'compare' and 'fit' take it with --kind multi-label."
        )


def class_names(model: Any) -> tuple[str, ...]:
    """Return the names of a model's classes; without names they are LABEL_0 and so on."""
    return tuple(str(name) for _, name in sorted(model.config.id2label.items()))


def with_classes(model: Any, names: Sequence[str]) -> Any:
    """Return the model with these names of its classes; outputs of the same name are merged.

    A model with one output takes the names of the negative and the positive class.
    """
    from calibrant.tasks.encoders.merged_classes import MergedClasses, OneOutput

    if isinstance(model, OneOutput) or len(class_names(model)) == 1:
        inner = model.model if isinstance(model, OneOutput) else model
        return OneOutput(inner, names)
    if isinstance(model, MergedClasses):
        renamed = dict(zip(model.labels, names, strict=True))
        return MergedClasses(model.model, [renamed[name] for name in model.names])
    if len(set(names)) < len(names):
        return MergedClasses(model, names)
    numbers = dict(enumerate(names))
    model.config.id2label = numbers
    model.config.label2id = {name: number for number, name in numbers.items()}
    return model


def with_merged(model: Any) -> Any:
    """Return a loaded model, with the classes of the run if they are not its outputs."""
    names = getattr(model.config, _MERGED, None)
    return model if names is None else with_classes(model, names)


def write_fine_tuned(model: Any, others: Any, folder: Path) -> None:
    """Write a model, its classes, and ``others``: its tokenizer or image processor, if any."""
    from calibrant.tasks.encoders.merged_classes import MergedClasses, OneOutput

    whole = model
    if isinstance(model, (MergedClasses, OneOutput)):
        whole = model.model
        setattr(whole.config, _MERGED, list(model.names))
    with quiet():
        whole.save_pretrained(str(folder))
        if others is not None:
            others.save_pretrained(str(folder))


def longest_input(name: str) -> int:
    """Return how many pieces a model accepts, at most 512; reads only its config."""
    transformers = require("transformers", "transformers", "A fine-tuned model")
    where = find_encoder(name)
    check_place(f"the model '{name}'", where)
    with loading(f"Cannot load the model '{name}'", _hint(where)), asking_the_hub(where):
        if is_own_model(where):
            config = transformers.PretrainedConfig.from_pretrained(where, trust_remote_code=False)
        else:
            config = transformers.AutoConfig.from_pretrained(where, trust_remote_code=trusted())
    return min(most_pieces(config) or _LONGEST, _LONGEST)


def most_pieces(config: Any) -> int:
    """Return how many pieces a model of this config accepts; 0: any number."""
    inner = getattr(config, "encoder", None)
    if getattr(config, "model_type", None) == OWN_TYPE and isinstance(inner, dict):
        from types import SimpleNamespace

        config = SimpleNamespace(**inner)
    places = getattr(config, "max_position_embeddings", None) or 0
    if places > 0 and config.model_type in _COUNTS_FROM_PADDING:
        places -= (config.pad_token_id or 0) + 1
    return max(places, 0)


def _hint(where: str) -> str:
    return "" if Path(where).is_dir() else "Name a folder, or owner/name on the hub."
