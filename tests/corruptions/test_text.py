"""Corrupted text: what each kind does, what it leaves unchanged, and that it is repeatable."""

import re
import string
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.corruptions import (
    STRENGTHS,
    TEXT,
    corrupt_text,
    corrupt_words,
    kept_words,
    misspelling,
)
from calibrant.errors import InputError

LETTERS = [name for name, kind in TEXT.items() if kind.change is not None]
WORDS = ["Anna", "Lind", "works", "for", "Modern", "Farming", "in", "Illinois", ",", "U.S.", "8510"]

kinds = st.sampled_from(sorted(TEXT))
letter_kinds = st.sampled_from(LETTERS)
strengths = st.sampled_from(STRENGTHS)
some_words = st.lists(st.text(min_size=1).filter(str.strip), max_size=8)


def every(word):
    return np.ones(len(word), bool)


def hits(*places, size):
    return np.isin(np.arange(size), places)


def test_typos_are_keys_that_touch_on_a_keyboard():
    """Against the keys as pairs of coordinates: half a key to the right for each row down."""
    rows = ["1234567890", "qwertyuiop", "asdfghjkl", "zxcvbnm"]
    at = {key: (x + 0.5 * y, y) for y, row in enumerate(rows) for x, key in enumerate(row)}
    for key, (x, y) in at.items():
        near = {k for k, (a, b) in at.items() if k != key and abs(a - x) <= 1 and abs(b - y) <= 1}
        near = {k for k in near if at[k][1] == y or abs(at[k][0] - x) <= 0.5}
        draws = np.linspace(0, 1, 60, endpoint=False)
        typed = {misspelling.mistype(key, every(key), np.array([draw])) for draw in draws}
        assert typed == near, key


def test_typos_keep_the_case_and_what_has_no_key():
    assert misspelling.mistype("Q-é", every("Q-é"), np.zeros(3)) == "W-é"


@pytest.mark.parametrize(
    ("change", "word", "hit", "draws", "expected"),
    [
        (misspelling.misread, "modern", (0, 4), 0.0, "rnodem"),
        (misspelling.misread, "Anna", (1,), 0.0, "Ama"),
        (misspelling.misread, "Anna", (1,), 0.9, "Auna"),
        (misspelling.misread, "rn", (1,), 0.0, "rr"),
        (misspelling.misread, "100", (0, 1, 2), 0.0, "lOO"),
        (misspelling.misread, "Łódź", (0, 1), 0.0, "Łódź"),
        (misspelling.drop, "Paris", (0,), 0.0, "aris"),
        (misspelling.drop, "Paris", (0, 1, 2, 3, 4), 0.0, "P"),
        (misspelling.swap, "Paris", (0, 1), 0.0, "aPris"),
        (misspelling.swap, "Paris", (4,), 0.0, "Paris"),
        (misspelling.swap, "a", (0,), 0.0, "a"),
        (misspelling.swap, "abcd", (0, 2), 0.0, "badc"),
        (misspelling.upper, "Straße", (0,), 0.0, "STRASSE"),
    ],
)
def test_one_word(change, word, hit, draws, expected):
    assert change(word, hits(*hit, size=len(word)), np.full(len(word), draws)) == expected


@given(some_words, letter_kinds, strengths, st.integers(0, 2**31), st.integers(0, 2**31))
def test_no_word_is_lost_or_emptied_and_the_same_comes_again(words, kind, strength, seed, number):
    made = corrupt_words(words, kind, strength, seed=seed, number=number)
    assert len(made) == len(words)
    assert all(word.strip() for word in made)
    assert made == corrupt_words(words, kind, strength, seed=seed, number=number)


@given(some_words, st.sampled_from(["lower-case", "upper-case", "casing"]), strengths)
def test_casing_changes_nothing_but_the_case(words, kind, strength):
    for old, new in zip(words, corrupt_words(words, kind, strength), strict=True):
        assert new.upper().lower() == old.upper().lower() or not old.isascii()


@pytest.mark.parametrize("kind", sorted(TEXT))
def test_stronger_changes_more(kind):
    def changed(strength):
        if TEXT[kind].change is None:
            return sum((~kept_words(WORDS, kind, strength, number=n)).sum() for n in range(200))
        many = (corrupt_words(WORDS, kind, strength, number=n) for n in range(200))
        return sum(a != b for new in many for a, b in zip(WORDS, new, strict=True))

    counts = [changed(strength) for strength in STRENGTHS]
    assert counts[0] > 0
    assert all(a < b for a, b in pairwise(counts)), counts


def test_the_rates_are_those_of_the_table():
    word = string.ascii_lowercase * 40
    for strength, rate in zip(STRENGTHS, TEXT["typos"].rates, strict=True):
        new = corrupt_words([word] * 50, "typos", strength)
        share = np.mean([a != b for made in new for a, b in zip(word, made, strict=True)])
        assert share == pytest.approx(rate, abs=4 * (rate * (1 - rate) / 52_000) ** 0.5)
    for strength, rate in zip(STRENGTHS, TEXT["dropped-words"].rates, strict=True):
        kept = kept_words(["word"] * 40_000, "dropped-words", strength)
        assert 1 - kept.mean() == pytest.approx(rate, abs=0.01)


@given(some_words, strengths, st.integers(0, 1000))
def test_what_a_strength_hits_a_greater_one_hits_too(words, strength, number):
    """For kinds that write letter for letter."""
    weak = corrupt_words(words, "typos", strength, number=number)
    strong = corrupt_words(words, "typos", 5, number=number)
    for old, a, b in zip(words, weak, strong, strict=True):
        assert all(y == x for o, x, y in zip(old, a, b, strict=True) if x != o)
    gone = ~kept_words(words, "dropped-words", strength, number=number)
    assert len(words) < 2 or (~kept_words(words, "dropped-words", 5, number=number) >= gone).all()


@given(some_words, strengths)
def test_a_word_is_left_whatever_is_dropped(words, strength):
    kept = kept_words(words, "dropped-words", strength)
    assert kept.shape == (len(words),)
    assert kept.any() or not words
    assert kept_words(words, "typos", strength).all()


@given(st.text(), kinds, strengths)
def test_running_text_keeps_its_white_space(text, kind, strength):
    made = corrupt_text(text, kind, strength)
    if TEXT[kind].change is None:
        assert set(made.split()) <= set(text.split())
        assert bool(made.strip()) == bool(text.strip())
    else:
        assert re.findall(r"\s+", made) == re.findall(r"\s+", text) or not made.isascii()
        assert made.split() == corrupt_words(text.split(), kind, strength) or not made.isascii()


def test_sentences_of_a_corpus_differ_and_seeds_do():
    many = {tuple(corrupt_words(WORDS, "typos", 5, number=n)) for n in range(20)}
    assert len(many) == 20
    assert len({tuple(corrupt_words(WORDS, "typos", 5, seed=s)) for s in range(20)}) == 20


@pytest.mark.parametrize(
    ("kind", "strength", "message"),
    [
        ("typoes", 1, "Did you mean 'typos'"),
        ("typos", 0, "1, 2, 3, 4 or 5, got 0"),
        ("typos", 6, "got 6"),
        ("dropped-words", 1, "take kept_words"),
    ],
)
def test_what_is_refused(kind, strength, message):
    with pytest.raises(InputError, match=message):
        corrupt_words(WORDS, kind, strength)
