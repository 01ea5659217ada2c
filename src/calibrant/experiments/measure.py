"""The numbers of one run: its validation and test predictions, raw and after each post-hoc map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calibrant.calibrators import Temperature, calibrator_class
from calibrant.metrics import (
    accumulate,
    accuracy,
    adaptive_ece,
    aurc,
    auroc,
    brier,
    classwise_ece,
    confidences,
    debiased_ece,
    ece,
    entity_f1,
    entity_state,
    ks_error,
    mce,
    mean_confidence,
    nll,
    overconfidence_error,
    token_f1,
    without_outside,
)
from calibrant.predictions import Predictions

__all__ = ["measure", "measure_run"]


def measure(p: Predictions) -> dict[str, float]:
    """Every metric that a table may want, of predictions with BIO tags."""
    state, found = accumulate(p), confidences(p)
    entities = entity_state(p)
    numbers = {
        "entity_f1": entity_f1(p),
        "token_f1": token_f1(p),
        "accuracy": accuracy(state),
        "mean_confidence": mean_confidence(state),
        "ece": ece(state),
        "mce": mce(state),
        "debiased_ece": debiased_ece(state),
        "adaptive_ece": adaptive_ece(found),
        "classwise_ece": classwise_ece(state),
        "overconfidence_error": overconfidence_error(state),
        "ks_error": ks_error(found),
        "nll": nll(state),
        "brier": brier(state),
        "ece_without_o": ece(without_outside(p)),
        "entity_ece": ece(entities),
        "entity_confidence": mean_confidence(entities),
        "entity_precision": accuracy(entities),
        "auroc": auroc(found),
        "aurc": aurc(found),
    }
    numbers["apcr"] = float(np.divide(np.square(numbers["entity_f1"]), numbers["ece"]))
    return {name: float(value) for name, value in numbers.items()}


def measure_run(
    valid: Predictions,
    test: Predictions,
    maps: Sequence[str] = ("identity", "temperature"),
    ood: Predictions | None = None,
    shift: Mapping[str, Predictions] | None = None,
) -> dict[str, Any]:
    """``{map: {"valid": …, "test": …}}``, each map fitted on validation, and what it learned.

    With ``ood``, the same of an out-of-domain part; with ``shift``, ``"shift": {name: …}`` of each.
    """
    results: dict[str, Any] = {}
    for name in maps:
        fitted = calibrator_class(name)().fit(valid)
        results[name] = {
            "valid": measure(fitted.transform(valid)),
            "test": measure(fitted.transform(test)),
        }
        if ood is not None:
            results[name]["ood"] = measure(fitted.transform(ood))
        if shift:
            results[name]["shift"] = {
                other: measure(fitted.transform(part)) for other, part in shift.items()
            }
        if isinstance(fitted, Temperature):
            results[name]["temperature"] = fitted.temperature_
    return results
