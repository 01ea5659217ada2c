"""Words and their positions."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.errors import InputError
from calibrant.tasks.language.characters import BLANK
from calibrant.tasks.language.words import (
    FIRST,
    SPLITTERS,
    Splitter,
    split_words,
)

ALL = [FIRST, *SPLITTERS.values()]


def names(splitter):
    return splitter.name


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("  \n", []),
        ("EU rejects German call.", ["EU", "rejects", "German", "call", "."]),
        ("U.S. and J.R.R. Tolkien", ["U.S.", "and", "J.R.R.", "Tolkien"]),
        ("It's 1,000.50 $ (or 2nd)", ["It's", "1,000.50", "$", "(", "or", "2nd", ")"]),
        ("twenty-one—no", ["twenty-one", "—", "no"]),
        ("A.B.c", ["A", ".", "B", ".", "c"]),
        ("Łódź 東京", ["Łódź", "東", "京"]),
        ("北京是中国的首都", list("北京是中国的首都")),
        ("東京タワー。", list("東京タワー。")),
        ("iPhoneを買う", ["iPhone", "を", "買", "う"]),
        ("น้ำ ไทย", ["น้ำ", "ไ", "ท", "ย"]),
        ("ស្រ្តី", ["ស្រ្តី"]),
        ("မြန်မာ", ["မြ", "န်", "မာ"]),
        ("서울은 한국", ["서울은", "한국"]),
        ("नमस्ते दुनिया", ["नमस्ते", "दुनिया"]),
        ("cafe\u0301s", ["cafe\u0301s"]),
        ("👩‍👩‍👧👍🏽🇩🇪🇫🇷❤️", ["👩‍👩‍👧", "👍🏽", "🇩🇪", "🇫🇷", "❤️"]),
        ("a\u200bb\ufeff\x00c", ["a", "b", "c"]),
        ("a\ud800b", ["a", "\ud800", "b"]),
    ],
)
def test_by_hand(text, words):
    assert [word.text for word in split_words(text)] == words


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("plain", ["Dr", ".", "Lund's", "T-cell", "isn't", "3", ":", "2", ".", ".", "."]),
        ("hyphens", ["Dr", ".", "Lund's", "T", "-", "cell", "isn't", "3", ":", "2", ".", ".", "."]),
        ("clitics", ["Dr", ".", "Lund", "'s", "T-cell", "is", "n't", "3", ":", "2", *"..."]),
        ("penn", ["Dr.", "Lund", "'s", "T-cell", "is", "n't", "3:2", "..."]),
        ("biomedical", ["Dr", ".", "Lund", "'", "s", "T", "-", "cell", "isn", "'", "t", *"3:2..."]),
        ("spaces", ["Dr.", "Lund's", "T-cell", "isn't", "3:2..."]),
        ("characters", list("Dr.Lund'sT-cellisn't3:2...")),
    ],
)
def test_splitters_by_hand(name, words):
    text = "Dr. Lund's T-cell isn't 3:2..."
    assert [word.text for word in SPLITTERS[name].split(text)] == words


@pytest.mark.parametrize("splitter", SPLITTERS.values(), ids=names)
@pytest.mark.parametrize("text", ["北京是中国的首都。", "東京タワー", "ไทย"])
def test_scripts_without_spaces_are_no_single_word(splitter, text):
    """One LOC at 1.000 was a whole sentence, also where a corpus is cut at spaces alone."""
    assert [word.text for word in splitter.split(f"in {text}")][-len(text) :] == list(text)


def test_the_web_is_kept_together():
    text = "@anna see https://a.org/x?y=1 #nice..."
    expected = ["@anna", "see", "https://a.org/x?y=1", "#nice", "..."]
    assert [word.text for word in SPLITTERS["web"].split(text)] == expected


@pytest.mark.parametrize("splitter", ALL, ids=names)
@given(text=st.text() | st.text("A.a1,-'’ \n東ก็\u0301\u200d👍🏽🇩្ក@#/nt"))
def test_every_sign_is_in_one_word(splitter, text):
    words = splitter.split(text)
    for word in words:
        assert text[word.start : word.end] == word.text
        assert not any(sign.isspace() for sign in word.text)
    inside = [place for word in words for place in range(word.start, word.end)]
    assert inside == sorted(set(inside))
    blank = re.compile(r"\s" if splitter is FIRST else f"[{BLANK}]")
    missing = {place for place, sign in enumerate(text) if not blank.match(sign)} - set(inside)
    assert not missing


OLD = re.compile(r"(?:[A-Z]\.)+(?!\w)|\d+(?:[.,]\d+)+(?!\w)|\w+(?:['’\-]\w+)*|\S")


@given(st.text("AaB.1,-' x9é東") | st.text())
def test_the_first_splitter_is_what_it_was(text):
    """Only it takes no quadratic time any more: runs of earlier versions are cut as before."""
    expected = [(found.group(), *found.span()) for found in OLD.finditer(text)]
    assert [tuple(word) for word in FIRST.split(text)] == expected


RUNS = [
    "A.", "a.", "1.", "1,", "-", "a-", "'", "a'", "a", "1", "東", "ก็", "็", "\u200d", "👍🏽\u200d",
    "្", "្ក", "🇩", "#a", "http://", "www.", " ", "\u200b", "\ud800", "n't", ".", "@", "/a", "가",
    "ᄀ", "A.b", "\u0301", "mr.", "_", "\u00ad", "\n",
]  # fmt: skip


@pytest.mark.parametrize("splitter", ALL, ids=names)
def test_long_runs_take_linear_time(splitter):
    """80 KB of "A.A.A.…x" took a minute."""
    splitter.split("warm")
    for run in RUNS:
        text = (run * 80_000)[: 80_000 if run == "A." else 16_000] + "x"
        before = time.process_time()
        splitter.split(text)
        assert time.process_time() - before < 5, run


@pytest.mark.parametrize("splitter", ALL, ids=names)
def test_a_splitter_is_kept_as_data(splitter):
    assert Splitter.from_dict(splitter.to_dict()) == splitter


def test_rules_that_are_none():
    with pytest.raises(InputError, match="'insid': '-' is not a rule"):
        Splitter.from_dict({"insid": "-"})
    with pytest.raises(InputError, match="'inside': 3 is not a rule"):
        Splitter.from_dict({"inside": 3})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("l'Italie d’Orsay", "l'|Italie|d’|Orsay"),
        ("Qu'elle dell'Italia lorsqu'il", "Qu'|elle|dell'|Italia|lorsqu'|il"),
        ("aujourd'hui McDonald's l'an I'll", "aujourd'hui|McDonald's|l'|an|I'll"),
        ("O'Neill's rock'n'roll", "O'|Neill's|rock'n'roll"),
    ],
)
def test_elisions_by_hand(text, words):
    assert "|".join(word.text for word in SPLITTERS["elisions"].split(text)) == words
