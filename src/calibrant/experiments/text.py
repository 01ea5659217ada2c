"""Text classification as a task to be trained."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from calibrant.corruptions import TEXT, corrupt_text, known_corruption
from calibrant.experiments.fingerprint import data_state, fingerprint
from calibrant.experiments.ner_data import TINY, build_method, check_encoder
from calibrant.experiments.recipe import Recipe
from calibrant.prediction.model_folder import write_model
from calibrant.predictions import IGNORED, Predictions
from calibrant.tasks.encoders.finding import find_encoder, load_tokenizer
from calibrant.tasks.encoders.sequence_classifier import with_sequence_head
from calibrant.tasks.encoders.small_encoder import build_small_encoder, build_small_tokenizer
from calibrant.tasks.encoders.token_classifier import load_encoder
from calibrant.tasks.language.words import split_words
from calibrant.tasks.reading.splits import carve
from calibrant.tasks.text.corpus import TextCorpus, find_texts, load_texts
from calibrant.tasks.text.encoded_texts import EncodedTexts, encode_texts
from calibrant.training.class_logits import text_logits
from calibrant.training.windows import Windows

__all__ = ["PreparedTexts", "Text"]

_SEED = 0  # Of corruptions and of the held-out part: the same in every run.


@dataclass(frozen=True, eq=False)
class PreparedTexts:
    """A corpus of texts in word pieces.

    ``held`` is taken from the training part where a method needs it; ``ood`` may hold texts of no
    class, with the label −100.
    """

    corpus: TextCorpus
    tokenizer: Any
    train: EncodedTexts
    dev: EncodedTexts
    test: EncodedTexts
    held: EncodedTexts | None = None
    ood: EncodedTexts | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def name(self) -> str:
        """Of the corpus."""
        return self.corpus.name

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes."""
        return self.corpus.labels

    @property
    def padding(self) -> int:
        """The id that fills a row."""
        return int(self.tokenizer.pad_token_id)

    @property
    def parts(self) -> dict[str, EncodedTexts]:
        """What is predicted; an out-of-domain part only if some of it has classes."""
        found = {"valid": self.dev, "test": self.test}
        if self.ood is not None and (self.ood.labels != IGNORED).any():
            found["ood"] = self.ood
        return found

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of all pieces and labels: the same for the same data and tokenizer."""
        return fingerprint(self.labels, (self.train, self.dev, self.test, self.held, self.ood))

    def windows(self, device: str) -> tuple[Windows, Windows | None]:
        """The training part, and the held-out one, on a device."""
        return _windows(self, device)

    def predict(self, model: nn.Module, part: EncodedTexts) -> Predictions:
        """One row per text that has a class."""
        logits = text_logits(model, part, self.padding)
        return Predictions.from_logits(logits, part.labels, label_names=self.labels)

    def outside(self, model: nn.Module) -> np.ndarray | None:
        """The logits of the out-of-domain texts of no class."""
        if self.ood is None or not (self.ood.labels == IGNORED).any():
            return None
        found: np.ndarray = text_logits(model, self.ood, self.padding)[self.ood.labels == IGNORED]
        return found


class Text:
    """A sequence classifier of transformers on a corpus of texts."""

    def check(self, recipe: Recipe, directory: str | None = None) -> None:
        """Corpus, encoder and corruptions are there, as far as names tell."""
        find_texts(recipe.data, directory)
        if recipe.model != TINY:
            find_encoder(recipe.model)
        for name in recipe.shift:
            known_corruption(name, TEXT, of="texts")

    def prepare(self, recipe: Recipe, directory: str | None = None) -> PreparedTexts:
        """Load the corpus of a recipe and cut it into the pieces of its encoder."""
        held = build_method(recipe).needs_holdout
        state = data_state(recipe.data, "text", directory)
        return _prepare(recipe.data, recipe.model, recipe.max_length, directory, held, state)

    def build_model(self, recipe: Recipe, data: PreparedTexts) -> nn.Module:
        """A fresh copy of the encoder with a head whose weights come from the recipe's seed."""
        model: Any
        if recipe.model == TINY:
            model = build_small_encoder(data.tokenizer, data.labels, recipe.seed, unit="sequence")
        else:
            model = copy.deepcopy(_encoder(recipe.model, data.labels))
            model.config.pad_token_id = data.padding  # Decoders look for the last other piece.
            check_encoder(model, recipe)
        head = {"width": recipe.head_width, "activation": recipe.head_activation}
        classes = len(data.labels)
        return with_sequence_head(model, classes, recipe.seed, depth=recipe.head_depth, **head)

    def write_model(self, recipe: Recipe, data: PreparedTexts, model: Any, folder: Path) -> None:
        """See :func:`~calibrant.prediction.model_folder.write_model`."""
        write_model(
            model,
            data.tokenizer,
            folder,
            width=recipe.head_width,
            depth=recipe.head_depth,
            activation=recipe.head_activation,
            unit="sequence",
        )

    def shifted(
        self,
        recipe: Recipe,
        data: PreparedTexts,
        directory: str | None,  # noqa: ARG002
    ) -> Mapping[str, EncodedTexts]:
        """The test split corrupted: ``typos-3`` and so on, the same in every run."""
        return {name: _corrupted(name, data, recipe.max_length) for name in recipe.shift}


@functools.lru_cache(maxsize=16)
def _prepare(
    name: str,
    encoder: str,
    max_length: int,
    directory: str | None,
    held: bool,
    state: str,  # noqa: ARG001 – of the files: data that has changed is read again.
) -> PreparedTexts:
    corpus = load_texts(name, directory)
    train = corpus.texts["train"]
    if encoder == TINY:
        tokenizer = build_small_tokenizer(w.text for text in train for w in split_words(text))
    else:
        tokenizer = load_tokenizer(encoder)
    parts = {s: (list(corpus.texts[s]), list(corpus.classes[s])) for s in corpus.texts}
    if held:
        texts, classes = parts["train"]
        for split, rows in zip(
            ("train", "held"), carve(range(len(texts)), _SEED, name), strict=True
        ):
            parts[split] = [texts[i] for i in rows], [classes[i] for i in rows]
    encoded = {s: encode_texts(*part, tokenizer, max_length) for s, part in parts.items()}
    notes = [
        f"{part.shortened:,} texts of {split} shortened to {max_length} pieces."
        for split, part in encoded.items()
        if part.shortened
    ]
    return PreparedTexts(corpus, tokenizer, **encoded, notes=(*corpus.notes, *notes))


@functools.lru_cache(maxsize=16)
def _windows(data: PreparedTexts, device: str) -> tuple[Windows, Windows | None]:
    held = None if data.held is None else Windows(data.held, device, data.padding)
    return Windows(data.train, device, data.padding), held


@functools.lru_cache(maxsize=256)
def _corrupted(name: str, data: PreparedTexts, max_length: int) -> EncodedTexts:
    asked = known_corruption(name, TEXT, of="texts")
    texts = [
        corrupt_text(text, *asked, seed=_SEED, number=number)
        for number, text in enumerate(data.corpus.texts["test"])
    ]
    return encode_texts(texts, data.corpus.classes["test"], data.tokenizer, max_length)


@functools.lru_cache(maxsize=4)
def _encoder(name: str, labels: tuple[str, ...]) -> nn.Module:
    # Some encoders have layers between their features and the head that no weights came with.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEED)
        return load_encoder(find_encoder(name), labels, unit="sequence")
