"""Synthetic predictions with known miscalibration, and the fits that several tests share."""

import warnings

import numpy as np
import pytest

from calibrant import Predictions
from calibrant.calibrators import CALIBRATORS, CalibrationWarning

NAMES = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")


def overconfident(n=500, classes=5, scale=3.0, seed=0, dtype=np.float64, names=None):
    """Labels drawn from softmax(z); the logits are ``scale`` · z, so the best T is ``scale``."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, classes)) * 1.5
    labels = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    groups = {"position": np.arange(n) % 13, "sentence": np.arange(n) // 13}
    logits = (scale * z).astype(dtype)
    return Predictions.from_logits(logits, labels, label_names=names, groups=groups)


def tagged(**options):
    """Overconfident predictions of BIO tags, which every calibrator can be fitted on."""
    return overconfident(names=NAMES, **options)


def as_probabilities(predictions):
    return predictions.with_scores(predictions.probabilities(), "probabilities")


def quiet_fit(calibrator, predictions):
    """Fit, without the warnings that some inputs are meant to cause."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return calibrator.fit(predictions)


maps = pytest.mark.parametrize("name", CALIBRATORS)
kinds = pytest.mark.parametrize("of_kind", [lambda p: p, as_probabilities], ids=["logits", "p"])


def gradient(logits, labels, temperature):
    """d mean NLL / d log(1/T), by rows in float64: an independent, slower way to compute it."""
    z = np.asarray(logits, np.float64) / temperature
    z = z - z.max(axis=1, keepdims=True)
    p = np.exp(z)
    p /= p.sum(axis=1, keepdims=True)
    return float(((p * z).sum(axis=1) - z[np.arange(len(z)), labels]).mean())
