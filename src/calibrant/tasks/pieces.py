"""Words to word pieces: labels at the first piece, long sentences in windows, nothing cut off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.errors import InputError
from calibrant.predictions import IGNORED
from calibrant.tasks.conll import Sentence

__all__ = ["Pieces", "encode"]


@dataclass(frozen=True, eq=False)
class Pieces:
    """Encoded windows, end to end in flat arrays; ``starts`` has one entry more than windows.

    ``ids`` are word pieces with the special tokens around them; ``labels`` is the class at the
    first piece of each word and −100 elsewhere; ``words`` is the word's position in its sentence
    at the same places; ``sentences`` the sentence that each window belongs to.
    """

    ids: np.ndarray
    labels: np.ndarray
    words: np.ndarray
    starts: np.ndarray
    sentences: np.ndarray

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Pieces of each window."""
        return np.diff(self.starts)

    def padded(self, rows: np.ndarray, length: int, padding: int) -> tuple[np.ndarray, np.ndarray]:
        """``ids`` and ``labels`` of some windows, of shape (rows, length)."""
        ids = np.full((len(rows), length), padding, np.int64)
        labels = np.full((len(rows), length), IGNORED, np.int64)
        for i, row in enumerate(rows):
            part = slice(self.starts[row], self.starts[row + 1])
            size = part.stop - part.start
            ids[i, :size], labels[i, :size] = self.ids[part], self.labels[part]
        return ids, labels


def encode(
    sentences: Sequence[Sentence], labels: Sequence[str], tokenizer: Any, max_length: int = 512
) -> Pieces:
    """Encode ``sentences`` with a fast tokenizer of transformers.

    A sentence of more than ``max_length`` pieces becomes several overlapping windows in which each
    word carries its label once, where it has context on both sides.
    """
    numbers = {name: number for number, name in enumerate(labels)}
    encoded = tokenizer(
        [list(s.words) for s in sentences], is_split_into_words=True, add_special_tokens=False
    )
    ids, targets, words, sizes, owners = [], [], [], [], []
    for index, sentence in enumerate(sentences):
        pieces, owner = _pieces(
            encoded["input_ids"][index], encoded.word_ids(index), sentence, tokenizer
        )
        label = _first_piece_labels(owner, [_number(numbers, tag) for tag in sentence.tags])
        for start, stop, first, last in _windows(len(pieces), max_length - 2):
            shown = np.full(stop - start + 2, IGNORED, np.int32)
            shown[first - start + 1 : last - start + 1] = label[first:last]
            place = np.full(stop - start + 2, -1, np.int32)
            place[1:-1] = owner[start:stop]
            ids.append([tokenizer.cls_token_id, *pieces[start:stop], tokenizer.sep_token_id])
            targets.append(shown)
            words.append(place)
            sizes.append(stop - start + 2)
            owners.append(index)
    return Pieces(
        np.concatenate([np.asarray(i, np.int32) for i in ids]),
        np.concatenate(targets),
        np.concatenate(words),
        np.concatenate([[0], np.cumsum(sizes)]),
        np.asarray(owners),
    )


def _number(numbers: dict[str, int], tag: str) -> int:
    if tag not in numbers:
        raise InputError(
            f"Tag '{tag}' does not occur in the training data, whose tags are "
            f"{', '.join(numbers)}; add it there, or pass the label set."
        )
    return numbers[tag]


def _pieces(
    ids: list[int], owners: list[int | None], sentence: Sentence, tokenizer: Any
) -> tuple[list[int], np.ndarray]:
    """The pieces and the word of each; a word of no piece (odd characters) becomes [UNK]."""
    missing = sorted(set(range(len(sentence))) - {o for o in owners if o is not None})
    owner = np.asarray(owners, np.int64)
    if missing:
        places = np.searchsorted(owner, missing)
        ids = np.insert(np.asarray(ids, np.int64), places, tokenizer.unk_token_id).tolist()
        owner = np.insert(owner, places, missing)
    return ids, owner


def _first_piece_labels(owner: np.ndarray, labels: list[int]) -> np.ndarray:
    first = np.diff(owner, prepend=-1) != 0
    return np.where(first, np.asarray(labels)[owner], IGNORED)


def _windows(length: int, size: int) -> Iterator[tuple[int, int, int, int]]:
    """(start, stop) of each window and (first, last) of the pieces that are labelled in it."""
    context = size // 4
    start, first = 0, 0
    while True:
        stop = min(start + size, length)
        last = length if stop == length else stop - context
        yield start, stop, first, last
        if stop == length:
            return
        first = last
        start = last - context
