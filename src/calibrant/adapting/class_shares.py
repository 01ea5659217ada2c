"""Correct a calibrator for other class frequencies: estimate them, check them, add intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from calibrant.adapting.label_shift import ShiftEstimate, bbse, effective_size, em, replicate_means
from calibrant.adapting.record import Adaptation, ClassShare
from calibrant.arrays import to_numpy
from calibrant.calibrators import Calibrator
from calibrant.calibrators.correction import corrected
from calibrant.charts.numbers import percent
from calibrant.errors import InputError
from calibrant.metrics.confidences import top_label
from calibrant.predictions import Predictions
from calibrant.watching.reference import unit_starts
from calibrant.watching.sums import Estimate

__all__ = ["adapt_class_shares"]

_LEAST_EFFECTIVE = 50  # Validation rows that represent the new data.
_BINS = 10
_DRAWS = 2000
_ACCURACIES = 100  # Replicates of the weights whose accuracy is computed.
_MARGIN = 1.3  # Times what chance explains: the bins are those of the validation data.
_TOLERATED = 0.05  # Share of rows whose confidences label shift need not explain.


def adapt_class_shares(
    calibrator: Calibrator,
    valid: Predictions,
    unlabelled: Predictions,
    method: str,
    by: str | None,
    settings: dict[str, Any],
) -> Adaptation:
    """Find the class frequencies of the new data, and give the calibrator a bias for them."""
    old, new = (_honest(calibrator, p) for p in (valid, unlabelled))
    units_old, units_new = (_units(p, by) for p in (valid, unlabelled))
    labels, random = to_numpy(valid.labels), np.random.default_rng(settings["seed"])
    replicates = settings["bootstrap"]
    if method == "em":
        found = em(new, units_new, old, labels, units_old, replicates, random)
    else:
        _check_all_classes(labels, valid)
        tops = new.argmax(axis=1), units_new, old.argmax(axis=1), labels, units_old
        found = bbse(*tops, valid.classes, replicates, random)
    checks = _checks(found, old, new, labels, units_old, units_new, random)
    moved = _moved(old, new, units_old, units_new, settings, random)
    prior = found.prior
    classes = _shares(found, len(unlabelled), valid.names, settings["level"], moved)
    changed = any(share.changed for share in classes)
    about = {
        "method": method,
        "rows": len(unlabelled),
        "shares_before": [share.before for share in classes],
        "shares_after": [share.after for share in classes],
    }
    weights = _kept_possible(found, prior, len(unlabelled)) if changed else np.ones(len(prior))
    result = corrected(calibrator, bias=np.log(weights), about=about) if changed else calibrator
    confidence, _, correct = top_label(result.transform(valid))
    gap = _weighted_gap(confidence - correct, weights[labels], units_old)
    return Adaptation(
        result,
        method,
        len(unlabelled),
        changed,
        *_means(calibrator, valid),
        float(new.max(axis=1).mean()),
        _expected(found, new, weights, gap, settings["level"]),
        classes,
        checks=checks,
        settings={**settings, "keep_together": by, "by": by},  # by: its old name.
    )


def _honest(calibrator: Calibrator, predictions: Predictions) -> np.ndarray:
    return np.asarray(to_numpy(calibrator.transform(predictions).probabilities()), np.float64)


def _means(calibrator: Calibrator, valid: Predictions) -> tuple[float, float]:
    """Return the accuracy and the mean confidence of the validation data."""
    confidence, _, correct = top_label(calibrator.transform(valid))
    return float(correct.mean()), float(confidence.mean())


def _units(predictions: Predictions, by: str | None) -> np.ndarray:
    starts = np.zeros(len(predictions), np.int64)
    starts[unit_starts(predictions, by)] = 1
    return np.cumsum(starts) - 1


def _check_all_classes(labels: np.ndarray, valid: Predictions) -> None:
    counts = np.bincount(labels, minlength=valid.classes)
    if not counts.all():
        missing = valid.names[int(counts.argmin())]
        raise InputError(
            f"The validation data have no example of class '{missing}', whose share in the new "
            "data cannot be found with bbse; use --method em, or data with every class."
        )


def _checks(
    found: ShiftEstimate,
    old: np.ndarray,
    new: np.ndarray,
    labels: np.ndarray,
    units_old: np.ndarray,
    units_new: np.ndarray,
    random: np.random.Generator,
) -> dict[str, float]:
    """Refuse estimates that the validation data do not support; return the numbers checked."""
    effective = effective_size(found.weights, labels)
    if effective < _LEAST_EFFECTIVE:
        raise InputError(
            f"Only about {effective:.0f} of {len(labels):,} validation rows represent the new "
            f"data, whose classes are so different; at least {_LEAST_EFFECTIVE} are needed. Take "
            "validation data with more examples of the classes that have become frequent."
        )
    weights = found.weights[labels]
    before, after, noise = _unexplained(old, new, weights, units_old, units_new, random)
    if after > max(_MARGIN * noise, _TOLERATED, before / 2):
        raise InputError(
            "Other class frequencies do not explain the confidences of the new data: "
            f"{percent(after)} of its rows would have to move ({percent(before)} without a "
            f"correction; chance explains {percent(noise)}). Something else has changed: use "
            "--method set-level with copies."
        )
    return {
        "apart": found.apart,
        "effective_rows": effective,
        "distance_before": before,
        "distance_after": after,
        "distance_by_chance": noise,
    }


def _unexplained(
    old: np.ndarray,
    new: np.ndarray,
    weights: np.ndarray,
    units_old: np.ndarray,
    units_new: np.ndarray,
    random: np.random.Generator,
) -> tuple[float, float, float]:
    """Return distances of confidences between old and new data: plain, weighted, and by chance.

    Confidences fall into ten bins that the old ones fill equally. Chance is what 99.9 % of samples
    from one distribution show, of as many units.
    """
    edges = np.quantile(old.max(axis=1), np.arange(1, _BINS) / _BINS)
    place_old, place_new = (np.searchsorted(edges, p.max(axis=1)) for p in (old, new))
    shares_new = np.bincount(place_new, minlength=_BINS) / len(place_new)

    def distance(weight: np.ndarray | None) -> float:
        counts = np.bincount(place_old, weight, minlength=_BINS)
        return float(np.abs(counts / counts.sum() - shares_new).sum() / 2)

    effective = weights.sum() ** 2 / (weights**2).sum() / len(weights)
    sizes = max(1, int(effective * (units_old[-1] + 1))), int(units_new[-1]) + 1
    drawn = [random.multinomial(size, shares_new, _DRAWS) / size for size in sizes]
    noise = np.abs(drawn[0] - drawn[1]).sum(axis=1) / 2
    return distance(None), distance(weights), float(np.quantile(noise, 0.999))


def _moved(
    old: np.ndarray, new: np.ndarray, units_old: np.ndarray, units_new: np.ndarray,
    settings: dict[str, Any], random: np.random.Generator,
) -> bool:  # fmt: skip
    """Whether the mean probabilities of the new data are not those of the old ones.

    They are the same where nothing has changed, however hard it is to tell classes apart. The
    estimated shares are not: they may end at 0, where their replicates say little.
    """
    sides = ((new, units_new), (old, units_old))
    of_new, of_old = (
        replicate_means(rows, units, settings["bootstrap"], random) - rows.mean(axis=0)
        for rows, units in sides
    )
    half, _ = _joint_half(of_new - of_old, settings["level"])
    return bool((np.abs(new.mean(axis=0) - old.mean(axis=0)) > half).any())


def _shares(
    found: ShiftEstimate, rows: int, names: Sequence[str], level: float, moved: bool
) -> tuple[ClassShare, ...]:
    """Return the shares of the classes, with intervals that hold for all at once.

    No share has changed unless the data have ``moved``.
    """
    prior = found.prior
    after = found.weights * prior
    after = after / after.sum()  # Exactly 1 where there is one class alone.
    changes = found.changes * prior + found.weights * found.prior_changes
    half, multiple = _joint_half(changes, level)
    half_of_change, _ = _joint_half(changes - found.prior_changes, level)
    below, above = _as_of_counts(after, half, multiple, rows)
    above = np.where(after > 0, above, np.maximum(above, found.unseen))
    # Whatever classes without any weight have, is taken from the others.
    least = np.maximum(0.0, after - below - found.unseen * (after == 0).any())
    # Of classes that may be absent after all, the others may have what was found.
    absent = np.where(found.presence > multiple, 0.0, after) * (least > 0)
    least, most = np.where(absent > 0, 0.0, least), after + above + absent.sum() - absent
    return tuple(
        ClassShare(
            name,
            float(prior[k]),
            float(after[k]),
            float(least[k]),
            min(1.0, float(most[k])),
            moved and bool(abs(after[k] - prior[k]) > half_of_change[k]),
        )
        for k, name in enumerate(names)
    )


def _as_of_counts(
    after: np.ndarray, half: np.ndarray, multiple: float, rows: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return how far intervals go below and above shares that vary more where they are larger.

    Wilson's interval (1927) of a share q that varies by s² + (q − q̂) / n, for n rows: too few rows
    of a rare class make its share small and its standard error s, too.
    """
    error = half / multiple if multiple else half
    growth = np.minimum(error**2 / np.maximum(after, 1e-12), 1 / rows)
    middle = multiple**2 * growth / 2
    root = np.sqrt(middle**2 + half**2)
    return np.minimum(root - middle, half), root + middle


def _kept_possible(found: ShiftEstimate, prior: np.ndarray, rows: int) -> np.ndarray:
    """Return the weights to apply, so that a class that was not found stays possible.

    A share estimated as 0 is not known to be 0, and each row of such a class would cost as many
    nats as the bias takes away. A weight is at least E[max(0, x)] = s / √(2π) of a normal x around
    0 with its standard error s, and at least that of half a row.
    """
    least = found.changes.std(axis=0) / math.sqrt(2 * math.pi)
    return np.asarray(np.maximum(found.weights, np.maximum(least, 0.5 / (rows * prior))))


def _joint_half(changes: np.ndarray, level: float) -> tuple[np.ndarray, float]:
    """Return half of each interval, and its standard errors: enough that all hold at once."""
    errors = changes.std(axis=0)
    scaled = np.abs(changes) / np.where(errors > 0, errors, 1.0)
    multiple = float(np.quantile(scaled.max(axis=1), level))
    return errors * multiple, multiple


def _weighted_gap(off: np.ndarray, weights: np.ndarray, units: np.ndarray) -> tuple[float, float]:
    """Return the weighted mean of confidence − correct, ``off``, and its variance over units."""
    gap = float(weights @ off / weights.sum())
    sums = np.bincount(units, weights * (off - gap))
    return gap, float(sums @ sums) / float(weights.sum()) ** 2


def _expected(
    found: ShiftEstimate,
    new: np.ndarray,
    weights: np.ndarray,
    gap: tuple[float, float],
    level: float,
) -> Estimate:
    """Return the mean confidence after the correction, and where the accuracy lies.

    The predictions are those of ``weights``, the ones that are applied; what they are right about
    depends on the true weights, which may be any of the replicates of ``found``. No weights make a
    calibrator honest that does not fit, so the interval also allows for the ``gap`` of validation
    rows that are weighted as the new data. It may be noise, so the value stays inside.
    """
    rows = new[:: -(-len(new) // 20_000)]
    moved = new * np.maximum(weights, 1e-9)
    each = moved.max(axis=1) / moved.sum(axis=1)
    value = float(each.mean())
    predicted = (rows * np.maximum(weights, 1e-9)).argmax(axis=1)[:, None]
    accuracies = []
    for change in found.changes[:_ACCURACIES]:
        likely = rows * np.maximum(found.weights + change, 1e-9)
        right = np.take_along_axis(likely, predicted, axis=1)[:, 0] / likely.sum(axis=1)
        accuracies.append(float(right.mean()))
    variance = gap[1] + float(np.mean((np.array(accuracies) - value) ** 2))
    variance += float((each * (1 - each)).sum()) / len(each) ** 2
    half = NormalDist().inv_cdf((1 + level) / 2) * math.sqrt(variance)
    low, high = value - max(gap[0], 0.0) - half, value - min(gap[0], 0.0) + half
    return Estimate(value, max(0.0, low), min(1.0, high))
