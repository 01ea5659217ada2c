"""A corpus of tagged sentences in word pieces, and models for it.

Runs that are trained together keep only the word pieces that occur (:class:`TrimmedData`): the
other rows of an embedding table are never read, only decayed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from calibrant.corruptions import TEXT, known_corruption
from calibrant.errors import InputError
from calibrant.methods import create
from calibrant.predictions import IGNORED, Predictions
from calibrant.tasks.encoders.encoded_data import EncodedData, tokenizer_of
from calibrant.tasks.encoders.fine_tuned import FineTuned
from calibrant.tasks.encoders.heads import with_head
from calibrant.tasks.encoders.small_encoder import TINY
from calibrant.tasks.label_matching import in_tags_of, match_tags
from calibrant.tasks.language.sentences import Sentence
from calibrant.tasks.language.splitter_choice import Cutting
from calibrant.tasks.ner.corpora.corrupted_sentences import corrupt_sentences
from calibrant.tasks.ner.corpora.label_sets import without_tags
from calibrant.tasks.ner.corpus import NerCorpus, load_corpus
from calibrant.tasks.ner.subword_windows import Pieces, encode
from calibrant.tasks.ner.tagging_scheme import IOB1_NOTE, begins_inside
from calibrant.tasks.ner.word_predictions import predict_runs, predict_words
from calibrant.tasks.reading.fingerprint import data_state, disk_state
from calibrant.tasks.reading.splits import carve
from calibrant.tasks.task import Task
from calibrant.training.windows import Windows

if TYPE_CHECKING:
    from calibrant.experiments.recipe import Recipe

__all__ = [
    "NerData",
    "TrimmedData",
    "encode_corpus",
    "occurring",
    "prepare",
    "renumber",
    "trim_embeddings",
    "wrap_corpus",
]

_SEED = 0  # For the held-out part: the same in every run.
_COPY_SEED = 1  # Of the copies that calibrators learn from: not that of shifted tests.
_SPECIAL = 8  # Ids below it belong to special pieces.
_PIECES = 1 << 18  # Word pieces of all runs together in one forward pass.


class NerData(EncodedData[Pieces]):
    """A corpus in word pieces; a label for the first piece of each word.

    >>> from calibrant.tasks import open_task
    >>> data = open_task("ner", tiny=True)
    >>> sorted(data.collate([data.load("train")[0]]))
    ['attention_mask', 'input_ids', 'labels']
    """

    corpus: NerCorpus

    @property
    def cutting(self) -> Cutting:
        """How raw text is cut as the corpus is."""
        return self.corpus.cutting

    def build_model(self, seed: int = 0, **head: Any) -> nn.Module:
        """Build the encoder with a fresh head (:mod:`~calibrant.tasks.encoders.heads`).

        Without pretrained weights, all weights come from the seed.
        """
        return with_head(self.encoder(seed, "token"), len(self.labels), seed, **head)

    def predict(self, model: nn.Module, part: Pieces) -> Predictions:
        """Predict one row per word."""
        return predict_words(model, part, self.labels, padding=self.padding)

    def outside(self, model: nn.Module) -> None:
        """Return None: every word has a tag."""

    def encode(self, sentences: Sequence[Sentence]) -> Pieces:
        """Encode other sentences as the corpus is."""
        known = [replace(s, tags=in_tags_of(self.labels, s.tags)) for s in sentences]
        return encode(known, self.labels, self.tokenizer, self.max_length)

    def copies(self, names: Sequence[str], *, raw: bool = False) -> Iterator[tuple[str, Pieces]]:
        """Yield the validation split, or its raw text, with each corruption, one at a time."""
        dev = self.corpus.as_raw_text(self.corpus.dev) if raw and names else self.corpus.dev
        for name in names:
            kind = known_corruption(name, TEXT, of="texts")
            yield name, self.encode(list(corrupt_sentences(dev, *kind, seed=_COPY_SEED)))

    def raw_pieces(self) -> dict[str, Pieces]:
        """Encode the validation and test split as raw text; nothing if the corpus is raw text."""
        if self.corpus.marked is not None:
            return {}
        parts = {"valid": self.corpus.dev, "test": self.corpus.test}
        return {name: self.encode(self.corpus.as_raw_text(part)) for name, part in parts.items()}


def encode_corpus(
    corpus: NerCorpus,
    model: str | None = None,
    max_length: int = 512,
    held: bool = False,
    own: FineTuned | None = None,
) -> NerData:
    """Cut a corpus into the pieces of an encoder; without ``model``, of the small one.

    With ``held``, a tenth of the training split is held out. A classifier that is fine-tuned
    (``own``) brings its tokenizer and needs no training split.
    """
    model = model or TINY
    words = (word for sentence in corpus.train for word in sentence.words)
    tokenizer = own.reader if own else tokenizer_of(model, words)
    splits = ("dev", "test", "ood") if own else ("train", "dev", "test", "ood")
    parts: dict[str, Sequence[Sentence]] = {split: getattr(corpus, split) for split in splits}
    if held:
        parts["train"], taken = carve(corpus.train, _SEED, corpus.name)
        # All held-out batches are padded to one length, which the few longest would set.
        longest = np.quantile([len(sentence) for sentence in taken], 0.95)
        parts["held"] = [sentence for sentence in taken if len(sentence) <= longest]
    pieces = {
        split: encode(sentences, corpus.labels, tokenizer, max_length)
        for split, sentences in parts.items()
        if sentences
    }
    whole = own and own.model
    return NerData(corpus, model, max_length, tokenizer, pieces, tuple(corpus.notes), whole)


def prepare(recipe: Recipe, directory: str | None = None) -> NerData:
    """Load the corpus of a recipe and cut it into the pieces of its encoder."""
    if recipe.wrapped:
        corpus = load_corpus(recipe.data, directory, files=recipe.files, trained=True)
        return wrap_corpus(corpus, FineTuned.load(recipe.model, "token"), recipe)
    held = create(recipe.method, **recipe.method_options).needs_holdout
    files = tuple(recipe.files.items())
    named = disk_state(*recipe.files.values())
    state = named if files else data_state(recipe.data, "ner", directory)
    corpus = _corpus(recipe.data, directory, files, recipe.unseen_types, state)
    return _encoded(corpus, recipe.model, recipe.max_length, held)


def wrap_corpus(corpus: NerCorpus, own: FineTuned, recipe: Recipe) -> NerData:
    """Cut a corpus into the pieces of a fine-tuned tagger, with tags that both have."""
    drop, join = recipe.unseen_types == "drop", recipe.scheme == "io"
    given = (own.classes, corpus.labels, recipe.labels)
    names, notes = match_tags(*given, drop=drop, join=join), list(corpus.notes)
    if recipe.scheme == "auto" and begins_inside(own, names, corpus.dev, recipe.max_length):
        names = match_tags(*given, drop=drop, join=True)
        notes.append(IOB1_NOTE)
    labels = tuple(dict.fromkeys(names))
    more = {tag for tag in corpus.labels if tag != "O" and tag[2:] not in {t[2:] for t in labels}}
    if more:
        kinds = ", ".join(sorted({tag[2:] for tag in more}))
        notes.append(f"Types that the model does not have became O: {kinds}.")
    parts: dict[str, Any] = {
        split: [
            replace(s, tags=in_tags_of(labels, s.tags))
            for s in (without_tags(sentence, more) for sentence in getattr(corpus, split))
        ]
        for split in ("train", "dev", "test", "ood")
    }
    corpus = replace(corpus, **parts, given=labels, notes=tuple(notes))
    return encode_corpus(corpus, recipe.model, recipe.max_length, own=own.named(names))


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
def _encoded(corpus: NerCorpus, model: str, max_length: int, held: bool) -> NerData:
    data = encode_corpus(corpus, model, max_length, held)
    labels = data.splits["train"].labels
    tagged = labels[labels != IGNORED]
    if (tagged == data.labels.index("O")).all():
        raise InputError(
            f"{corpus.name}: the training split has no entity, all of its {len(tagged):,} words "
            "have the tag O: there is nothing to learn."
        )
    return data


class TrimmedData:
    """Data whose ids count only the pieces that occur, for runs that are trained together."""

    def __init__(self, task: Task, recipe: Recipe, whole: NerData, directory: str | None) -> None:
        self.task, self.whole, self.notes = task, whole, whole.notes
        shifted = task.shifted(recipe, whole, directory)
        self.kept = occurring([*whole.splits.values(), *shifted.values()], whole.padding)
        self.padding = int(self.kept.searchsorted(whole.padding))
        self.splits, self.parts, self.shifted = (
            {name: renumber(part, self.kept) for name, part in parts.items()}
            for parts in (whole.splits, whole.parts, shifted)
        )

    def windows(self, device: str) -> tuple[Windows, Windows | None]:
        """Put the training part, and the held-out one, on a device."""
        held = self.splits.get("held")
        return (
            Windows(self.splits["train"], device, self.padding),
            None if held is None else Windows(held, device, self.padding),
        )

    def build_model(self, recipe: Recipe) -> nn.Module:
        """Build the model of one run, its embeddings trimmed."""
        return trim_embeddings(self.task.build_model(recipe, self.whole), self.kept)

    def predict(
        self, logits: Callable[..., Any], runs: int, device: torch.device, part: Pieces
    ) -> list[Predictions]:
        """Predict one row per word with each run; ``logits`` returns those of all."""
        return predict_runs(
            logits,
            device,
            part,
            self.whole.labels,
            padding=self.padding,
            pieces=_PIECES // runs,
        )


def occurring(parts: Sequence[Pieces], padding: int) -> np.ndarray:
    """Return the sorted ids of every piece in ``parts``, and of the padding.

    A padding among the first ids keeps its number, and so do those before it: relatives of RoBERTa
    count positions from there on.
    """
    first = np.arange(padding + 1) if padding < _SPECIAL else [padding]
    return np.unique(np.concatenate([first, *(part.ids for part in parts)]))


def renumber(part: Pieces, kept: np.ndarray) -> Pieces:
    """Replace each id by its place in ``kept``."""
    return replace(part, ids=np.searchsorted(kept, part.ids).astype(part.ids.dtype))


def trim_embeddings(model: nn.Module, kept: np.ndarray) -> nn.Module:
    """Leave the rows of ``kept`` in the model's table of word pieces; in place.

    Training is the same for all text of these pieces: no gradient reaches other rows, so
    neither the clipped norm nor a moment of AdamW changes. It moves less memory.
    """
    whole: Any = model.get_input_embeddings()  # type: ignore[operator]
    rows = whole.weight.detach()[torch.as_tensor(kept)]
    padding = whole.padding_idx
    place = None if padding is None else int(np.searchsorted(kept, padding))
    trimmed = nn.Embedding(len(rows), rows.shape[1], place, _weight=rows.clone())
    model.set_input_embeddings(trimmed)  # type: ignore[operator]
    return model
