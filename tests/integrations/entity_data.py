"""What the tests of all adapters share: a text, its entities, and a calibrator of few numbers."""

import numpy as np

from calibrant.entities import Document, Entity, EntityCalibrator, match_entities

TEXT = "Rosa Lind moved to Paris ."
GOLD = [(0, 2, "PER"), (4, 5, "LOC")]  # in words


def small_calibrator(*types, scores=True):
    """A calibrator of these types whose confidences lie well below the scores."""
    rng = np.random.default_rng(0)
    predicted, gold = [], []
    for i in range(200):
        kind, score = types[i % len(types)], float(rng.uniform(0.2, 1))
        entity = Entity(0, 4 + i % 9, kind, score if scores else None)
        right = rng.random() < score / 2
        predicted.append(Document((entity,)))
        gold.append(Document((Entity(0, entity.end + (not right), kind),)))
    return EntityCalibrator().fit(match_entities(predicted, gold, scores=scores))
