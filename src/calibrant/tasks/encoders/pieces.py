"""Texts and words as word pieces, by the Rust core of a fast tokenizer alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.errors import InputError
from calibrant.extras import require
from calibrant.inputs import door, has_half_a_character

__all__ = ["PieceTokenizer"]

_FILE = "tokenizer.json"


@dataclass(frozen=True)
class PieceTokenizer:
    """A fast tokenizer without transformers: its core, and the numbers of its special pieces.

    A predictor has the same pieces from a run (by :meth:`of`) and from an export (:meth:`read`).
    """

    core: Any
    cls_token_id: int | None
    sep_token_id: int | None
    unk_token_id: int | None
    pad_token_id: int

    @classmethod
    def of(cls, tokenizer: Any) -> PieceTokenizer:
        """Take the core out of a fast tokenizer of transformers."""
        if isinstance(tokenizer, cls):
            return tokenizer
        names = ("cls_token_id", "sep_token_id", "unk_token_id", "pad_token_id")
        return cls(tokenizer.backend_tokenizer, *(getattr(tokenizer, name) for name in names))

    @classmethod
    def read(cls, folder: Path, special: Mapping[str, Any]) -> PieceTokenizer:
        """Read what :meth:`write` wrote; ``special`` are the numbers of :meth:`special`."""
        library = require("tokenizers", "runtime", "Predicting texts with an export")
        path = folder / _FILE
        with door(path, "not a tokenizer"):
            return cls(library.Tokenizer.from_file(str(path)), **special)

    def write(self, folder: Path) -> None:
        """Write ``tokenizer.json``."""
        self.core.no_truncation()
        self.core.no_padding()
        self.core.save(str(folder / _FILE))

    def example(self, size: int = 2) -> dict[str, tuple[np.ndarray, tuple[int, ...]]]:
        """Return the arrays that an encoder takes, rows and pieces of any number."""
        length = 3 * size + 2
        ids = np.random.default_rng(size).integers(0, self.core.get_vocab_size(), (size, length))
        mask = (np.arange(length) < np.arange(length, length - size, -1)[:, None]).astype(np.int64)
        ids = np.where(mask == 1, ids, self.pad_token_id)
        return {"input_ids": (ids, (0, 1)), "attention_mask": (mask, (0, 1))}

    def special(self) -> dict[str, int | None]:
        """Return the numbers of the special pieces by name."""
        return {name: value for name, value in vars(self).items() if name != "core"}

    def encode_texts(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the pieces of each text, with the special ones around them."""
        return [found.ids for found in self._encoded(list(texts))]

    def encode_words(
        self, sentences: Sequence[Sequence[str]]
    ) -> list[tuple[list[int], list[int | None]]]:
        """Return the pieces of each sentence, without special ones, and the word of each piece."""
        found = self._encoded(
            [list(words) for words in sentences], is_pretokenized=True, add_special_tokens=False
        )
        return [(one.ids, one.word_ids) for one in found]

    def _encoded(self, inputs: list[Any], **options: Any) -> list[Any]:
        # transformers sets both for each call, and may have left them from the last one.
        self.core.no_truncation()
        self.core.no_padding()
        try:
            found: list[Any] = self.core.encode_batch(inputs, **options)
        except TypeError:  # Texts in Python may hold what no encoding can write.
            if not has_half_a_character(inputs):
                raise
            raise InputError("A text contains half of a character; is it UTF-8?") from None
        return found
