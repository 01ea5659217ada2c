"""A predictor that needs no model: the class of a text is its length."""

import time

import numpy as np
import pytest

from calibrant.calibrators import Identity
from calibrant.metrics import Confidences
from calibrant.predictions import Predictions
from calibrant.tasks.class_predictor import ClassPredictor
from calibrant.tasks.scoring import Scored

pytest.importorskip("starlette")
pytest.importorskip("prometheus_client")


class ByLength(ClassPredictor):
    """Short, middle or long, with confidence .9; ``seconds`` is the time of one call."""

    def __init__(self, seconds=0.0):
        labels = ("short", "middle", "long")
        evidence = Confidences(np.full(400, 0.9), np.arange(400) % 10 > 0, np.arange(400))
        example = Predictions.from_logits(np.zeros((3, 3)), [0, 1, 2], label_names=labels)
        super().__init__(None, labels, Identity().fit(example), evidence)
        self.seconds, self.calls = seconds, []

    def scored(self, inputs):
        time.sleep(self.seconds)
        self.calls.append(list(inputs))
        if "boom" in inputs:
            raise RuntimeError("boom")
        classes = np.minimum(np.array([len(text) for text in inputs]) // 10, 2)
        return Scored(np.log(np.where(np.eye(3)[classes] == 1, 0.9, 0.05)), {})

    def example(self, size=2):
        return {}

    def settings(self):
        return {}


@pytest.fixture
def predictor():
    return ByLength()


@pytest.fixture
def slow_predictor():
    return ByLength(0.2)
