"""The numbers of one run: validation and test predictions, raw and after each calibrator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from calibrant.calibrators import Calibrator, Temperature, calibrator_class
from calibrant.calibrators.correction import CORRECTIONS
from calibrant.comparison import SpanCalibrator
from calibrant.comparison.cross_validation import Folds, make_folds, out_of_fold
from calibrant.comparison.span_calibrator import entity_words, fit_entities
from calibrant.errors import InputError
from calibrant.metrics import (
    Confidences,
    accuracy,
    aurc,
    auroc,
    ece,
    mean_confidence,
    measure,
    top_label,
)
from calibrant.metrics.confidences import bin_confidences
from calibrant.predictions import Predictions

__all__ = ["LazyPredictions", "measure_run"]

_FOLDS = 5  # For the cross-validation of a calibrator.


class LazyPredictions(Mapping[str, Predictions]):
    """The predictions of each part by its name, computed at each access.

    >>> made = LazyPredictions({"one": 1}, lambda part: f"predictions of {part}")
    >>> list(made.items())
    [('one', 'predictions of 1')]
    """

    def __init__(self, parts: Mapping[str, Any], predict: Callable[[Any], Predictions]) -> None:
        self.parts, self.predict = parts, predict

    def __len__(self) -> int:
        return len(self.parts)

    def __iter__(self) -> Iterator[str]:
        return iter(self.parts)

    def __getitem__(self, name: str) -> Predictions:
        """Predict one part."""
        return self.predict(self.parts[name])


def measure_run(
    valid: Predictions,
    test: Predictions,
    names: Sequence[str] = ("identity", "temperature"),
    ood: Predictions | None = None,
    shift: Mapping[str, Predictions] | None = None,
    *,
    calibrator: str | None = None,
    measure: Callable[[Predictions], dict[str, float]] = measure,
    by_class: Callable[[Predictions], dict[str, dict[str, float]]] | None = None,
    outside: Predictions | None = None,
    fitted: Mapping[str, Calibrator] | None = None,
    entities: SpanCalibrator | None = None,
) -> dict[str, Any]:
    """Return ``{calibrator: {"valid": …, "test": …}}``, with each calibrator fitted on validation.

    - ``ood`` adds the same numbers for an out-of-domain part.
    - ``shift`` adds ``"shift": {name: …}`` for the first two of ``names`` and for ``calibrator``,
      which predictions of the run use. Each part is predicted once, in turn.
    - ``"cross_validated"`` measures validation with calibrators fitted on other sentences. It
      serves to choose a calibrator, and is absent if there is one sentence.
    - ``outside`` are examples that belong to no class. ``"outside"`` says how well the confidence
      separates them from the test split.
    - For tags, ``calibrator`` also has ``"entities"``: how honest the learned confidences of whole
      entities are, and under ``"shift"`` the same for each shifted part. ``entities`` is what was
      learned, by default from ``valid`` alone.
    - ``by_class`` measures each class of the test split, under ``"classes"``.
    - ``fitted`` holds calibrators, by name, that are already fitted on ``valid``. One that was
      corrected for new data may have any name.
    """
    known, results = fitted or {}, dict[str, Any]()
    under_shift: dict[str, Calibrator] = {}
    folds = _folds(valid)
    for name in dict.fromkeys((*names, *([] if calibrator is None else [calibrator]))):
        made = known[name] if name in known else calibrator_class(name)().fit(valid)
        calibrated = made.transform(test)
        results[name] = {"valid": measure(made.transform(valid)), "test": measure(calibrated)}
        if folds is not None and name == "identity":  # It learns nothing.
            results[name]["cross_validated"] = results[name]["valid"]
        elif folds is not None and _is_of_validation(made):
            new = out_of_fold(calibrator_class(name)(), valid, folds)
            results[name]["cross_validated"] = measure(new)
        if ood is not None:
            results[name]["ood"] = measure(made.transform(ood))
        if shift and name in (*names[:2], calibrator):
            under_shift[name], results[name]["shift"] = made, {}
        if by_class is not None and (found_by_class := by_class(calibrated)):
            results[name]["classes"] = found_by_class
        if outside is not None:
            results[name]["outside"] = _against(calibrated, top_label(made.transform(outside))[0])
        if isinstance(made, Temperature):
            results[name]["temperature"] = made.temperature_
        if name == calibrator and "entity_f1" in results[name]["test"]:
            entities = fit_entities(made, valid) if entities is None else entities
            results[name]["entities"] = {
                "reduction": entities.reduction_,
                "calibrator": entities.calibrator_.name,
                **_measure_entities(made, entities, test),
            }
    for other, part in (shift or {}).items():  # One at a time: there may be many, of many pixels.
        for name, made in under_shift.items():
            results[name]["shift"][other] = measure(made.transform(part))
            if entities is not None and "entities" in results[name]:
                found = results[name]["entities"].setdefault("shift", {})
                found[other] = _measure_entities(made, entities, part)
    return results


def _is_of_validation(made: Calibrator) -> bool:
    """Return whether validation alone gives this calibrator, without copies or new data."""
    return not made.needs_copies and not CORRECTIONS & made.learned().keys()


def _measure_entities(
    words: Calibrator, fitted: SpanCalibrator, test: Predictions
) -> dict[str, float]:
    """Measure the learned confidences of the entities of some words."""
    found = fitted.transform(entity_words(words, test))
    state = bin_confidences(found)
    return {
        "examples": float(len(found)),
        "ece": float(ece(state)),
        "mean_confidence": float(mean_confidence(state)),
        "accuracy": float(accuracy(state)),
        "auroc": float(auroc(found)),
        "aurc": float(aurc(found)),
    }


def _folds(valid: Predictions) -> Folds | None:
    """Deal whole sentences to folds; return None if there is one sentence."""
    try:
        return make_folds(valid, _FOLDS, seed=0)
    except InputError:
        return None


def _against(test: Predictions, outside: np.ndarray) -> dict[str, float]:
    """Measure how well confidence separates the test split from examples of no class (AUROC)."""
    inside = top_label(test)[0]
    belongs = np.repeat([True, False], [len(inside), len(outside)])
    return {
        "auroc": float(auroc(Confidences(np.append(inside, outside), belongs))),
        "mean_confidence": float(np.mean(outside)),
        "examples": float(len(outside)),
    }
