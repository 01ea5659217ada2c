"""Predicted entities next to gold ones: which are right, missed, or cannot be paired."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.entities import Document, Entity, match_entities
from calibrant.errors import InputError


def test_by_hand():
    predicted = [
        Document((Entity(0, 4, "PER", 0.9), Entity(5, 9, "LOC", 0.6), Entity(20, 22, "LOC", 0.1)))
    ]
    gold = [Document((Entity(0, 4, "PER"), Entity(8, 12, "LOC"), Entity(4, 5, "LOC")))]
    found = match_entities(predicted, gold)
    assert found.right["strict"].tolist() == [True, False, False]
    assert found.right["overlapping"].tolist() == [True, True, False]
    assert found.found["strict"].tolist() == [True, False, False]
    assert found.found["overlapping"].tolist() == [True, True, False]
    assert found.predicted.length.tolist() == [4, 4, 2]


SPANS = st.lists(
    st.tuples(st.integers(0, 20), st.integers(1, 6), st.sampled_from("AB")), max_size=8, unique=True
).map(lambda spans: [(s, s + n, k) for s, n, k in spans])


@given(SPANS.filter(bool), SPANS)
def test_overlaps_are_those_of_plain_loops(ours, theirs):
    theirs = [*theirs, (90, 91, "A"), (92, 93, "B")]
    predicted = [Document(tuple(Entity(*span, 0.5) for span in ours))]
    found = match_entities(predicted, [Document(tuple(Entity(*span) for span in theirs))])

    def shares(a, b):
        return a[2] == b[2] and bool(set(range(*a[:2])) & set(range(*b[:2])))

    assert found.right["strict"].tolist() == [a in theirs for a in ours]
    assert found.right["overlapping"].tolist() == [any(shares(a, b) for b in theirs) for a in ours]
    assert found.found["overlapping"].tolist() == [any(shares(a, b) for a in ours) for b in theirs]


def doc(*entities, id=None, text=None):  # noqa: A002
    return Document(tuple(entities), id, text)


ONE, GOLD = Entity(0, 2, "A", 0.5), Entity(0, 2, "A")


def test_documents_are_paired_by_id_text_or_order():
    by_id = match_entities([doc(id="1"), doc(ONE, id="2")], [doc(GOLD, id="2"), doc(id="1")])
    by_text = match_entities(
        [doc(text="ab"), doc(ONE, text="cd")], [doc(GOLD, text="cd"), doc(text="ab")]
    )
    by_order = match_entities([doc(), doc(ONE)], [doc(text="ab"), doc(GOLD, text="ab")])
    for found in (by_id, by_text, by_order):
        assert found.right["strict"].tolist() == [True]
        assert found.documents == 2
    assert by_id.names == ("1", "2")


BAD = [
    ([doc(ONE, id="1")], [doc(GOLD, id="2")], "not in GOLD, such as the one with the id '1'"),
    (
        [doc(ONE, id="1")],
        [doc(GOLD, id="1"), doc(id="2")],
        "1 of 2 documents of GOLD are not in PRED",
    ),
    ([doc(ONE, id="1")] * 2, [doc(GOLD, id="1")], "two documents have the id '1'"),
    ([doc(ONE)], [doc(GOLD), doc()], "PREDICTED has 1 documents and GOLD 2"),
    (
        [doc(ONE, id="1", text="ab")],
        [doc(GOLD, id="1", text="ac")],
        "differs between PREDICTED and GOLD",
    ),
    ([doc(Entity(0, 9, "A", 0.5))], [doc(GOLD, text="abc")], "outside of its text of 3"),
    ([doc(ONE, text="abc")], [doc(Entity(1, 9, "A"))], "GOLD, document 1: entity 1 .A. ends at 9"),
    ([doc()], [doc(GOLD)], "PREDICTED has no entities"),
    ([doc(Entity(0, 2, "B", 0.5))], [doc(GOLD)], "'B' is predicted, but GOLD never has it"),
    ([doc(GOLD)], [doc(GOLD)], "is it a second gold file"),
    ([doc(GOLD)], [doc(ONE)], "are the two files swapped"),
    ([doc(ONE, Entity(3, 4, "A"))], [doc(GOLD)], "1 of 2 predicted entities have no score"),
]


@pytest.mark.parametrize(("predicted", "gold", "expected"), BAD)
def test_what_cannot_be_paired(predicted, gold, expected):
    with pytest.raises(InputError, match=expected):
        match_entities(predicted, gold)


def test_types_get_the_names_of_gold():
    predicted = [doc(Entity(0, 2, "PERSON", 0.5), Entity(3, 4, "X", 0.5), Entity(5, 6, "Y", 0.5))]
    gold = [doc(Entity(0, 2, "PER"), Entity(3, 4, "X"))]
    renamed = {"PERSON": "PER", "X": None, "Y": "Y"}
    found = match_entities(predicted, gold, renamed=renamed)
    assert found.predicted.type.tolist() == ["PER", "Y"]
    assert found.right["strict"].tolist() == [True, False]
    assert found.gold_type.tolist() == ["PER"]
    with pytest.raises(InputError, match=r"Unknown type 'PERSOM'\. Did you mean 'PERSON'"):
        match_entities(predicted, gold, renamed={"PERSOM": "PER"})


def test_without_scores():
    found = match_entities([doc(GOLD)], [doc(GOLD)], scores=False)
    assert not found.scored
    assert np.isnan(found.predicted.score).all()
