"""A small encoder to train from scratch: a vocabulary from the training text, a tiny transformer.

It needs no download and learns the embedded corpus in seconds on a CPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from calibrant.extras import require

__all__ = ["MAX_LENGTH", "TINY", "build_small_encoder", "build_small_tokenizer", "vocabulary"]

TINY = "tiny"  # The name of the small encoder.
MAX_LENGTH = 512
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def vocabulary(words: Iterable[str], longest: int = 4, shared: int = 4) -> list[str]:
    """Return word pieces: all letters, frequent words, and parts that several words share.

    A word is kept if it makes up one in 2,000; at least 2 and at most 8 occurrences are required. A
    part of 2 to ``longest`` letters is kept if ``shared`` different words have it: rare and unknown
    names then consist of known parts. The order is by count, then by the alphabet.

    >>> vocabulary(["to", "to", "do"])[5:]
    ['##d', '##o', '##t', 'd', 'o', 't', 'to']
    """
    counts = Counter(words)
    least = min(8, max(2, round(sum(counts.values()) / 2000)))
    letters = {letter for word in counts for letter in word}
    parts = Counter(part for word in counts for part in _parts(word, longest))
    pieces = sorted({*letters, *("##" + letter for letter in letters)})
    common = sorted((-n, word) for word, n in counts.items() if n >= least and len(word) > 1)
    frequent = sorted((-n, part) for part, n in parts.items() if n >= shared)
    return list(dict.fromkeys([*_SPECIAL, *pieces, *(p for _, p in common + frequent)]))


def _parts(word: str, longest: int) -> set[str]:
    return {
        ("##" if start else "") + word[start : start + size]
        for size in range(2, longest + 1)
        for start in range(len(word) - size + 1)
    }


def build_small_tokenizer(words: Iterable[str]) -> Any:
    """Build a cased WordPiece tokenizer with the :func:`vocabulary` of ``words``."""
    tokenizers = require("tokenizers", "transformers", "A tokenizer")
    transformers = require("transformers", "transformers", "A tokenizer")
    numbers = {piece: number for number, piece in enumerate(vocabulary(words))}
    core = tokenizers.Tokenizer(tokenizers.models.WordPiece(numbers, unk_token="[UNK]"))
    core.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    core.decoder = tokenizers.decoders.WordPiece()
    core.post_processor = tokenizers.processors.BertProcessing(
        ("[SEP]", numbers["[SEP]"]), ("[CLS]", numbers["[CLS]"])
    )
    names = {f"{name.strip('[]').lower()}_token": name for name in _SPECIAL}
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=core,
        model_max_length=MAX_LENGTH,
        # Older versions of transformers also give token types, which a ModernBERT does not take.
        model_input_names=["input_ids", "attention_mask"],
        **names,
    )


def build_small_encoder(
    tokenizer: Any, labels: Sequence[str], seed: int = 0, unit: str = "token"
) -> Any:
    """Build a ModernBERT of two layers and width 64, its weights drawn from ``seed`` alone.

    ``unit`` is what gets a label: "token" or "sequence". Rotary positions let it learn from a few
    hundred sentences which words are neighbours; learned positions need many more.
    """
    torch = require("torch", "torch", "A small encoder")
    transformers = require("transformers", "transformers", "A small encoder")
    config = transformers.ModernBertConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=96,
        max_position_embeddings=MAX_LENGTH,
        global_attn_every_n_layers=1,
        id2label=dict(enumerate(labels)),
        label2id={name: number for number, name in enumerate(labels)},
        pad_token_id=tokenizer.pad_token_id,
        **{f"{name}_token_id": tokenizer.cls_token_id for name in ("bos", "cls")},
        **{f"{name}_token_id": tokenizer.sep_token_id for name in ("eos", "sep")},
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return getattr(transformers, f"ModernBertFor{unit.capitalize()}Classification")(config)
