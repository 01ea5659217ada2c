"""Texts in word pieces, end to end in flat arrays, with one class each; and their logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.tasks.encoders.pieces import PieceTokenizer
from calibrant.tasks.scoring import Scored, Scorer, TorchScorer, in_place, length_batches, pad_rows

if TYPE_CHECKING:
    from torch import nn

__all__ = ["EncodedTexts", "encode_texts", "score_texts", "text_scores"]


@dataclass(frozen=True, eq=False)
class EncodedTexts:
    """``ids`` of all texts, special tokens included; ``starts`` has one entry more than texts.

    ``labels`` is the class of each text, or −100; ``shortened`` says how many were too long.
    """

    ids: np.ndarray
    labels: np.ndarray
    starts: np.ndarray
    shortened: int = 0

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def lengths(self) -> np.ndarray:
        """Pieces of each text."""
        return np.diff(self.starts)

    def __getitem__(self, row: int) -> dict[str, Any]:
        """Return one text, named as transformers' Trainer expects."""
        if not 0 <= row < len(self):
            raise IndexError(row)
        ids = self.ids[self.starts[row] : self.starts[row + 1]]
        return {"input_ids": ids, "labels": int(self.labels[row])}

    def padded(self, rows: np.ndarray, length: int, padding: int) -> tuple[np.ndarray, np.ndarray]:
        """Return ``ids`` of some texts, (rows, length), and their classes, (rows,)."""
        ids = np.full((len(rows), length), padding, np.int64)
        for i, row in enumerate(rows):
            part = self.ids[self.starts[row] : self.starts[row + 1]]
            ids[i, : len(part)] = part
        return ids, self.labels[rows].astype(np.int64)


def encode_texts(
    texts: Sequence[str], classes: Sequence[int], tokenizer: Any, max_length: int = 512
) -> EncodedTexts:
    """Encode whole texts; one that is too long keeps its beginning and the piece that closes it.

    Encoders have such a piece; most decoders read the last piece of the text itself.
    """
    tokenizer = PieceTokenizer.of(tokenizer)
    (nothing,) = tokenizer.encode_texts([""])
    encoded = tokenizer.encode_texts(texts) if texts else []
    short = [_shortened(ids, max_length, nothing[-1:]) for ids in encoded]
    flat = [np.empty(0, np.int32), *(np.asarray(ids, np.int32) for ids in short)]
    return EncodedTexts(
        np.concatenate(flat),
        np.asarray(classes, np.int64),
        np.cumsum([0, *(len(ids) for ids in short)]),
        sum(len(ids) > max_length for ids in encoded),
    )


def _shortened(ids: list[int], length: int, closing: list[int]) -> list[int]:
    if len(ids) <= length:
        return ids
    return [*ids[: length - 1], *closing] if ids[-1:] == closing else ids[:length]


def text_scores(model: nn.Module, data: EncodedTexts, padding: int = 0) -> Scored:
    """Return :func:`score_texts` of a torch model in evaluation mode, where it is."""
    return score_texts(TorchScorer(model, str(next(model.parameters()).device)), data, padding)


def score_texts(scorer: Scorer, data: EncodedTexts, padding: int = 0) -> Scored:
    """Return float32 logits (texts, classes) and signals.

    Texts of similar length are run together. Where the model computes signals, ``pieces`` is one
    too: how many the text was cut into.
    """
    places, found = [], []
    for rows in length_batches(data.lengths, scorer.pieces):
        ids, mask = pad_rows(data.ids, data.starts, rows, padding)
        found.append(scorer.scored(input_ids=ids, attention_mask=mask))
        places.append(rows)
    made = in_place(found, np.argsort(np.concatenate(places)))
    if not made.signals:
        return made
    return made._replace(signals={**made.signals, "pieces": data.lengths.astype(np.float32)})
