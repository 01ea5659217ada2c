"""Words and where they stand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.tasks.words import split_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("  \n", []),
        ("EU rejects German call.", ["EU", "rejects", "German", "call", "."]),
        ("U.S. and J.R.R. Tolkien", ["U.S.", "and", "J.R.R.", "Tolkien"]),
        ("It's 1,000.50 $ (or 2nd)", ["It's", "1,000.50", "$", "(", "or", "2nd", ")"]),
        ("twenty-one—no", ["twenty-one", "—", "no"]),
        ("Łódź 東京", ["Łódź", "東京"]),
    ],
)
def test_by_hand(text, words):
    assert [word.text for word in split_words(text)] == words


@given(st.text())
def test_every_sign_is_in_one_word(text):
    words = split_words(text)
    for word in words:
        assert text[word.start : word.end] == word.text
        assert not any(sign.isspace() for sign in word.text)
    inside = {place for word in words for place in range(word.start, word.end)}
    assert len(inside) == sum(word.end - word.start for word in words)
    for place, sign in enumerate(text):
        assert (place in inside) == (not sign.isspace())
