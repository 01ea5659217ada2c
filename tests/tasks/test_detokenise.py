"""Words back to texts, and the splitter that cuts these as a corpus is cut."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.errors import InputError
from calibrant.tasks.language import splitter_choice
from calibrant.tasks.language.detokenise import Detokeniser
from calibrant.tasks.language.marked_text import from_spans
from calibrant.tasks.language.sentences import Sentence
from calibrant.tasks.language.splitter_choice import Cutting, choose_cutting, restored
from calibrant.tasks.language.words import SPLITTERS
from calibrant.tasks.ner.corpus import load_corpus


@pytest.mark.parametrize(
    ("cuts", "words", "text"),
    [
        ("", "He does n't see Anna 's dog .", "He doesn't see Anna's dog."),
        ("", "PRESS DIGEST - Iraq - Aug 22", "PRESS DIGEST - Iraq - Aug 22"),
        ("-/", "GSK - 3beta and / or non - X", "GSK-3beta and/or non-X"),
        (".,", "0 . 05 in 1 , 000 of 2 , 3", "0.05 in 1,000 of 2, 3"),
        (".=", "( p = . 03 )", "(p = .03)"),
        ("", '" Go ! " he cried .', '"Go!" he cried.'),
        ("", 'Go now . "', 'Go now."'),
        ("", "`` Go '' -LRB- now -RRB-", '"Go" (now)'),
        ("'", "Knudson ' s theory of farmers ' unions", "Knudson's theory of farmers' unions"),
        ("", "$ 5 , 3 % and [ 4 ]", "$5, 3% and [4]"),
        ("", "北 京 是 首 都 。", "北京是首都。"),
    ],
)
def test_by_hand(cuts, words, text):
    assert Detokeniser(cuts).restore(words.split()).text == text


def test_what_a_lone_sign_was_is_learned():
    cut = [["tumour", "-", "suppressor", "and", "/", "or"]] * 3
    whole = [["Paris", "-", "Aug", "22"], ["co-pilot"], ["re-run"]]
    assert Detokeniser.learn(cut).restore(cut[0]).text == "tumour-suppressor and/or"
    assert Detokeniser.learn(whole).restore(whole[0]).text == "Paris - Aug 22"
    assert Detokeniser.learn([list("서울은")]).restore(list("서울은")).text == "서울은"


@given(st.lists(st.text(st.characters(exclude_categories=["Z", "C"]), max_size=5), max_size=9))
def test_every_word_stands_where_it_says(words):
    made = Detokeniser.learn([words]).restore(words)
    shown = [made.text[start:end] for start, end in made.places]
    escaped = {"``", "''"}
    assert all(a == b or b in escaped for a, b in zip(shown, words, strict=True))
    assert "".join(shown) == made.text.replace(" ", "")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("Mr. Lund 's co-pilot does n't see U.S. planes at 3:20 ...", "penn"),
        ("Lund 's co-pilot does n't see it .", "clitics"),
        ("tumour - suppressor of GSK - 3beta ( 0 . 05 ) .", "signs"),
        ("tumour - suppressor of Knudson ' s ( 0.05 ) .", "biomedical"),
        ("@anna see http://a.org/x #nice ...", "web"),
        ("@ anna see http://a.org/x with @ boris #nice ...", "topics"),
        ("S e o u l", "characters"),
        ("Mr.Lund, (see) it.", "spaces"),
    ],
)
def test_the_splitter_of_a_corpus(words, name):
    train = [Sentence(tuple(words.split()), ("O",) * len(words.split()))] * 5
    found = choose_cutting(train, Detokeniser.learn(s.words for s in train))
    assert found.splitter.name == name
    assert found.words == 1


def test_words_do_not_cost_entities(monkeypatch):
    """The words of an address are better kept, but every name would be inside of a word."""
    words = ("http://a.org/x", "says", "@", "anna", "at", "http://a.org/y", "...")
    train = [Sentence(words, ("O", "O", "O", "B-PER", "O", "O", "O"))] * 5
    joined = Detokeniser("@")  # Which does not know names: says@anna
    assert restored(train[0], joined)[0].text == "http://a.org/x says@anna at http://a.org/y..."
    found = choose_cutting(train, joined)
    assert (found.splitter.name, found.entities) == ("topics", 1)
    without = {name: each for name, each in SPLITTERS.items() if name != "topics"}
    monkeypatch.setattr(splitter_choice, "SPLITTERS", without)
    found = choose_cutting(train, joined)
    assert (found.splitter.name != "web", found.entities) == (True, 1)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("@ anna sings with @ boris .", "@anna sings with @boris."),
        ("Write to anna @ example .", "Write to anna@example."),
    ],
)
def test_a_lone_at_is_of_a_name_or_of_an_address(words, text):
    train = [words.split()] * 3
    assert Detokeniser.learn(train).restore(train[0]).text == text


def test_the_splitter_of_texts_is_the_one_that_spans_fit():
    train = [from_spans("a Paris-based cook, Anna's", [(2, 7, "LOC"), (20, 24, "PER")])]
    found = choose_cutting(train, Detokeniser(""))
    assert (found.splitter.name, found.entities) == ("biomedical", 1)


def test_a_wrong_mark_does_not_make_characters_of_words():
    """Only characters fit every mark, and a model of characters is useless for such a text."""
    right = from_spans("Anna's friend sings in Paris", [(0, 4, "PER"), (23, 28, "LOC")])
    wrong = from_spans("Boris cooks", [(0, 4, "PER")])
    found = choose_cutting([right] * 20 + [wrong], Detokeniser(""))
    assert found.splitter.name == "clitics"
    assert found.entities == pytest.approx(40 / 41)


def test_characters_are_words_where_particles_are_written_to_the_name():
    seoul = from_spans("김철수는 서울에서 산다", [(0, 3, "PER"), (5, 7, "LOC")])
    assert choose_cutting([seoul] * 5, Detokeniser("")).splitter.name == "characters"


def test_longer_texts_stay_whole():
    one = Sentence(("It", "rains", "."), ("O",) * 3)
    several = Sentence(("It", "rains", ".", "It", "snows", "."), ("O",) * 6)
    for sentence, expected in ((one, True), (several, False)):
        assert choose_cutting([sentence] * 3, Detokeniser("")).sentences is expected


@pytest.mark.parametrize("name", SPLITTERS)
def test_a_cutting_is_kept_as_data(name):
    cutting = Cutting(SPLITTERS[name], sentences=False, words=0.5)
    assert Cutting.from_dict(cutting.to_dict()) == cutting
    with pytest.raises(InputError, match="expected 'sentences' of words, got None"):
        Cutting.from_dict({"splitter": {}})


@pytest.mark.parametrize(
    ("name", "splitter", "words"), [("ncbi-disease", "signs", 0.999), ("gum", "penn", 0.99)]
)
def test_real_corpora(name: str, splitter: str, words: float, corpora: Path):
    corpus = load_corpus(name, corpora)
    assert corpus.cutting.splitter.name == splitter
    assert corpus.cutting.words > words
    assert corpus.cutting.entities > 0.99
    sentence = next(s for s in corpus.test if s.tags.count("O") < len(s) > 5)
    marked, places, _ = restored(sentence, corpus.detokeniser)
    for start, end, _ in marked.spans:
        assert {start, end} <= {edge for place in places for edge in place}


FRENCH = [
    Sentence(("Il", "parle", "de", "l'", name, "aujourd'hui", "."), (*"OOOO", "B-LOC", *"OO"))
    for name in ("Italie", "Orsay", "Égypte", "Helvétie", "Amérique")
]


def test_elided_words_touch_the_next_one_and_are_cut_there():
    detokeniser = Detokeniser.learn(sentence.words for sentence in FRENCH)
    marked, _, unsure = restored(FRENCH[2], detokeniser)
    assert (marked.text, unsure) == ("Il parle de l'Égypte aujourd'hui.", 0)
    assert marked.spans == ((14, 20, "LOC"),)
    cutting = choose_cutting(FRENCH, detokeniser)
    assert (cutting.splitter.name, cutting.words, cutting.entities) == ("elisions", 1.0, 1.0)
    texts = [restored(sentence, detokeniser)[0] for sentence in FRENCH]
    assert choose_cutting(texts, Detokeniser("")).entities == 1.0


def test_languages_without_elisions_keep_their_apostrophes():
    words = [["He", "was", "goin'", "on", "and"], *[["a", "plain", "line", "of", "words"]] * 100]
    detokeniser = Detokeniser.learn(words)
    assert not detokeniser.elides
    assert detokeniser.restore(words[0]).text == "He was goin' on and"
