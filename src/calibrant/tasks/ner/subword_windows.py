"""Turn words into word pieces: labels at the first piece, long sentences in windows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from calibrant.errors import InputError
from calibrant.predictions import IGNORED
from calibrant.tasks.encoders.pieces import PieceTokenizer
from calibrant.tasks.language.sentences import Sentence

__all__ = ["Pieces", "encode"]

_SHORTEST = 6  # Pieces of text in a window.


@dataclass(frozen=True, eq=False)
class Pieces:
    """Encoded windows, end to end in flat arrays; ``starts`` has one entry more than windows.

    ``ids`` are word pieces with the special tokens around them; ``labels`` is the class at the
    first piece of each word and −100 elsewhere; ``words`` is the word's position in its sentence
    at the same places; ``sentences`` the sentence that each window belongs to. ``unfit``, where
    there are any, counts at the same places the entities that are not made of whole words.
    """

    ids: np.ndarray
    labels: np.ndarray
    words: np.ndarray
    starts: np.ndarray
    sentences: np.ndarray
    unfit: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Pieces of each window."""
        return np.diff(self.starts)

    def piece_counts(self) -> np.ndarray:
        """Return, at each piece, how many pieces of its window belong to the same word."""
        window = np.repeat(np.arange(len(self)), self.lengths)
        is_first = (np.diff(self.words, prepend=-2) != 0) | (np.diff(window, prepend=-1) != 0)
        count = np.diff(np.append(np.flatnonzero(is_first), len(self.words)))
        return np.repeat(count, count)

    def __getitem__(self, row: int) -> dict[str, np.ndarray]:
        """Return one window, named as transformers' Trainer expects."""
        if not 0 <= row < len(self):
            raise IndexError(row)
        part = slice(self.starts[row], self.starts[row + 1])
        return {"input_ids": self.ids[part], "labels": self.labels[part]}

    def padded(self, rows: np.ndarray, length: int, padding: int) -> tuple[np.ndarray, np.ndarray]:
        """Return ``ids`` and ``labels`` of some windows, of shape (rows, length)."""
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
    """Encode ``sentences`` with a fast tokenizer, of transformers or without it.

    A sentence of more than ``max_length`` pieces becomes several overlapping windows in which each
    word carries its label once, where it has context on both sides.
    """
    tokenizer = PieceTokenizer.of(tokenizer)
    # What a window begins and ends with; the tokenizers of decoders have no such tokens.
    ends = (tokenizer.cls_token_id, tokenizer.sep_token_id)
    before, after = ([] if token is None else [token] for token in ends)
    size = max_length - len(before) - len(after)
    if size < _SHORTEST:
        raise InputError(f"max_length must be at least {_SHORTEST + 2} pieces, got {max_length}.")
    numbers = {name: number for number, name in enumerate(labels)}
    windows: list[_Window] = []
    for index, (sentence, pieces, owner) in enumerate(_tokenized(sentences, tokenizer)):
        label = _first_piece_labels(owner, [_number(numbers, tag) for tag in sentence.tags])
        for start, stop, first, last in _windows(len(pieces), size):
            shown = np.full(stop - start, IGNORED, np.int32)
            shown[first - start : last - start] = label[first:last]
            ids = np.array([*before, *pieces[start:stop], *after], np.int32)
            windows.append(_Window(ids, shown, owner[start:stop], index))
    joined = _joined(windows, len(before), len(after))
    return replace(joined, unfit=_unfit(joined, sentences))


def _unfit(pieces: Pieces, sentences: Sequence[Sentence]) -> np.ndarray | None:
    if not any(sentence.unfit for sentence in sentences):
        return None
    counts = [sentence.unfit or (0,) * len(sentence) for sentence in sentences]
    flat = np.array([count for part in counts for count in part], np.int64)
    first = np.cumsum([0, *map(len, counts)])
    owner = np.repeat(pieces.sentences, pieces.lengths)
    kept = pieces.labels != IGNORED
    found = np.zeros(len(pieces.ids), np.int64)
    found[kept] = flat[first[owner[kept]] + pieces.words[kept]]
    return found


class _Window(NamedTuple):
    ids: np.ndarray
    labels: np.ndarray
    words: np.ndarray
    sentence: int


def _joined(windows: list[_Window], before: int, after: int) -> Pieces:
    """Join all windows; the special tokens around each have neither label nor word."""

    def flat(arrays: Iterable[np.ndarray], filler: int) -> np.ndarray:
        ends = np.full(before, filler, np.int32), np.full(after, filler, np.int32)
        parts = [part for array in arrays for part in (ends[0], array, ends[1])]
        return np.concatenate([np.empty(0, np.int32), *parts]).astype(np.int32)

    return Pieces(
        np.concatenate([np.empty(0, np.int32), *(w.ids for w in windows)]),
        flat((w.labels for w in windows), IGNORED),
        flat((w.words for w in windows), -1),
        np.cumsum([0, *(len(w.ids) for w in windows)]),
        np.array([w.sentence for w in windows], np.int64),
    )


def _tokenized(
    sentences: Sequence[Sentence], tokenizer: PieceTokenizer
) -> Iterator[tuple[Sentence, list[int], np.ndarray]]:
    if not sentences:
        return
    encoded = tokenizer.encode_words([sentence.words for sentence in sentences])
    for sentence, (ids, owners) in zip(sentences, encoded, strict=True):
        yield sentence, *_pieces(ids, owners, sentence, tokenizer)


def _number(numbers: dict[str, int], tag: str) -> int:
    if tag not in numbers:
        raise InputError(
            f"Tag '{tag}' does not occur in the training data, whose tags are "
            f"{', '.join(numbers)}; add it there, or pass the label set."
        )
    return numbers[tag]


def _pieces(
    ids: list[int], owners: list[int | None], sentence: Sentence, tokenizer: PieceTokenizer
) -> tuple[list[int], np.ndarray]:
    """Return the pieces and the word of each; a word without pieces becomes [UNK].

    Decoders may have no such piece: then it becomes that of the padding, which is not masked here.
    """
    missing = sorted(set(range(len(sentence))) - {o for o in owners if o is not None})
    owner = np.asarray(owners, np.int64)
    if missing:
        places = np.searchsorted(owner, missing)
        unknown = tokenizer.unk_token_id
        unknown = tokenizer.pad_token_id if unknown is None else unknown
        ids = np.insert(np.asarray(ids, np.int64), places, unknown).tolist()
        owner = np.insert(owner, places, missing)
    return ids, owner


def _first_piece_labels(owner: np.ndarray, labels: list[int]) -> np.ndarray:
    first = np.diff(owner, prepend=-1) != 0
    return np.where(first, np.asarray(labels, np.int64)[owner], IGNORED)


def _windows(length: int, size: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield (start, stop) of each window and (first, last) of the pieces labelled in it."""
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
