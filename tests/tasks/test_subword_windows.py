"""Word pieces: one label per word at its first piece, nothing cut off, against a plain loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.errors import InputError
from calibrant.predictions import IGNORED
from calibrant.tasks.language.sentences import Sentence
from calibrant.tasks.language.synthetic import generate
from calibrant.tasks.ner.subword_windows import Pieces, _windows, encode

pytest.importorskip("transformers")

from calibrant.tasks.encoders.small_encoder import build_small_tokenizer

SENTENCES = generate(60)
LABELS = ("O", *(f"{p}-{k}" for k in ("LOC", "ORG", "PER", "PROD") for p in "BI"))


@pytest.fixture(scope="module")
def tokenizer():
    return build_small_tokenizer(word for s in SENTENCES for word in s.words)


def words_of(pieces: Pieces) -> dict[tuple[int, int], list[int]]:
    """(sentence, word) → the labels that it carries in all windows."""
    found: dict[tuple[int, int], list[int]] = {}
    for row in range(len(pieces)):
        for i in range(pieces.starts[row], pieces.starts[row + 1]):
            if pieces.labels[i] != IGNORED:
                key = int(pieces.sentences[row]), int(pieces.words[i])
                found.setdefault(key, []).append(int(pieces.labels[i]))
    return found


def all_words(sentences) -> dict[tuple[int, int], list[int]]:
    return {
        (i, j): [LABELS.index(tag)] for i, s in enumerate(sentences) for j, tag in enumerate(s.tags)
    }


def test_against_a_loop_over_words(tokenizer) -> None:
    pieces = encode(SENTENCES, LABELS, tokenizer)
    assert len(pieces) == len(SENTENCES)
    for row, sentence in enumerate(SENTENCES):
        ids, labels = [tokenizer.cls_token_id], [IGNORED]
        for word, tag in zip(sentence.words, sentence.tags, strict=True):
            parts = tokenizer(word, add_special_tokens=False).input_ids
            ids += parts
            labels += [LABELS.index(tag)] + [IGNORED] * (len(parts) - 1)
        window = pieces[row]
        assert window["input_ids"].tolist() == [*ids, tokenizer.sep_token_id]
        assert window["labels"].tolist() == [*labels, IGNORED]
        assert pieces.lengths[row] == len(ids) + 1


@pytest.mark.parametrize("max_length", [8, 9, 12, 33, 512])
def test_each_word_is_labelled_once_whatever_the_window(max_length: int, tokenizer) -> None:
    pieces = encode(SENTENCES, LABELS, tokenizer, max_length)
    assert pieces.lengths.max() <= max_length
    assert words_of(pieces) == all_words(SENTENCES)


def test_sentence_of_ten_thousand_words(tokenizer) -> None:
    many = generate(1000, seed=5)
    words = tuple(word for s in many for word in s.words)[:10_000]
    tags = tuple(tag for s in many for tag in s.tags)[:10_000]
    assert len(words) == 10_000
    pieces = encode([Sentence(words, tags)], LABELS, tokenizer, 128)
    assert pieces.lengths.max() == 128
    assert words_of(pieces) == all_words([Sentence(words, tags)])
    # A word in the middle has at least a fifth of a window to see on either side.
    for row in range(1, len(pieces) - 1):
        shown = np.flatnonzero(pieces[row]["labels"] != IGNORED)
        assert shown.min() > 25
        assert shown.max() < 128 - 25


@given(st.integers(0, 300), st.integers(6, 40))
def test_windows_tile_the_pieces(length: int, size: int) -> None:
    found = list(_windows(length, size))
    shown = [i for _, _, first, last in found for i in range(first, last)]
    assert shown == list(range(length))
    assert all(start <= first <= last <= stop for start, stop, first, last in found)
    assert all(stop - start <= size for start, stop, _, _ in found)


def test_edges(tokenizer) -> None:
    odd = [
        Sentence((), ()),
        Sentence(("\u00a0", "", "\u200b", "☃"), ("O", "B-PER", "O", "O")),  # no or unknown pieces
        Sentence(("[SEP]", "[CLS]"), ("O", "O")),
        Sentence(("x" * 2000,), ("B-LOC",)),
    ]
    pieces = encode(odd, LABELS, tokenizer, 64)
    assert words_of(pieces) == all_words(odd)
    assert pieces[0]["input_ids"].tolist() == [tokenizer.cls_token_id, tokenizer.sep_token_id]
    nothing = encode([], LABELS, tokenizer)
    assert len(nothing) == 0
    assert nothing.lengths.tolist() == []
    with pytest.raises(IndexError):
        pieces[len(pieces)]


def test_padded(tokenizer) -> None:
    pieces = encode(SENTENCES[:3], LABELS, tokenizer)
    ids, labels = pieces.padded(np.array([2, 0]), 60, 7)
    assert ids.shape == labels.shape == (2, 60)
    size = pieces.lengths[2]
    assert ids[0, :size].tolist() == pieces[2]["input_ids"].tolist()
    assert set(ids[0, size:].tolist()) == {7}
    assert set(labels[0, size:].tolist()) == {IGNORED}


def test_errors(tokenizer) -> None:
    with pytest.raises(InputError, match="Tag 'B-PER' does not occur in the training data"):
        encode([Sentence(("a",), ("B-PER",))], ("O",), tokenizer)
    with pytest.raises(InputError, match="max_length must be at least 8 pieces, got 2"):
        encode(SENTENCES, LABELS, tokenizer, 2)


def test_decoder_without_special_tokens(tokenizer) -> None:
    import transformers

    plain = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer.backend_tokenizer, unk_token="[UNK]", pad_token="[PAD]"
    )
    pieces = encode(SENTENCES, LABELS, plain, 16)
    assert words_of(pieces) == all_words(SENTENCES)
    assert tokenizer.cls_token_id not in pieces.ids


def test_an_empty_word_for_a_tokenizer_without_unknown_piece(tokenizer) -> None:
    """As that of Qwen and Llama 3: bytes have pieces, but nothing has none."""
    import transformers

    plain = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer.backend_tokenizer, pad_token="[PAD]"
    )
    assert plain.unk_token_id is None
    empty = [Sentence(("", "", "a", ""), ("O", "B-PER", "O", "O"))]
    pieces = encode(empty, LABELS, plain, 16)
    assert words_of(pieces) == all_words(empty)
    assert pieces.ids.tolist().count(plain.pad_token_id) == 3
