"""The numbers of one run: its validation and test predictions, raw and after each post-hoc map."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from calibrant.calibrators import Calibrator, Temperature, calibrator_class
from calibrant.comparison import EntityMap
from calibrant.comparison.cross_validation import Folds, make_folds, out_of_fold
from calibrant.comparison.entity_map import entity_words, new_entity_words
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

_FOLDS = 5  # Of the cross-validation of a map.


class LazyPredictions(Mapping[str, Predictions]):
    """The predictions of each part by its name, made anew each time.

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
        """The predictions of one part."""
        return self.predict(self.parts[name])


def measure_run(
    valid: Predictions,
    test: Predictions,
    maps: Sequence[str] = ("identity", "temperature"),
    ood: Predictions | None = None,
    shift: Mapping[str, Predictions] | None = None,
    *,
    calibrator: str | None = None,
    measure: Callable[[Predictions], dict[str, float]] = measure,
    outside: np.ndarray | None = None,
    fitted: Mapping[str, Calibrator] | None = None,
) -> dict[str, Any]:
    """``{map: {"valid": …, "test": …}}``, each map fitted on validation, and what it learned.

    With ``ood``, the same of an out-of-domain part; with ``shift``, ``"shift": {name: …}`` of each,
    for the first two maps and for ``calibrator``, the map that the run is put to use with; each
    part is asked for once, in turn.
    ``"cross_validated"`` is validation measured without fitting on what is measured, to choose
    by, where it has more than one sentence.
    ``outside`` are logits of what belongs to no class: ``"outside"`` then tells how well the
    confidence parts it from the test split. Where tags are measured, ``calibrator`` also has
    ``"entities"``: how honest the confidences of whole entities are that a user of the run gets.
    ``fitted`` are maps that are fitted on ``valid`` already, by name.
    """
    known, results = fitted or {}, dict[str, Any]()
    under_shift: dict[str, Calibrator] = {}
    folds = _folds(valid)
    for name in dict.fromkeys((*maps, *([] if calibrator is None else [calibrator]))):
        map_ = known[name] if name in known else calibrator_class(name)().fit(valid)
        calibrated = map_.transform(test)
        results[name] = {"valid": measure(map_.transform(valid)), "test": measure(calibrated)}
        if folds is not None and name == "identity":  # It learns nothing.
            results[name]["cross_validated"] = results[name]["valid"]
        elif folds is not None:
            new = out_of_fold(calibrator_class(name)(), valid, folds)
            results[name]["cross_validated"] = measure(new)
        if ood is not None:
            results[name]["ood"] = measure(map_.transform(ood))
        if shift and name in (*maps[:2], calibrator):
            under_shift[name], results[name]["shift"] = map_, {}
        if outside is not None:
            results[name]["outside"] = _against(calibrated, _calibrated(map_, outside))
        if isinstance(map_, Temperature):
            results[name]["temperature"] = map_.temperature_
        if name == calibrator and "entity_f1" in results[name]["test"]:
            results[name]["entities"] = _measure_entities(map_, valid, test)
    for other, part in (shift or {}).items():  # One at a time: there may be many, of many pixels.
        for name, map_ in under_shift.items():
            results[name]["shift"][other] = measure(map_.transform(part))
    return results


def _measure_entities(words: Calibrator, valid: Predictions, test: Predictions) -> dict[str, Any]:
    """Confidences of whole entities on the test split, learned on validation, as in predicting."""
    fitted = EntityMap().fit(new_entity_words(words, valid))
    found = fitted.transform(entity_words(words, test))
    state = bin_confidences(found)
    return {
        "reduction": fitted.reduction_,
        "examples": float(len(found)),
        "ece": float(ece(state)),
        "mean_confidence": float(mean_confidence(state)),
        "accuracy": float(accuracy(state)),
        "auroc": float(auroc(found)),
        "aurc": float(aurc(found)),
    }


def _folds(valid: Predictions) -> Folds | None:
    """Whole sentences in each; None where there is but one."""
    try:
        return make_folds(valid, _FOLDS, seed=0)
    except InputError:
        return None


def _calibrated(fitted: Calibrator, logits: np.ndarray) -> np.ndarray:
    """The confidences that a map gives examples of no class."""
    unlabelled = np.zeros(len(logits), np.int64)  # Any class: a map does not look at it.
    return top_label(fitted.transform(Predictions.from_logits(logits, unlabelled)))[0]


def _against(test: Predictions, outside: np.ndarray) -> dict[str, float]:
    """AUROC of in- against out-of-scope: the chance that the confidence ranks such a pair right."""
    inside = top_label(test)[0]
    belongs = np.repeat([True, False], [len(inside), len(outside)])
    return {
        "auroc": float(auroc(Confidences(np.append(inside, outside), belongs))),
        "mean_confidence": float(np.mean(outside)),
        "examples": float(len(outside)),
    }
