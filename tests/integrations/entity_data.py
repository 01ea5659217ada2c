"""What the tests of all adapters share: a text, its entities, and a calibrator of few numbers."""

import json
from pathlib import Path

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


def assert_form_is_recorded(name, output):
    """The library gives today the keys and types of its output that the other tests read."""
    path = Path(__file__).parent.parent / "entities" / "recorded_outputs.json"
    recorded = json.loads(path.read_text("utf-8"))[name]["output"]
    plain = json.loads(json.dumps(output, default=lambda number: number.item()))
    assert _form(plain) == _form(recorded)


def _form(value):
    """The keys and types of a value; a list has the distinct forms of its members."""
    if isinstance(value, dict):
        return {key: _form(each) for key, each in value.items()}
    if isinstance(value, list):
        return sorted({json.dumps(_form(each), sort_keys=True) for each in value})
    return type(value).__name__
