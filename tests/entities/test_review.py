"""Review of a tool's entities: up to which score each gold entity is found."""

import numpy as np
import pytest

from calibrant.entities import Document, Entity, match_entities
from calibrant.entities.review import gold_reach, guarantee_entities
from calibrant.errors import InputError


def drawn(random, documents):
    """Overlapping spans of two types; some gold entities have no prediction near them."""
    predicted, gold = [], []
    for _ in range(documents):
        spans = [(int(a), int(a + random.integers(1, 6))) for a in random.integers(0, 30, 6)]
        kinds = random.choice(["PER", "LOC"], 6)
        pairs = list(dict.fromkeys(zip(spans, kinds, strict=True)))
        entities = [Entity(a, b, str(kind), float(random.random())) for (a, b), kind in pairs]
        truth = [Entity(e.start, e.end + int(random.integers(0, 2)), e.type) for e in entities]
        predicted.append(Document(tuple(entities[:4])))
        gold.append(Document(tuple(dict.fromkeys(truth[1:]))))
    return predicted, gold


def reach_by_loops(predicted, gold, accepting):
    found = []
    for ours, theirs in zip(predicted, gold, strict=True):
        for true in theirs.entities:
            best = -np.inf
            for guess in ours.entities:
                touches = guess.start < true.end and true.start < guess.end
                same = guess.type == true.type
                if accepting == "strict":
                    same = guess.span == true.span
                if touches and (accepting is None or same or guess.score < 0.5):
                    best = max(best, guess.score)
            found.append(best)
    return found


@pytest.mark.parametrize("accepting", [None, "strict", "overlapping"])
def test_the_reach_is_that_of_the_plain_loop(accepting):
    predicted, gold = drawn(np.random.default_rng(0), 40)
    matched = match_entities(predicted, gold)
    assert gold_reach(matched, accepting).tolist() == reach_by_loops(predicted, gold, accepting)


def test_review_holds_on_new_documents():
    """With probability 0.9 at most a share of 0.3 is missed: in 40 draws, rarely more."""
    random, broken = np.random.default_rng(1), 0
    new = match_entities(*drawn(random, 3000))
    reach = gold_reach(new)
    weight = 1 / np.bincount(new.gold_document)[new.gold_document] / new.documents
    for _ in range(40):
        policy = guarantee_entities(match_entities(*drawn(random, 150)), max_missed=0.3)
        broken += weight[reach < policy.review["threshold"]].sum() > 0.3
    assert broken <= 8


def test_what_cannot_be_promised():
    predicted, gold = drawn(np.random.default_rng(2), 60)
    with pytest.raises(InputError, match=r"missed whatever is reviewed\. No predicted entity"):
        guarantee_entities(match_entities(predicted, gold), max_missed=0.01)
    with pytest.raises(InputError, match=r"or only wrong ones .* leave --target-risk out"):
        guarantee_entities(match_entities(predicted, gold), max_missed=0.01, target_risk=0.5)
    with pytest.raises(InputError, match="too few for at most 40 % missed"):
        guarantee_entities(match_entities(predicted[:2], gold[:2]), max_missed=0.4)
    kept = {"PER": "PER", "LOC": "LOC"}
    empty = match_entities(predicted, [Document(())] * 60, renamed=kept)
    with pytest.raises(InputError, match="true entities, got none"):
        guarantee_entities(empty, max_missed=0.4)
