"""The entity section of a run's report: the confidence that predicting gives."""

import numpy as np
import pytest

from calibrant import Predictions
from calibrant.auditing import audit, learned_entities
from calibrant.calibrators import Temperature
from calibrant.comparison import SpanCalibrator
from calibrant.metrics import bin_confidences, ece, entity_f1, mean_confidence


def tagged(seed, sentences=120, words=9):
    random = np.random.default_rng(seed)
    names = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    logits = 2 * random.normal(size=(sentences * words, 5))
    honest = np.exp(logits / 2) / np.exp(logits / 2).sum(axis=1, keepdims=True)
    labels = (honest.cumsum(axis=1) > random.random((len(logits), 1))).argmax(axis=1)
    groups = {"sentence": np.repeat(np.arange(sentences), words)}
    return Predictions.from_logits(logits, labels, label_names=names, groups=groups)


def test_the_view_is_of_the_learned_confidence():
    valid, test = tagged(0), tagged(1)
    words, fitted = Temperature().fit(valid), SpanCalibrator().fit(valid)
    learned = fitted.transform(test).confidence
    view = learned_entities(test, words.transform(test), fitted.reduction_, learned, bootstrap=50)
    state = bin_confidences(fitted.transform(test))
    measured = {m.name: m for m in view.measures}
    assert measured["entity_ece"].value == pytest.approx(ece(state))
    assert measured["entity_confidence"].value == pytest.approx(mean_confidence(state))
    assert measured["entity_ece"].title == "Entity ECE (learned confidence)"
    assert measured["entity_f1"].value == pytest.approx(entity_f1(test))
    assert measured["entity_ece"].low is not None
    assert int(view.state.n) == sum(row.predicted for row in view.types)
    raw = audit(words.transform(test), bootstrap=0).entities
    kept = {m.name: m.value for m in raw.measures}
    for name in ("entity_f1", "token_f1", "entity_precision", "ece_without_o", "apcr"):
        assert measured[name].value == pytest.approx(kept[name]), name
    assert measured["entity_ece"].value < kept["entity_ece"]
