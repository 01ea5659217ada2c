"""Corrupted sentences keep their tags; types of two corpora are matched as one reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.corruptions import STRENGTHS, TEXT
from calibrant.errors import InputError
from calibrant.tasks.language.sentences import Sentence
from calibrant.tasks.language.synthetic import generate_splits
from calibrant.tasks.ner.corpora.corrupted_sentences import corrupt_sentences
from calibrant.tasks.ner.corpora.shared_types import in_types_of, shared_types
from calibrant.tasks.ner.corpus import load_corpus, load_test

SENTENCES = generate_splits(0, train=1, dev=1, test=60, ood=1)["test"]


@pytest.mark.parametrize("kind", sorted(TEXT))
@pytest.mark.parametrize("strength", STRENGTHS)
def test_words_and_tags_stay_together(kind, strength):
    made = list(corrupt_sentences(SENTENCES, kind, strength))
    assert len(made) == len(SENTENCES)
    for old, new in zip(SENTENCES, made, strict=True):
        assert len(new.words) == len(new.tags) > 0
        assert all(word.strip() for word in new.words)
        if TEXT[kind].change is not None:
            assert new.tags == old.tags
    assert made == list(corrupt_sentences(SENTENCES, kind, strength))
    if (kind, strength) not in (("lower-case", 5), ("upper-case", 5)):  # Those hit every word.
        assert made != list(corrupt_sentences(SENTENCES, kind, strength, seed=1))


def entities(tags):
    """Plain loop: (place of the words, type) of each entity in BIO without stray I-."""
    found = []
    for place, tag in enumerate(tags):
        if tag[0] == "B":
            found.append(([place], tag[2:]))
        elif tag[0] == "I":
            found[-1][0].append(place)
    return found


@given(
    st.lists(st.sampled_from(["O", "B", "BI", "BII"]), min_size=1, max_size=8), st.integers(0, 99)
)
def test_dropped_words_leave_what_remains_of_each_entity(shapes, seed):
    """Numbered words tell where each came from; entities lose words, and never merge or part."""
    tags = [f"{letter}-X" if letter != "O" else "O" for shape in shapes for letter in shape]
    old = Sentence(tuple(str(place) for place in range(len(tags))), tuple(tags))
    new = next(corrupt_sentences([old], "dropped-words", 5, seed=seed))
    came_from = [int(word) for word in new.words]
    expected = [[p for p in places if p in came_from] for places, _ in entities(tags)]
    assert [[came_from[p] for p in places] for places, _ in entities(new.tags)] == [
        places for places in expected if places
    ]


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (["PER", "LOC", "ORG", "MISC"], ["Person", "loc", "creative-work"],
         {"Person": "PER", "loc": "LOC"}),
        (["person", "place"], ["PER", "LOC"], {"PER": "person", "LOC": "place"}),
        (["Disease"], ["disease"], {"disease": "Disease"}),
        (["Disease"], ["PER"], {}),
        (["group", "corporation"], ["group", "ORG"], {"group": "group"}),
        (["LOC", "location"], ["LOC", "place"], {"LOC": "LOC"}),
    ],
)  # fmt: skip
def test_types_that_are_shared(ours, theirs, expected):
    assert shared_types(ours, theirs) == expected


def test_words_of_other_types_are_not_judged():
    post = Sentence(
        ("At", "Acme", "Inc", "with", "Ann", "Lee"),
        ("O", "B-group", "I-group", "O", "B-person", "I-person"),
    )
    (new,), (judged,) = in_types_of(["O", "B-ORG", "I-ORG", "B-PER"], [post], "posts")
    assert new.tags == ("O", "B-ORG", "I-ORG", "O", "B-PER", "O")
    assert judged == [True, True, True, True, True, False]  # I-PER cannot be predicted.


def test_nothing_shared_names_both_sides():
    with pytest.raises(InputError, match=r"posts shares no .* it has PER, training has Disease"):
        in_types_of(["O", "B-Disease"], [Sentence(("Ann",), ("B-PER",))], "posts")
    with pytest.raises(InputError, match="it has none, training has Disease"):
        in_types_of(["O", "B-Disease"], [Sentence(("Ann",), ("O",))], "posts")


def test_a_test_split_alone(tmp_path):
    text = "Ann\tB-PER\n\n\nsings\tO\n"
    (tmp_path / "test.conll").write_text(text)
    expected = [Sentence(("Ann",), ("B-PER",)), Sentence(("sings",), ("O",))]
    assert load_test(str(tmp_path)) == expected
    assert load_test(str(tmp_path / "test.conll")) == expected
    assert load_test("synthetic") == list(load_corpus("synthetic").test)
    (tmp_path / "test.conll").rename(tmp_path / "train.conll")
    with pytest.raises(InputError, match="has no test split; found: train"):
        load_test(str(tmp_path))
    (tmp_path / "train.conll").rename(tmp_path / "test.pdf")
    with pytest.raises(InputError, match="is not a file of sentences"):
        load_test(str(tmp_path / "test.pdf"))


def test_wnut17_in_the_types_of_conll2003(corpora):
    labels = load_corpus("conll2003", corpora).labels
    posts = load_test("wnut17", corpora)
    new, judged = in_types_of(labels, posts, "wnut17")
    counts = {}
    for old, sentence, keeps in zip(posts, new, judged, strict=True):
        for before, after, keep in zip(old.tags, sentence.tags, keeps, strict=True):
            kind = before[2:] or "O"
            counts.setdefault((kind, after[2:] or "O", keep), 0)
            counts[kind, after[2:] or "O", keep] += 1
    assert set(counts) == {
        ("O", "O", True), ("person", "PER", True), ("location", "LOC", True),
        ("corporation", "ORG", True), ("group", "ORG", True), ("creative-work", "O", False),
        ("product", "O", False),
    }  # fmt: skip
