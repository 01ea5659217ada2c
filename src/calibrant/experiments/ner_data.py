"""What a recipe trains on: the corpus in word pieces, and a model with fresh weights."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from calibrant import methods
from calibrant.errors import InputError
from calibrant.experiments.fingerprint import data_state, disk_state, fingerprint
from calibrant.experiments.recipe import Recipe
from calibrant.methods import METHODS, create
from calibrant.methods.base import Method
from calibrant.predictions import Predictions
from calibrant.tasks.encoders.finding import find_encoder, load_tokenizer
from calibrant.tasks.encoders.small_encoder import build_small_encoder, build_small_tokenizer
from calibrant.tasks.encoders.token_classifier import load_encoder, with_head
from calibrant.tasks.language.sentences import Sentence
from calibrant.tasks.language.splitter_choice import Cutting
from calibrant.tasks.ner.corpus import NerCorpus, load_corpus
from calibrant.tasks.ner.subword_windows import Pieces, encode
from calibrant.tasks.reading.splits import carve
from calibrant.training.buckets import LENGTHS
from calibrant.training.prediction import predict_words
from calibrant.training.schedule import Schedule
from calibrant.training.windows import Windows

__all__ = [
    "TINY",
    "Prepared",
    "build_method",
    "build_model",
    "check_encoder",
    "prepare",
    "schedule_of",
]

TINY = "tiny"  # A small encoder from scratch, its vocabulary from the training text.
# RoBERTa and its kin count positions from the id of the padding on.
_COUNTS_FROM_PADDING = (
    "camembert", "data2vec-text", "ibert", "longformer", "mpnet", "roberta",
    "roberta-prelayernorm", "xlm-roberta", "xlm-roberta-xl", "xmod",
)  # fmt: skip
_SEED = 0  # Of the held-out part: the same in every run.


@dataclass(frozen=True, eq=False)
class Prepared:
    """A corpus in word pieces.

    ``held`` is taken from the training part where a method needs it; ``ood`` is the out-of-domain
    part of a corpus that has one.
    """

    corpus: NerCorpus
    tokenizer: Any
    train: Pieces
    dev: Pieces
    test: Pieces
    held: Pieces | None = None
    ood: Pieces | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """The tags, O first."""
        return self.corpus.labels

    @property
    def padding(self) -> int:
        """The id that fills a window."""
        return int(self.tokenizer.pad_token_id)

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of all pieces and labels: the same for the same data and tokenizer."""
        return fingerprint(self.labels, (self.train, self.dev, self.test, self.held, self.ood))

    @property
    def name(self) -> str:
        """Of the corpus."""
        return self.corpus.name

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done to the corpus."""
        return tuple(self.corpus.notes)

    @property
    def parts(self) -> dict[str, Pieces]:
        """What is predicted."""
        found = {"valid": self.dev, "test": self.test, "ood": self.ood}
        return {name: part for name, part in found.items() if part is not None}

    def windows(self, device: str) -> tuple[Windows, Windows | None]:
        """The training part, and the held-out one, on a device."""
        return _windows(self, device)

    def predict(self, model: nn.Module, part: Pieces) -> Predictions:
        """One row per word."""
        return predict_words(model, part, self.labels, padding=self.padding)

    @property
    def cutting(self) -> Cutting:
        """How raw text is cut as the corpus is."""
        return self.corpus.cutting

    def raw_pieces(self, max_length: int) -> dict[str, Pieces]:
        """The validation and test split as raw text; nothing where the corpus is such already."""
        if self.corpus.marked is not None:
            return {}
        parts = {"valid": self.corpus.dev, "test": self.corpus.test}
        return {
            name: encode(self.corpus.as_raw_text(part), self.labels, self.tokenizer, max_length)
            for name, part in parts.items()
        }

    def outside(self, model: nn.Module) -> None:
        """Every word has a tag."""


def prepare(recipe: Recipe, directory: str | None = None) -> Prepared:
    """Load the corpus of a recipe and cut it into the pieces of its encoder."""
    held = build_method(recipe).needs_holdout
    files = tuple(recipe.files.items())
    named = disk_state(*recipe.files.values())
    state = named if files else data_state(recipe.data, "ner", directory)
    corpus = _corpus(recipe.data, directory, files, recipe.unseen_types, state)
    return _prepare(corpus, recipe.model, recipe.max_length, held)


def build_method(recipe: Recipe) -> Method:
    """The recipe's method; an option that it does not take is an error that says so."""
    try:
        return create(recipe.method, **recipe.method_options)
    except TypeError as error:
        said = str(error).split("() ", 1)[-1]
        raise InputError(f"Method '{recipe.method}' {said}{_hint(recipe.method)}.") from None


def _hint(method: str) -> str:
    """The names that ``create`` takes besides that of the method, where they can be told."""
    factory = getattr(methods, METHODS[method].factory.partition(":")[2])
    options = inspect.signature(factory).parameters.values()
    if any(option.kind is option.VAR_KEYWORD for option in options):
        return ""  # Handed on to another.
    return f"; it takes {', '.join(option.name for option in options)}"


def build_model(recipe: Recipe, data: Prepared) -> nn.Module:
    """A fresh copy of the encoder with a head whose weights come from the recipe's seed."""
    if recipe.model == TINY:
        model = build_small_encoder(data.tokenizer, data.labels, recipe.seed)
    else:
        model = copy.deepcopy(_encoder(recipe.model, data.labels))
        check_encoder(model, recipe)
    return with_head(
        model,
        len(data.labels),
        recipe.seed,
        width=recipe.head_width,
        depth=recipe.head_depth,
        activation=recipe.head_activation,
    )


def check_encoder(model: Any, recipe: Recipe) -> None:
    """Raise an error for an encoder that cannot be trained, or not be loaded again, so."""
    config, max_length = model.config, recipe.max_length
    if recipe.head_depth and type(model).__module__.startswith("transformers_modules"):
        raise InputError(
            f"{type(model).__name__} comes with code of its own, and takes --head-depth 0: with "
            "hidden layers it could not be loaded again."
        )
    places = getattr(config, "max_position_embeddings", None) or -1
    if places > 0 and config.model_type in _COUNTS_FROM_PADDING:
        places -= (config.pad_token_id or 0) + 1
    if 0 < places < max_length:
        fits = [length for length in LENGTHS if length <= places]
        advice = f"give --max-length {fits[-1]}" if fits else "take another encoder"
        raise InputError(
            f"{type(model).__name__} takes at most {places} pieces at once, and max_length is "
            f"{max_length}: {advice}."
        )


def schedule_of(recipe: Recipe) -> Schedule:
    """The settings of a recipe that the lean loop takes."""
    return Schedule(
        epochs=recipe.epochs,
        batch=recipe.batch,
        learning_rate=recipe.learning_rate,
        weight_decay=recipe.weight_decay,
        warm_up=recipe.warm_up,
        dtype=recipe.dtype,
        accumulate=recipe.accumulate,
        optimizer_name=recipe.optimizer,
        momentum=recipe.momentum,
        decay=recipe.decay,
        clip=recipe.clip,
    )


@functools.lru_cache(maxsize=16)
def _corpus(
    name: str,
    directory: str | None,
    files: tuple[tuple[str, str], ...],
    unseen: str,
    state: str,  # noqa: ARG001 – of the files: data that has changed is read again.
) -> NerCorpus:
    return load_corpus(name, directory, files=dict(files), unseen=unseen)


@functools.lru_cache(maxsize=16)
def _prepare(corpus: NerCorpus, encoder: str, max_length: int, held: bool) -> Prepared:
    tokenizer = _tokenizer(encoder, corpus)
    parts: dict[str, Sequence[Sentence]] = {
        split: getattr(corpus, split) for split in ("train", "dev", "test", "ood")
    }
    if held:
        parts["train"], taken = carve(corpus.train, _SEED, corpus.name)
        # All held-out batches are padded to one length, which the few longest would set.
        longest = np.quantile([len(sentence) for sentence in taken], 0.95)
        parts["held"] = [sentence for sentence in taken if len(sentence) <= longest]
    _check_entities(parts["train"], corpus.name)
    pieces = {
        split: encode(sentences, corpus.labels, tokenizer, max_length)
        for split, sentences in parts.items()
        if sentences
    }
    return Prepared(corpus, tokenizer, **pieces)


def _check_entities(train: Sequence[Sentence], where: str) -> None:
    """Raise an error unless there is something to learn."""
    if all(tag == "O" for sentence in train for tag in sentence.tags):
        words = sum(map(len, train))
        raise InputError(
            f"{where}: the training split has no entity, all of its {words:,} words have the tag "
            "O: there is nothing to learn."
        )


@functools.lru_cache(maxsize=16)
def _windows(data: Prepared, device: str) -> tuple[Windows, Windows | None]:
    held = None if data.held is None else Windows(data.held, device, data.padding)
    return Windows(data.train, device, data.padding), held


def _tokenizer(encoder: str, corpus: NerCorpus) -> Any:
    if encoder == TINY:
        return build_small_tokenizer(word for s in corpus.train for word in s.words)
    return load_tokenizer(encoder)


@functools.lru_cache(maxsize=4)
def _encoder(name: str, labels: tuple[str, ...]) -> nn.Module:
    return load_encoder(find_encoder(name), labels)
