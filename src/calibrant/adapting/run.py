"""Correct a fitted calibrator for a new data set without labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calibrant.adapting.class_shares import adapt_class_shares
from calibrant.adapting.record import Adaptation
from calibrant.adapting.set_level import SetPoint, fit_line
from calibrant.arguments import check_kind, check_unweighted, check_whole
from calibrant.calibrators import Calibrator
from calibrant.calibrators.correction import corrected
from calibrant.calibrators.signals import CORRUPTION
from calibrant.charts.numbers import percent
from calibrant.comparison.under_shift import without_copies
from calibrant.errors import InputError, unknown_name
from calibrant.metrics.confidences import top_label
from calibrant.old_names import renamed_arguments
from calibrant.predictions import Predictions
from calibrant.watching.pieces import labelled_rows, unit_column
from calibrant.watching.sums import Estimate

__all__ = ["METHODS", "adapt"]

METHODS = ("auto", "em", "bbse", "set-level")
_FARTHEST = 30.0  # Log-odds of a shift.


@renamed_arguments(by="keep_together")
def adapt(
    calibrator: Calibrator,
    valid: Predictions,
    unlabelled: Predictions,
    *,
    method: str = "auto",
    copies: Mapping[str, Predictions] | Sequence[Predictions] = (),
    keep_together: str | None = "auto",
    level: float = 0.95,
    bootstrap: int = 400,
    seed: int = 0,
) -> Adaptation:
    """Correct a fitted calibrator for a new data set, whose labels are not used.

    ``valid`` is labelled predictions of the same model before the calibrator, like those that the
    calibrator was fitted on; rows with a name in the group ``corruption`` are taken as ``copies``,
    if no others are given. Methods: "em" and "bbse" assume that only class frequencies have
    changed and give the calibrator a bias of the log-probabilities; "set-level" assumes that
    examples have become harder, as in the labelled ``copies`` of the validation data (damaged ones,
    or other data sets), and shifts the log-odds of the predicted class so that their mean
    confidence is the accuracy that the copies lead to expect. "auto" is set-level if there are
    copies, else em.

    It raises an :class:`~calibrant.InputError` instead of guessing: if the new data are outside the
    range of the copies, if classes cannot be distinguished, if too few validation examples
    represent the new data, or if class frequencies do not explain its confidences.

    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> def sample(n, share):
    ...     labels = (random.random(n) < share).astype(int)
    ...     logits = 4.0 * labels - 2 + 2 * random.normal(size=n)
    ...     return Predictions.from_logits(logits, labels)
    >>> from calibrant import Temperature
    >>> valid = sample(4000, 0.5)
    >>> found = adapt(Temperature().fit(valid), valid, sample(4000, 0.2))
    >>> [(share.before > 0.45, 0.17 < share.after < 0.23) for share in found.classes[1:]]
    [(True, True)]
    """
    _check(calibrator, valid, unlabelled, method, level, bootstrap)
    unlabelled = unlabelled.numpy()
    parts: Any = without_copies(valid.numpy())
    valid = parts[0]
    given = _named(copies)
    if given and method in ("em", "bbse"):
        raise InputError(
            f"adapt reads copies for the method set-level, got {method}: leave one of them out."
        )
    named = given or _by_corruption(parts[1])
    if method == "auto":
        method = "set-level" if named else "em"
    valid = valid[labelled_rows(valid)]
    if not len(valid) or not len(unlabelled):
        what = "labelled row of validation" if not len(valid) else "row of new"
        raise InputError(f"adapt needs at least one {what} data, got none.")
    plain = corrected(calibrator)  # An earlier correction was for other data.
    settings = {"level": level, "bootstrap": bootstrap, "seed": seed}
    if method == "set-level":
        return _set_level(plain, valid, unlabelled, named, settings)
    by = unit_column(valid, keep_together)
    if by is not None and by not in unlabelled.groups:
        raise InputError(
            f"The validation data have a column '{by}' of rows that depend on each other, the new "
            "data have none; add it, or take rows as independent "
            "(--keep-together none)."
        )
    return adapt_class_shares(plain, valid, unlabelled, method, by, settings)


def _check(
    calibrator: Any, valid: Any, unlabelled: Any, method: str, level: float, bootstrap: int
) -> None:
    check_kind("adapt", calibrator, Calibrator)
    for data in (valid, unlabelled):
        check_kind("adapt", data, Predictions)
        check_unweighted("adapt", data, "it compares rows of two samples")
    if method not in METHODS:
        raise unknown_name("method of adapt", str(method), METHODS)
    check_whole("adapt", "at least 50 bootstrap replicates", bootstrap, 50)
    if not 0 < level < 1:
        raise InputError(f"adapt expects level between 0 and 1, got {level}.")


def _named(copies: Mapping[str, Predictions] | Sequence[Predictions]) -> dict[str, Predictions]:
    if isinstance(copies, Predictions):
        copies = [copies]
    if not isinstance(copies, Mapping):
        copies = {f"copy {number}": copy for number, copy in enumerate(copies, 1)}
    for copy in copies.values():
        check_kind("adapt(copies=…)", copy, Predictions)
        check_unweighted("adapt(copies=…)", copy, "it counts every row of a copy alike")
    return dict(copies)


def _by_corruption(copies: Any) -> dict[str, Predictions]:
    """Return the corrupted copies that stand beside the validation data, by their names."""
    if copies is None:
        return {}
    names = copies.groups[CORRUPTION].astype(str)
    return {str(name): copies[names == name] for name in np.unique(names)}


def _set_level(
    calibrator: Calibrator,
    valid: Predictions,
    unlabelled: Predictions,
    copies: Mapping[str, Predictions],
    settings: dict[str, Any],
) -> Adaptation:
    points = [_point(name, calibrator, p) for name, p in {"validation": valid, **copies}.items()]
    line = fit_line(points)
    before = float(top_label(calibrator.transform(unlabelled))[0].mean())
    value, low, high = line.accuracy(before, settings["level"], len(unlabelled))
    shift = _shift_to(calibrator, unlabelled, value)
    about = {"method": "set-level", "rows": len(unlabelled), "accuracy": value}
    return Adaptation(
        corrected(calibrator, shift=shift, about=about),
        "set-level",
        len(unlabelled),
        True,
        points[0].accuracy,
        points[0].confidence,
        before,
        Estimate(value, low, high),
        sets=tuple(points),
        checks={
            "slope": line.slope,
            "spread": line.spread,
            "least_confidence": line.low,
            "largest_confidence": line.high,
            "error_left_out": line.error,
            "error_as_claimed": line.plain_error,
            "shift": shift,
        },
        settings=settings,
    )


def _point(name: str, calibrator: Calibrator, predictions: Predictions) -> SetPoint:
    predictions = predictions.numpy()
    predictions = predictions[labelled_rows(predictions)]
    if not len(predictions):
        raise InputError(f"The copy '{name}' has no labelled rows.")
    confidence, _, correct = top_label(calibrator.transform(predictions))
    return SetPoint(name, len(predictions), float(confidence.mean()), float(correct.mean()))


def _shift_to(calibrator: Calibrator, predictions: Predictions, accuracy: float) -> float:
    """Return the shift after which the mean confidence is ``accuracy``, by bisection."""

    def mean(shift: float) -> float:
        moved = corrected(calibrator, shift=shift).transform(predictions)
        return float(top_label(moved)[0].mean())

    low, high = -_FARTHEST, _FARTHEST
    least = mean(low)
    if least > accuracy:
        raise InputError(
            f"No shift makes the mean confidence {percent(accuracy)} while predictions stay: with "
            f"ties in all rows it is {percent(least)}."
        )
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if mean(middle) < accuracy else (low, middle)
    return (low + high) / 2
