"""A corpus of texts in word pieces, and the texts that a finished run is evaluated on."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from calibrant.corruptions import TEXT, corrupt_text, known_corruption
from calibrant.methods import create
from calibrant.predictions import IGNORED, Predictions
from calibrant.tasks.encoders.encoded_data import EncodedData, tokenizer_of
from calibrant.tasks.encoders.fine_tuned import FineTuned
from calibrant.tasks.encoders.heads import with_sequence_head
from calibrant.tasks.encoders.model_folder import load_model
from calibrant.tasks.encoders.small_encoder import MAX_LENGTH, TINY
from calibrant.tasks.feature_signals import with_saved_signals
from calibrant.tasks.label_matching import match_classes, renumbered
from calibrant.tasks.language.words import split_words
from calibrant.tasks.reading.class_labels import known_classes, some_examples
from calibrant.tasks.reading.fingerprint import data_state
from calibrant.tasks.reading.splits import carve
from calibrant.tasks.run_files import check_labels
from calibrant.tasks.task import EvaluationTarget, LabelledExamples
from calibrant.tasks.text.corpus import TextCorpus, load_test_texts, load_texts
from calibrant.tasks.text.encoded_texts import EncodedTexts, encode_texts, text_scores

if TYPE_CHECKING:
    from calibrant.experiments.recipe import Recipe

__all__ = ["LabelledTexts", "TextData", "encode_corpus", "prepare", "shifted_tests", "wrap_corpus"]

_SEED = 0  # For corruptions and the held-out part: the same in every run.
_COPY_SEED = 1  # Of the copies that calibrators learn from: not that of shifted tests.


class TextData(EncodedData[EncodedTexts]):
    """A corpus of texts in word pieces; ``ood`` may hold texts of no class, with the label −100."""

    corpus: TextCorpus

    def build_model(self, seed: int = 0, depth: int = 0, **head: Any) -> nn.Module:
        """Build the encoder with a fresh head for whole texts.

        Without pretrained weights, all weights come from the seed.
        """
        model = self.encoder(seed, "sequence")
        model.config.pad_token_id = self.padding  # Decoders look for the last other piece.
        return with_sequence_head(model, len(self.labels), seed, depth=depth, **head)

    def predict(self, model: nn.Module, part: EncodedTexts) -> Predictions:
        """Predict one row per text that has a class."""
        found = text_scores(model, part, self.padding)
        return Predictions.from_logits(
            found.logits, part.labels, label_names=self.labels, signals=found.signals
        )

    def outside(self, model: nn.Module) -> Predictions | None:
        """Return predictions of the out-of-domain texts of no class; their labels mean nothing."""
        ood = self.splits.get("ood")
        if ood is None or not (ood.labels == IGNORED).any():
            return None
        some = np.where(ood.labels == IGNORED, 0, IGNORED)
        return self.predict(model, replace(ood, labels=some))

    def copies(self, names: Sequence[str]) -> Iterator[tuple[str, EncodedTexts]]:
        """Yield the validation split with each corruption, one at a time."""
        for name in names:
            yield name, _corrupted(name, self, "dev", _COPY_SEED)


def encode_corpus(
    corpus: TextCorpus,
    model: str | None = None,
    max_length: int = MAX_LENGTH,
    held: bool = False,
    own: FineTuned | None = None,
) -> TextData:
    """Cut a corpus into the pieces of an encoder; without ``model``, of the small one.

    With ``held``, a tenth of the training split is held out. A classifier that is fine-tuned
    (``own``) brings its tokenizer and needs no training split.
    """
    model = model or TINY
    words = (word.text for text in corpus.texts["train"] for word in split_words(text))
    tokenizer = own.reader if own else tokenizer_of(model, words)
    splits = (split for split in corpus.texts if not own or split != "train")
    parts = {s: (list(corpus.texts[s]), list(corpus.classes[s])) for s in splits}
    if held:
        texts, classes = parts["train"]
        both = carve(range(len(texts)), _SEED, corpus.name)
        for split, rows in zip(("train", "held"), both, strict=True):
            parts[split] = [texts[i] for i in rows], [classes[i] for i in rows]
    encoded = {s: encode_texts(*part, tokenizer, max_length) for s, part in parts.items()}
    notes = (*corpus.notes, *_shortened(encoded, max_length))
    whole = own and own.model
    return TextData(corpus, model, max_length, tokenizer, encoded, notes, whole)


def _shortened(encoded: Mapping[str, EncodedTexts], max_length: int) -> list[str]:
    return [
        f"{part.shortened:,} texts of {split} shortened to {max_length} pieces."
        for split, part in encoded.items()
        if part.shortened
    ]


def prepare(recipe: Recipe, directory: str | None = None) -> TextData:
    """Load the corpus of a recipe and cut it into the pieces of its encoder."""
    if recipe.wrapped:
        corpus = load_texts(recipe.data, directory, trained=True)
        return wrap_corpus(corpus, FineTuned.load(recipe.model, "sequence"), recipe)
    held = create(recipe.method, **recipe.method_options).needs_holdout
    state = data_state(recipe.data, "text", directory)
    return _prepare(recipe.data, recipe.model, recipe.max_length, directory, held, state)


def wrap_corpus(corpus: TextCorpus, own: FineTuned, recipe: Recipe) -> TextData:
    """Cut a corpus into the pieces of a fine-tuned classifier, with its classes."""
    names = match_classes(own.classes, corpus.labels, recipe.labels)
    labels = tuple(dict.fromkeys(names))
    classes = renumbered(corpus.classes, corpus.labels, labels)
    corpus = replace(corpus, classes=classes, labels=labels)
    return encode_corpus(corpus, recipe.model, recipe.max_length, own=own.named(names))


@functools.lru_cache(maxsize=16)
def _prepare(
    name: str,
    encoder: str,
    max_length: int,
    directory: str | None,
    held: bool,
    state: str,  # noqa: ARG001 – of the files: data that has changed is read again.
) -> TextData:
    return encode_corpus(load_texts(name, directory), encoder, max_length, held)


def shifted_tests(names: Sequence[str], data: TextData) -> dict[str, EncodedTexts]:
    """Return the test split corrupted: ``typos-3`` and so on, the same in every run."""
    return {name: _corrupted(name, data, "test", _SEED) for name in names}


@functools.lru_cache(maxsize=256)
def _corrupted(name: str, data: TextData, split: str, seed: int) -> EncodedTexts:
    requested = known_corruption(name, TEXT, of="texts")
    texts = [
        corrupt_text(text, *requested, seed=seed, number=number)
        for number, text in enumerate(data.corpus.texts[split])
    ]
    return encode_texts(texts, data.corpus.classes[split], data.tokenizer, data.max_length)


class LabelledTexts(LabelledExamples):
    """Texts with one class each."""

    def __init__(self, target: EvaluationTarget) -> None:
        model, self.tokenizer = load_model(target.run.model, unit="sequence")
        self.labels, self.max_length = target.run.labels(), target.recipe.max_length
        check_labels(target.run.path, self.labels, model)
        self.model = with_saved_signals(model, target.run.path).to(target.device)
        data = target.data
        found = some_examples(load_test_texts(data, target.directory, whole=not target.own), data)
        self.texts = [text for text, _ in found]
        self.classes = known_classes([label for _, label in found], self.labels, data)

    def predict(self, corruption: tuple[str, int] | None, seed: int) -> Predictions:
        """Predict one row per text."""
        texts = self.texts
        if corruption is not None:
            texts = [
                corrupt_text(text, *corruption, seed=seed, number=number)
                for number, text in enumerate(texts)
            ]
        encoded = encode_texts(texts, self.classes, self.tokenizer, self.max_length)
        found = text_scores(self.model, encoded, int(self.tokenizer.pad_token_id))
        return Predictions.from_logits(
            found.logits, self.classes, label_names=self.labels, signals=found.signals
        )
