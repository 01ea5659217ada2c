"""Texts and words as word pieces, by the Rust core of a fast tokenizer alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calibrant.extras import require
from calibrant.inputs import door

__all__ = ["PieceTokenizer"]


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
    def read(cls, path: Path, special: dict[str, Any]) -> PieceTokenizer:
        """Read ``tokenizer.json``; ``special`` has the numbers that :meth:`special` returned."""
        library = require("tokenizers", "runtime", "Predicting with an export")
        with door(path, "no tokenizer"):
            return cls(library.Tokenizer.from_file(str(path)), **special)

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
        found: list[Any] = self.core.encode_batch(inputs, **options)
        return found
