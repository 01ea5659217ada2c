"""Named entity recognition as a task: a label for the first piece of each word."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from calibrant.tasks.encoders.collation import pad
from calibrant.tasks.encoders.finding import find_encoder, load_tokenizer
from calibrant.tasks.encoders.small_encoder import build_small_encoder, build_small_tokenizer
from calibrant.tasks.language.synthetic import generate_splits
from calibrant.tasks.ner.corpus import SYNTHETIC, NerCorpus, load_corpus
from calibrant.tasks.ner.subword_windows import Pieces, encode
from calibrant.tasks.reading.splits import part_of

__all__ = ["NerTask"]


class NerTask:
    """A corpus in word pieces. Without ``model``, an encoder from scratch learns it.

    >>> task = NerTask.tiny()
    >>> sorted(task.collate([task.load("train")[0]]))
    ['attention_mask', 'input_ids', 'labels']
    """

    embedded = SYNTHETIC

    def __init__(self, corpus: NerCorpus, model: str | None = None, max_length: int = 512) -> None:
        self.corpus, self.model, self.max_length = corpus, model, max_length
        self.name, self.labels, self.notes = corpus.name, corpus.labels, corpus.notes
        words = (word for sentence in corpus.train for word in sentence.words)
        self.tokenizer = load_tokenizer(model) if model else build_small_tokenizer(words)

    @classmethod
    def open(
        cls, data: str, directory: str | Path | None = None, seed: int = 0, **options: Any
    ) -> NerTask:
        """The task on a corpus that :func:`~calibrant.tasks.ner.corpus.load_corpus` finds."""
        return cls(load_corpus(data, directory, seed), **options)

    @classmethod
    def tiny(cls, seed: int = 0, **options: Any) -> NerTask:
        """The task on 60 + 20 + 20 + 20 sentences of the embedded corpus."""
        parts = generate_splits(seed, train=60, dev=20, test=20, ood=20)
        train, dev, test, ood = parts.values()
        return cls(NerCorpus(SYNTHETIC, train, dev, test, ood=ood), **options)

    def load(self, split: str) -> Pieces:
        """The windows of a split: train, dev, test or ood."""
        parts = {name: getattr(self.corpus, name) for name in ("train", "dev", "test", "ood")}
        return encode(part_of(parts, split), self.labels, self.tokenizer, self.max_length)

    def collate(self, examples: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Windows of one length."""
        return pad(examples, self.tokenizer.pad_token_id)

    def build_model(self, seed: int = 0, **head: Any) -> Any:
        """The encoder with a head (:mod:`~calibrant.tasks.encoders.token_classifier`)."""
        from calibrant.tasks.encoders.token_classifier import load_encoder, with_head

        if self.model is None:
            encoder = build_small_encoder(self.tokenizer, self.labels, seed)
        else:
            encoder = load_encoder(find_encoder(self.model), self.labels)
        return with_head(encoder, len(self.labels), seed, **head)
