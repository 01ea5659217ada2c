"""One cell of a grid: recipes that differ in nothing but the seed share data, shapes and graphs."""

from __future__ import annotations

import copy
import functools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from calibrant.experiments.recipe import Recipe
from calibrant.extras import require
from calibrant.methods import create
from calibrant.predictions import Predictions
from calibrant.tasks.encoders import find_encoder
from calibrant.tasks.ner import NerCorpus, load_corpus
from calibrant.tasks.pieces import Pieces, encode
from calibrant.tasks.token_classifier import load_encoder, with_head
from calibrant.training.loop import Loop, Schedule, Windows
from calibrant.training.prediction import predict_words

__all__ = ["Outcome", "run_cell"]


@dataclass(frozen=True)
class Outcome:
    """What a trained model predicts, and how the training went."""

    recipe: Recipe
    valid: Predictions
    test: Predictions
    training: dict[str, Any]


@dataclass(frozen=True, eq=False)
class _Prepared:
    corpus: NerCorpus
    train: Windows
    dev: Pieces
    test: Pieces
    padding: int


def run_cell(
    recipes: Sequence[Recipe], directory: str | None, device: str
) -> Iterator[Outcome | None]:
    """Train one recipe after the other; yields None after each queued step, then the outcome.

    The caller takes turns between cells, so their streams share the device.
    """
    first = recipes[0]
    data = _prepare(first.data, first.model, first.max_length, directory, device)
    model = _model(first, data.corpus.labels)
    loop = Loop(
        model,
        create(first.method, **first.method_options),
        data.train,
        Schedule(
            epochs=first.epochs,
            batch=first.batch,
            learning_rate=first.learning_rate,
            weight_decay=first.weight_decay,
            warm_up=first.warm_up,
            dtype=first.dtype,
        ),
        seed=first.seed,
    )
    for number, recipe in enumerate(recipes):
        began = time.perf_counter()
        if number:
            loop.restart(_model(recipe, data.corpus.labels).state_dict(), recipe.seed)
        for _ in loop.steps():
            yield None
        while not loop.finished():
            yield None
        seconds = time.perf_counter() - began
        model.eval()
        with loop.on_stream():
            valid = predict_words(model, data.dev, data.corpus.labels, padding=data.padding)
            test = predict_words(model, data.test, data.corpus.labels, padding=data.padding)
        training = {
            "steps": len(loop),
            "seconds": round(seconds, 2),
            "mean_loss": float(loop.loss) / len(loop),
            "notes": list(data.corpus.notes),
        }
        yield Outcome(recipe, valid, test, training)
    loop.close()


@functools.lru_cache(maxsize=16)
def _prepare(
    name: str, encoder: str, max_length: int, directory: str | None, device: str
) -> _Prepared:
    transformers = require("transformers", "transformers", "Training on text")
    tokenizer = transformers.AutoTokenizer.from_pretrained(find_encoder(encoder))
    corpus = load_corpus(name, directory)
    train, dev, test = (
        encode(part, corpus.labels, tokenizer, max_length)
        for part in (corpus.train, corpus.dev, corpus.test)
    )
    padding = tokenizer.pad_token_id
    return _Prepared(corpus, Windows(train, device, padding), dev, test, padding)


@functools.lru_cache(maxsize=4)
def _encoder(name: str, labels: tuple[str, ...]) -> nn.Module:
    return load_encoder(find_encoder(name), labels)


def _model(recipe: Recipe, labels: tuple[str, ...]) -> nn.Module:
    """A fresh copy of the encoder with a head whose weights come from the recipe's seed."""
    model = copy.deepcopy(_encoder(recipe.model, labels))
    return with_head(
        model,
        len(labels),
        recipe.seed,
        width=recipe.head_width,
        depth=recipe.head_depth,
        activation=recipe.head_activation,
    )
