"""Data in word pieces: what texts and tagged sentences share once a tokenizer has cut them."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import nn

from calibrant.errors import InputError
from calibrant.predictions import IGNORED
from calibrant.tasks.encoders.finding import find_encoder, load_tokenizer
from calibrant.tasks.encoders.fine_tuned import most_pieces
from calibrant.tasks.encoders.heads import load_encoder
from calibrant.tasks.encoders.small_encoder import (
    TINY,
    build_small_encoder,
    build_small_tokenizer,
)
from calibrant.tasks.reading.fingerprint import fingerprint
from calibrant.tasks.reading.splits import part_of
from calibrant.training.windows import LENGTHS, Windows

__all__ = ["EncodedData", "check_encoder", "pad", "tokenizer_of"]

P = TypeVar("P")


@dataclass(frozen=True, eq=False)
class EncodedData(Generic[P]):
    """A corpus and its splits in word pieces.

    ``held`` is taken from the training split if a method needs it; ``ood`` is the out-of-domain
    part of a corpus that has one. ``model`` names the encoder, and ``own`` is a fine-tuned
    classifier that is taken as it is.
    """

    corpus: Any
    model: str
    max_length: int
    tokenizer: Any
    splits: Mapping[str, P]
    notes: tuple[str, ...]
    own: Any = None

    @property
    def name(self) -> str:
        """The name of the corpus."""
        return str(self.corpus.name)

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes."""
        return tuple(self.corpus.labels)

    @property
    def padding(self) -> int:
        """The id that fills a row."""
        return int(self.tokenizer.pad_token_id)

    @property
    def parts(self) -> dict[str, P]:
        """What is predicted; an out-of-domain part only if some of it has classes."""
        found = {"valid": self.splits["dev"], "test": self.splits["test"]}
        ood: Any = self.splits.get("ood")
        if ood is not None and (ood.labels != IGNORED).any():
            found["ood"] = ood
        return found

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of all pieces and labels: the same for the same data and tokenizer."""
        order = ("train", "dev", "test", "held", "ood")
        return fingerprint(self.labels, (self.splits.get(split) for split in order))

    def load(self, split: str) -> P:
        """Return the encoded examples of a split."""
        return part_of(self.splits, split)

    def collate(self, examples: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return examples padded to one of a few lengths."""
        longest = max(len(example["input_ids"]) for example in examples)
        length = next((length for length in LENGTHS if length >= longest), longest)
        return pad(examples, self.padding, length)

    def windows(self, device: str) -> tuple[Windows, Windows | None]:
        """Put the training part, and the held-out one, on a device."""
        return _windows(self, device)

    def encoder(self, seed: int, unit: str) -> Any:
        """Return a fresh copy of the encoder, a classifier of each "token" or "sequence"."""
        if self.model == TINY:
            return build_small_encoder(self.tokenizer, self.labels, seed, unit=unit)
        return copy.deepcopy(_pretrained(self.model, self.labels, unit))


@functools.lru_cache(maxsize=16)
def _windows(data: EncodedData[Any], device: str) -> tuple[Windows, Windows | None]:
    train, held = (
        None if part is None else Windows(part, device, data.padding)
        for part in (data.splits["train"], data.splits.get("held"))
    )
    assert train is not None
    return train, held


@functools.lru_cache(maxsize=4)
def _pretrained(name: str, labels: tuple[str, ...], unit: str) -> nn.Module:
    # Some encoders have layers before the head whose weights are not pretrained.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return load_encoder(find_encoder(name), labels, unit=unit)


def tokenizer_of(encoder: str, words: Iterable[str]) -> Any:
    """Load the tokenizer of an encoder; that of the small one has the vocabulary of ``words``."""
    return build_small_tokenizer(words) if encoder == TINY else load_tokenizer(encoder)


def check_encoder(model: Any, max_length: int, head_depth: int) -> None:
    """Raise an error for an encoder that cannot be trained, or not be loaded again, so."""
    config = model.config
    if head_depth and type(model).__module__.startswith("transformers_modules"):
        raise InputError(
            f"{type(model).__name__} comes with its own code and needs --head-depth 0: with "
            "hidden layers it could not be loaded again."
        )
    places = most_pieces(config)
    if 0 < places < max_length:
        fits = [length for length in LENGTHS if length <= places]
        advice = f"give --max-length {fits[-1]}" if fits else "take another encoder"
        raise InputError(
            f"{type(model).__name__} takes at most {places} pieces at once, and max_length is "
            f"{max_length}: {advice}."
        )


def pad(examples: Sequence[Mapping[str, Any]], padding: int, length: int) -> dict[str, Any]:
    """Pad ``input_ids``, ``attention_mask`` and ``labels`` to a length; labels with −100.

    >>> batch = pad([{"input_ids": [5, 6], "labels": 1}, {"input_ids": [7], "labels": 0}], 9, 2)
    >>> {name: values.tolist() for name, values in batch.items()}
    {'input_ids': [[5, 6], [7, 9]], 'attention_mask': [[1, 1], [1, 0]], 'labels': [1, 0]}
    """

    def filled(rows: Sequence[Any], filler: int) -> Any:
        table = np.full((len(rows), length), filler, np.int64)
        for place, row in zip(table, rows, strict=True):
            place[: len(row)] = row
        return torch.as_tensor(table)

    labels = [example["labels"] for example in examples]
    whole = all(np.ndim(label) == 0 for label in labels)
    return {
        "input_ids": filled([example["input_ids"] for example in examples], padding),
        "attention_mask": filled([np.ones(len(e["input_ids"])) for e in examples], 0),
        "labels": torch.as_tensor(np.array(labels, np.int64)) if whole else filled(labels, IGNORED),
    }
