"""Compare calibrators: fit each on VALID, choose by cross-validation, evaluate on TEST once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calibrant.arguments import check_kind
from calibrant.calibrators import Calibrator
from calibrant.claims import Claims
from calibrant.comparison.candidates import evaluate
from calibrant.comparison.data_difference import describe_difference
from calibrant.comparison.record import Comparison, Row, Settings
from calibrant.comparison.selection import Selection, calibrator_names, select_calibrator
from calibrant.comparison.span_calibrator import SpanCalibrator
from calibrant.comparison.under_shift import copies_of
from calibrant.errors import InputError
from calibrant.metrics.bootstrap import check_bootstrap
from calibrant.old_names import renamed, renamed_arguments
from calibrant.predictions import Predictions

__all__ = [
    "REPLICATES",
    "Comparison",
    "Row",
    "Selection",
    "Settings",
    "SpanCalibrator",
    "check_replicates",
    "compare",
    "row_marks",
    "select_calibrator",
]

REPLICATES = 1000  # Of the choice, if no intervals are wanted.


@renamed_arguments(methods="calibrators")
def compare(
    valid: Predictions | Claims,
    test: Predictions | Claims,
    calibrators: Sequence[str] | None = None,
    *,
    folds: int = 5,
    bootstrap: int = 1000,
    bins: int = 15,
    seed: int = 0,
    same_data: bool = False,
    keep_predictions: bool = False,
    more: Sequence[Calibrator] = (),
    progress: Callable[[str], None] | None = None,
) -> Comparison:
    """Compare the named calibrators (default: all) and recommend one.

    :func:`select_calibrator` chooses on VALID by cross-validation, so a flexible calibrator cannot
    win by overfitting. TEST has no part in the choice: each calibrator, fitted on all of VALID, is
    evaluated on it once. A calibrator that cannot run is skipped, with the reason.
    ``keep_predictions`` leaves out calibrators that can change the predicted class. VALID and TEST
    with the same examples are refused unless ``same_data`` is set. ``progress`` is called with the
    name of each finished calibrator. Claims (top labels with a confidence) are compared by the
    calibrators that need no more. ``more`` are calibrators that are in no table. ``bootstrap=0``
    leaves out the intervals on TEST; the choice then uses 1000 replicates.

    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 3, 3000)
    >>> logits = 4 * (rng.normal(size=(3000, 3)) + np.eye(3)[labels])  # Four times too large.
    >>> p = Predictions.from_logits(logits, labels)
    >>> compare(p[:1500], p[1500:], ["temperature"]).recommended
    'temperature'
    """
    calibrator_names(calibrators)  # Refuses an unknown name before the work.
    _check(valid, test, bootstrap)
    valid, test = valid.numpy(), test.numpy()
    if not same_data and _same_examples(valid, test):
        raise InputError(
            "VALID and TEST hold the same examples, so the numbers on TEST would be too good; give "
            "other data, or allow it with same_data=True (--force)."
        )
    replicates = bootstrap or REPLICATES
    check_bootstrap(replicates, seed=seed)
    found = select_calibrator(
        valid,
        calibrators,
        keep_predictions=keep_predictions,
        folds=folds,
        bootstrap=replicates,
        seed=seed,
        split=True,
        more=more,
        progress=progress,
    )
    options = {"bins": bins, "bootstrap": bootstrap, "seed": seed}
    rows = [evaluate(candidate, test, **options) for candidate in found.candidates.values()]
    fitted = {name: candidate.calibrator for name, candidate in found.candidates.items()}
    sizes = (len(valid), len(test), len(valid.names) or valid.classes)
    settings = Settings(*sizes, found.folds, bootstrap, seed, bins)
    return Comparison(
        tuple(rows),
        found.skipped,
        found.calibrator.name,
        found.reason,
        settings,
        fitted,
        describe_difference(copies_of(valid)[0], test),
    )


def _check(valid: Predictions | Claims, test: Predictions | Claims, bootstrap: int) -> None:
    for predictions in (valid, test):
        check_kind("compare", predictions, Predictions, Claims)
    if not len(valid) or not len(test):
        which = "VALID" if not len(valid) else "TEST"
        raise InputError(f"{which} has no labelled examples to compare calibrators on.")
    if isinstance(valid, Claims) or isinstance(test, Claims):
        if valid.kind != test.kind:
            raise InputError(f"VALID holds {valid.kind}, but TEST {test.kind}.")
        check_replicates(bootstrap)
        return
    if valid.classes != test.classes:
        raise InputError(f"VALID has {valid.classes} classes, but TEST has {test.classes}.")
    if None not in (valid.label_names, test.label_names) and valid.label_names != test.label_names:
        pairs = zip(valid.names, test.names, strict=True)
        k = next(k for k, (mine, theirs) in enumerate(pairs) if mine != theirs)
        raise InputError(
            f"VALID and TEST have different label names: class {k} is '{valid.names[k]}' in VALID "
            f"and '{test.names[k]}' in TEST."
        )
    check_replicates(bootstrap)


def check_replicates(bootstrap: int) -> None:
    """Refuse a number of replicates that gives no interval, other than 0.

    >>> check_replicates(1000)
    >>> check_replicates(10)
    Traceback (most recent call last):
    ...
    calibrant.errors.InputError: compare needs at least 100 bootstrap replicates, ...
    """
    if (
        isinstance(bootstrap, bool)
        or int(bootstrap) != bootstrap
        or not (bootstrap == 0 or bootstrap >= 100)
    ):
        raise InputError(
            "compare needs at least 100 bootstrap replicates, or 0 for no intervals, got "
            f"{bootstrap}."
        )


def _same_examples(valid: Predictions | Claims, test: Predictions | Claims) -> bool:
    """Whether both hold the same scores and labels, in any order."""
    mine, theirs = np.asarray(valid.scores), np.asarray(test.scores)
    if mine.shape != theirs.shape or valid.kind != test.kind:
        return False
    counts, others = (np.bincount(p.labels, minlength=p.classes) for p in (valid, test))
    if not np.array_equal(counts, others):
        return False
    first, second = row_marks(valid), row_marks(test)
    if np.array_equal(first, second):
        return True
    # Rows of few different scores can be the same by chance, in another order.
    distinct = len(np.unique(first)) > len(valid) / 2
    return distinct and np.array_equal(np.sort(first), np.sort(second))


def row_marks(predictions: Predictions | Claims) -> np.ndarray:
    """Return a whole number for each row, made of the bits of its scores and of its label.

    >>> p = Predictions.from_probabilities([0.9, 0.8, 0.9], [1, 1, 0])
    >>> first, _, third = row_marks(p)
    >>> bool(first == third), bool(row_marks(p[2:])[0] == third)  # The labels differ; the same row.
    (False, True)
    """
    wide = np.ascontiguousarray(predictions.scores, np.float64) + 0.0  # −0 is 0.
    factors = np.random.default_rng(0).integers(1, 2**63, predictions.classes + 1, np.uint64) | 1
    labels = np.asarray(predictions.labels).astype(np.uint64)
    return np.asarray(
        (wide.view(np.uint64) * factors[:-1]).sum(axis=1, dtype=np.uint64) + labels * factors[-1]
    )


def __getattr__(name: str) -> Any:
    return renamed(__name__, name)
