"""Documents of an overconfident tool, and their gold entities."""

import numpy as np
import pytest

from calibrant.entities import Document, Entity, match_entities

KINDS = {"PER": 0.9, "LOC": 0.7, "ORG": 0.4}


def made_documents(seed=0, count=400, kinds=KINDS):
    """Return predicted and gold documents; an entity is right more rarely than its score says."""
    rng = np.random.default_rng(seed)
    predicted, gold = [], []
    names = list(kinds)
    for i in range(count):
        ours, theirs = [], []
        for k in range(rng.integers(0, 5)):
            kind = names[rng.integers(len(names))]
            score, start, length = rng.uniform(0.3, 0.999), 30 * k, int(rng.integers(2, 20))
            right = rng.random() < kinds[kind] * score
            ours.append(Entity(start, start + length, kind, float(score)))
            if right:
                theirs.append(Entity(start, start + length, kind))
            elif rng.random() < 0.5:
                theirs.append(Entity(start + 1, start + length, kind))
        if rng.random() < 0.3:
            theirs.append(Entity(200, 204, names[0]))
        predicted.append(Document(tuple(ours), str(i), "x" * 300))
        gold.append(Document(tuple(theirs), str(i), "x" * 300))
    gold[0] = Document(
        tuple(Entity(250 + i, 251 + i, k) for i, k in enumerate(names)), "0", "x" * 300
    )
    return predicted, gold


@pytest.fixture(scope="session")
def matched():
    return match_entities(*made_documents())


@pytest.fixture(scope="session")
def unseen():
    return match_entities(*made_documents(seed=1, count=2000))
