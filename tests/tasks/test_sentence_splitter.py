"""Sentences of a raw text, and their positions."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.tasks.language.sentence_splitter import split_sentences


@pytest.mark.parametrize(
    "sentences",
    [
        ["Mr. Smith went to Washington.", "He arrived at 3 p.m. on Monday."],
        ['"Why?" he asked.', '"Go!"', "She left."],
        ["Apple Inc. Chairman J. P. Doe spoke.", "Apple Inc.", "The firm..."],
        ["1. Boil water.", "2. Add salt."],
        ["See Fig. 3.", "It shows p = 0.05.", "No. 5 is alive.", "No.", "That is wrong."],
        ["Yahoo! is big.", "Really?!", "Yes...", "Maybe"],
        ["et al. 2008 found it.", "(He left.)", "She stayed."],
        ["He left the U.S.", "The end."],
        ["यह है।", "वह है।"],
        ["It is at a.b.org/x.y for 3.5 to 4."],
        ["Er kam am 3. Oktober 1990.", "Im 19. Jahrhundert lebte Karl V. in Bonn."],
        ["A Sra. Souza mora na Av. Paulista.", "O Min. Mendes e a Profa. Lia leram fls. 23."],
        ["La Dra. Ruiz vive en la Avda. Lugo núm. 3.", "Es médica."],
        ["Det ble ikke noe av.", "Kl. 12 kom Hr. Berg."],
        ["It took 5 min.", "He studied arts.", "It was in 1990.", "April came."],
        ["None was found (p<0.05).", "See https://ex.org/a?q=1.", "Dipl.-Ing. Lund spoke."],
    ],
)
def test_by_hand(sentences):
    text = " ".join(sentences)
    assert [text[start:end] for start, end in split_sentences(text)] == sentences


def test_scripts_without_spaces():
    text = "他说：“你好。”我走了！真的吗?好"
    found = [text[start:end] for start, end in split_sentences(text)]
    assert found == ["他说：“你好。”", "我走了！", "真的吗?", "好"]


def test_lines():
    long = "This is a line that was wrapped at some sixty characters or so"
    text = f"Title\n{long}\nand continues here.\n\nNew paragraph\nlast"
    found = [text[start:end] for start, end in split_sentences(text)]
    assert found == ["Title", f"{long}\nand continues here.", "New paragraph", "last"]


@given(st.text() | st.text("A.a !?\n\"')1。東\u200b"))
def test_all_that_can_be_seen_is_in_one_sentence(text):
    places = split_sentences(text)
    flat = [edge for place in places for edge in place]
    assert flat == sorted(flat)
    outside = set(range(len(text))) - {i for start, end in places for i in range(start, end)}
    assert all(text[i].isspace() or not text[i].isprintable() for i in outside)
    for start, end in places:
        assert text[start:end].strip() == text[start:end] != ""


@pytest.mark.parametrize(
    "run", [".", "!", "...x", "a.", "。", "\n", " \n", "'", ". ", "A. ", ".'", " ", "\u200b", "("]
)
def test_long_runs_take_linear_time(run):
    before = time.process_time()
    split_sentences((run * 80_000)[:80_000])
    assert time.process_time() - before < 1
