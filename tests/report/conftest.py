"""Audits to report on."""

from dataclasses import replace

import numpy as np
import pytest

from calibrant import Predictions
from calibrant.auditing import Audit, ClassRow, EntityView, Measure, Mistake
from calibrant.metrics import accumulate, accuracy, confidences, ece, nll, top_label


def predictions_of(stretch=4.5, classes=10, n=2000, names=None):
    """Predictions that a stretch of about 1.8 would calibrate."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, n)
    logits = rng.normal(size=(n, classes))
    logits[np.arange(n), labels] += 1.8
    groups = {"sentence": np.arange(n) // 9, "position": np.arange(n) % 9}
    return Predictions.from_logits(stretch * logits, labels, label_names=names, groups=groups)


def audit_of(predictions, bins=15, **provenance):
    state = accumulate(predictions, bins)
    names = predictions.names
    count = state.predicted_count
    classes = [
        ClassRow(
            names[k],
            int(state.label_count[k]),
            int(count[k]),
            float(state.predicted_confidence[k] / count[k]) if count[k] else float("nan"),
            float(state.predicted_correct[k] / count[k]) if count[k] else float("nan"),
        )
        for k in range(state.classes)
    ]
    classes.sort(key=lambda row: -abs(np.nan_to_num(row.gap)))
    confidence, predicted, correct = top_label(predictions)
    wrong = np.flatnonzero(~correct)
    wrong = wrong[np.argsort(-confidence[wrong])][:30]
    mistakes = [
        Mistake(
            int(i),
            float(confidence[i]),
            names[predicted[i]],
            names[predictions.labels[i]],
            {name: column[i] for name, column in predictions.groups.items()},
        )
        for i in wrong
    ]
    error = ece(state)
    measures = (
        Measure("accuracy", "Accuracy", accuracy(state), 0.55, 0.61, "58.2 % are right."),
        Measure("ece", "Expected calibration error", error, error - 0.01, error + 0.01, "Far off."),
        Measure("nll", "Negative log-likelihood", nll(state), None, None, "Surprise in nats."),
        Measure("apcr", "APCR", float("inf"), None, None, "Undefined where ECE is 0."),
    )
    return Audit(
        names,
        state,
        confidences(predictions),
        measures,
        ("Overconfident by 24 points: it says 84 % and is right 60 %.", "2 of 15 bins are empty."),
        tuple(classes),
        tuple(mistakes),
        None,
        {
            "files": [{"name": "predictions.parquet", "sha256": "9f86d081" * 8}],
            "n": len(predictions),
            "edges": state.bins.edges().tolist(),
            "dtype": "float64",
            "versions": {"calibrant": "0.1.0", "numpy": np.__version__},
            **provenance,
        },
    )


@pytest.fixture(scope="session")
def make_predictions():
    return predictions_of


@pytest.fixture(scope="session")
def make_audit():
    return audit_of


@pytest.fixture(scope="session")
def overconfident():
    return audit_of(predictions_of())


@pytest.fixture(scope="session")
def calibrated():
    return audit_of(predictions_of(stretch=1.8))


@pytest.fixture(scope="session")
def entities():
    """An audit of BIO tags with its view of whole entities."""
    tags = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
    plain = audit_of(predictions_of(classes=5, names=tags))
    state = accumulate(predictions_of(classes=5, n=300))
    measures = (Measure("entity_f1", "Entity F1", 0.61, 0.55, 0.66, "Exact spans and types."),)
    types = (ClassRow("PER", 120, 130, 0.91, 0.7), ClassRow("LOC", 90, 80, 0.8, 0.81))
    return replace(plain, entities=EntityView(measures, state, "product", types))
