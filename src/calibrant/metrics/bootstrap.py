"""Bootstrap intervals over blocks of examples that are kept whole (see blocks.py)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from inspect import signature
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from calibrant.arguments import check_kind, takes_arrays
from calibrant.claims import Claims
from calibrant.errors import InputError
from calibrant.metrics.accumulate import accumulate
from calibrant.metrics.binned import classwise_ece, ece
from calibrant.metrics.blocks import assign_blocks, dependent_group, effective_number
from calibrant.metrics.class_sums import ClassSums
from calibrant.metrics.confidences import Confidences, confidences
from calibrant.metrics.entities import entity_ece, entity_state
from calibrant.metrics.interval_ends import IntervalMethod, interval_of
from calibrant.metrics.metric import plain_function
from calibrant.metrics.null_ece import least_ece
from calibrant.metrics.selective import risk_coverage_curve
from calibrant.metrics.sorted_confidences import confidence_steps, resampled_steps
from calibrant.metrics.state import CalibrationState
from calibrant.metrics.table import metric_of
from calibrant.metrics.tag_f1 import MatchCounts, entity_counts, token_counts
from calibrant.predictions import Predictions
from calibrant.progress import Progress

__all__ = [
    "Blocked",
    "all_alike",
    "bootstrap_interval",
    "check_bootstrap",
    "effective_groups",
    "independent_units",
    "rarer_kind",
    "replicate",
    "skewness_of_mean",
    "tells_of_mistakes",
]

Additive: TypeAlias = CalibrationState | MatchCounts
Blocked: TypeAlias = Additive | tuple[Additive, ...] | ClassSums | Confidences

_EXAMPLES = 10**8  # Limit on examples times replicates for sorted metrics: a few seconds.
_ROUNDING = 1e-12  # An excess AURC below it is that of a perfect order.
_FEWEST = 100  # With fewer replicates the ends of a 95 % interval mean nothing.
_NUMBERS = 1 << 22  # Resampled sums held at once.
_OF_MEANS = ("proportion", 0)  # The spread and direction of mean confidences.
# What metrics of entities are computed from (metric.py).
_OF_TAGS: dict[str, Callable[..., Additive]] = {
    "entity_counts": entity_counts,
    "token_counts": token_counts,
    "entities": entity_state,
}


@functools.partial(takes_arrays, place=1)
def bootstrap_interval(
    metric: Callable[..., Any],
    source: Blocked | Predictions | Claims,
    *,
    replicates: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    method: IntervalMethod = "auto",
    independent: bool = False,
) -> tuple[Any, Any] | None:
    """Return the bootstrap interval (low, high) of ``metric(source)``, or None if there is none.

    ``source`` is predictions, whose sentences or images are drawn if they have such groups, or
    has its own blocks (``accumulate(p, block=assign_blocks(p), blocks=1000)``, and likewise
    ``entity_state``, ``entity_counts``, ``token_counts``, ``confidences``), which are drawn with
    replacement. Additive states cost one product of matrices for all replicates; a tuple of them
    is drawn together and passed as several arguments. Confidences are sorted once and reweighted:
    n · replicates is bounded, so beyond a million examples the result is None. It is also None
    for fewer than two non-empty blocks, and (``"auto"``) for NLL, Brier score and ranks where every
    prediction is right, or every one wrong, and for AUROC and excess AURC where only one is:
    replicates say nothing of the mistakes that other samples would have. ``independent`` means that
    the examples of a block do not depend on each other, as in predictions without such groups; the
    ECE of independent examples has a higher lower end.

    ``"percentile"`` takes the quantiles θ* of the replicates, ``"basic"`` takes 2 θ − θ*, never
    below 0 and never without θ (Efron & Tibshirani 1993, ch. 13). ``"auto"`` holds for few groups
    and for calibration errors, which are biased upwards. Measured: docs/decisions/0012.

    - The quantiles are moved away from the median by t √(G / (G − 1)) / z, as Student's interval
      is wider than the normal one. G is the effective number of groups (:func:`effective_groups`),
      which is their number where all have one size.
    - Without the few bad groups a sample looks better and more certain than it is. So the ends are
      those of Student's interval of the logit (proportions) or of the logarithm (NLL, Brier)
      where that is wider. The upper end of NLL and Brier, and both ends of a mean confidence, also
      allow for skewness by Hall's transformation (1992). Where every group is all right, the lower
      end of accuracy and F1 is 0.025^(1/G); of independent examples, G is their number. Calibration
      errors then reach 1 − 0.025^(1/G) further, the share of mistakes that is not excluded. The
      AUROC is a mean over as many as there are of the rarer kind (mistakes, or positives), so G is
      their number: with five mistakes that all rank last, the lower end is 0.025^(1/5). The largest
      coverage within a risk is often one that noise took there, in replicates too: the lower end is
      at most the largest coverage whose risk is smaller by more than chance.
    - Noise adds to a calibration error as √(θ² + noise²), and to its replicates once more. So the
      lower end comes from 2 θ² − θ*², or from 2 θ − mean(θ*) − s where that is lower, and the
      upper end is θ + s + s min(1, s / mean(θ*)) / 4, with s = t √(G / (G − 1)) sd(θ*): the bias
      can only have raised θ. The lower end of the ECE is :func:`least_ece`, which is above 0 where
      the ECE is more than chance.

    >>> from calibrant import Predictions
    >>> from calibrant.metrics import accumulate, accuracy, assign_blocks
    >>> p = Predictions.from_probabilities([0.9] * 100, [1] * 80 + [0] * 20)
    >>> state = accumulate(p, block=assign_blocks(p), blocks=1000)
    >>> low, high = bootstrap_interval(accuracy, state)
    >>> 0.70 < low < 0.75 and 0.85 < high < 0.90
    True
    """
    check_bootstrap(replicates, level, seed)
    if isinstance(source, (Predictions, Claims)):
        independent = independent or dependent_group(source) is None
    source = _with_blocks(metric, source)
    if method not in ("auto", "percentile", "basic"):
        raise InputError(f"method must be 'auto', 'percentile' or 'basic', got {method!r}.")
    values = replicate(metric, source, replicates=replicates, seed=seed)
    if values is None:
        return None
    estimate, units = _estimate(metric, source), independent_units(source, independent)
    if method == "auto" and not tells_of_mistakes(metric, source, estimate, units):
        return None
    least = None
    if method == "auto" and plain_function(metric) in (ece, entity_ece) and _in_blocks(source):
        state = source.total() if independent and not source.weighted else source
        least = least_ece(state, level=level, replicates=replicates, seed=seed)
    groups = effective_groups(source)
    options: dict[str, Any] = {"groups": groups, "units": units, "least": least}
    options |= {"alike": all_alike(source), "rarer": rarer_kind(source, units)}
    if isinstance(source, Confidences) and (row := metric_of(metric)) and row.spread == "kept":
        options["curve"] = risk_coverage_curve(source)
    if _in_blocks(source):
        options["skewness"] = skewness_of_mean(metric, source)
    return interval_of(metric, values, estimate, level=level, method=method, **options)


def _in_blocks(source: Blocked) -> TypeGuard[CalibrationState]:
    return isinstance(source, CalibrationState) and np.ndim(source.n) == 1


def skewness_of_mean(metric: Callable[..., Any], state: CalibrationState) -> float:
    """Return the skewness of a mean of losses or confidences over blocks, Σ e³ / (Σ e²)^1.5.

    e is the sum of what the examples of a block are above the mean. It is 0 for metrics that are
    no such means, and where a loss is infinite.

    >>> from calibrant.metrics import brier
    >>> p = Predictions.from_probabilities([[0.9, 0.1]] * 50, [0] * 49 + [1])
    >>> state = accumulate(p, block=np.arange(50), blocks=50)
    >>> round(skewness_of_mean(brier, state), 2)
    0.97
    """
    row = metric_of(metric)
    if row is None or not (row.spread == "positive" or (row.spread, row.better) == _OF_MEANS):
        return 0.0
    used = np.asarray(state.n) > 0
    with np.errstate(all="ignore"):
        off = (np.asarray(metric(state)) - metric(_summed(state))) * state.n
        off = off[used]
        found = float((off**3).sum() / (off**2).sum() ** 1.5)
    return found if math.isfinite(found) else 0.0


def effective_groups(source: Blocked) -> float:
    """Return the number of equal-sized groups with as much information as those of ``source``.

    See :func:`~calibrant.metrics.blocks.effective_number`.

    >>> state = MatchCounts(("X",), *(np.array([[8], [1], [1]]) for _ in range(3)))
    >>> round(effective_groups(state), 2)
    1.18
    """
    if isinstance(source, Confidences):
        sizes: np.ndarray = np.ones(1)
        if source.block is not None:
            sizes = np.bincount(source.block, source.weights)
    else:
        states = source if isinstance(source, tuple) else (source,)
        sizes = states[0].n.reshape(len(states[0].n), -1).sum(axis=1)
    return float(effective_number(sizes))


def rarer_kind(source: Blocked, units: float | None) -> float:
    """Return the number of right or of wrong examples of confidences, whichever are fewer.

    It is that of examples if they are independent ``units``, else the effective number of groups
    that have one.

    >>> c = Confidences(np.full(6, 0.9), np.arange(6) < 4, block=np.arange(6) // 3)
    >>> rarer_kind(c, units=6), rarer_kind(c, units=None)
    (2.0, 1.0)
    """
    if not isinstance(source, Confidences):
        return math.inf
    if units is not None:
        right = float(source.correct.sum())
        return min(right, units - right)
    block = np.zeros(len(source), np.int64) if source.block is None else source.block
    each = np.ones(len(source)) if source.weights is None else source.weights
    kinds = (source.correct, ~source.correct)
    return min(float(effective_number(np.bincount(block, each * kind))) for kind in kinds)


def tells_of_mistakes(
    metric: Callable[..., Any], source: Blocked, estimate: Any, units: float | None
) -> bool:
    """Whether an interval of the metric can allow for the mistakes of other samples.

    One mistake says nothing of where others would rank, nor do mistakes that are all ranked last.
    """
    row = metric_of(metric)
    if row is None or row.spread in ("counted", "biased upwards") or row.better == 0:
        return True
    if row.spread == "ranked":
        perfect = row.better < 0 and estimate < _ROUNDING
        if perfect or rarer_kind(source, units) <= 1:
            return False
    return not all_alike(source)


def all_alike(source: Blocked) -> bool:
    """Whether every prediction is right, or every one wrong: then no replicate differs."""
    state = source[0] if isinstance(source, tuple) else source
    if not isinstance(state, CalibrationState | Confidences):
        return False
    n = len(state) if isinstance(state, Confidences) else float(np.sum(state.n))
    return float(np.sum(state.correct)) in (0.0, float(n))


def independent_units(source: Blocked, independent: bool) -> float | None:
    """Return the number of examples, if they are independent and none has a weight, else None."""
    state = source[0] if isinstance(source, tuple) else source
    if not independent or getattr(state, "weighted", False):
        return None
    if isinstance(state, MatchCounts):  # A right one is both among the predicted and the gold.
        return float(state.n.sum()) / 2
    return float(len(state) if isinstance(state, Confidences) else state.n.sum())


def check_bootstrap(replicates: int, level: float = 0.95, seed: int = 0) -> None:
    """Check the settings of a bootstrap interval; long work calls this before it starts.

    With fewer than 1 / (1 − level) replicates an end of the interval is just the outermost one.
    """
    if not 0 < level < 1:
        raise InputError(f"bootstrap_interval expects a level between 0 and 1, got {level}.")
    least = max(2, math.ceil(1 / (1 - level) - 1e-9))
    if replicates < least:
        raise InputError(
            f"An interval of level {level:g} expects at least {least} bootstrap replicates, "
            f"got {replicates}."
        )
    _check_seed(seed)


def _check_seed(seed: int) -> None:
    if not 0 <= seed < 2**63:
        raise InputError(f"A bootstrap expects a seed from 0 to 2⁶³ − 1, got {seed}.")


def replicate(
    metric: Callable[..., Any],
    source: Blocked | Predictions | Claims,
    *,
    replicates: int = 1000,
    seed: int = 0,
) -> np.ndarray | None:
    """Return the values of ``metric`` on bootstrap replicates, (replicates, …), or None.

    >>> from calibrant import Predictions
    >>> from calibrant.metrics import accumulate, accuracy, assign_blocks
    >>> p = Predictions.from_probabilities([0.9] * 100, [1] * 80 + [0] * 20)
    >>> state = accumulate(p, block=assign_blocks(p), blocks=1000)
    >>> values = replicate(accuracy, state)
    >>> len(values), round(float(values.mean()), 1), round(float(values.std()), 2)
    (1000, 0.8, 0.04)
    """
    source = _with_blocks(metric, source)
    if replicates < 1:
        raise InputError(f"replicate expects at least 1 replicate, got {replicates}.")
    _check_seed(seed)
    if isinstance(source, Confidences):
        return _replicate_confidences(metric, source, replicates, seed)
    if isinstance(source, ClassSums):
        return _replicate_classes(metric, source, replicates, seed)
    states = source if isinstance(source, tuple) else (source,)
    parts = [metric(*part) for part in _resampled(states, replicates, seed)]
    return _checked(np.concatenate(parts)) if parts else None


def _with_blocks(metric: Callable[..., Any], source: Blocked | Predictions | Claims) -> Blocked:
    """Return ``source`` with blocks: predictions become the input of the metric."""
    if not callable(metric):
        raise InputError(
            "bootstrap_interval takes a metric and its source, as "
            "bootstrap_interval(ece, predictions), got a "
            f"{type(metric).__name__} first."
        )
    if isinstance(source, (Predictions, Claims)):
        return _blocked(metric, source)
    for state in source if isinstance(source, tuple) else (source,):
        kinds = (Predictions, Claims, CalibrationState, MatchCounts, ClassSums, Confidences)
        check_kind("bootstrap_interval", state, *kinds)
    return source


def _blocked(metric: Callable[..., Any], predictions: Predictions | Claims) -> Blocked:
    row = metric_of(metric)
    source = "state" if row is None else row.source[0]
    if source == "confidences":
        return confidences(predictions, assign_blocks(predictions))
    blocks = max(50, min(1000, _NUMBERS // (3 * predictions.classes * 15)))
    where: dict[str, Any] = {"block": assign_blocks(predictions, "auto", blocks), "blocks": blocks}
    if source in _OF_TAGS:
        check_kind(getattr(metric, "__name__", "This metric"), predictions, Predictions)
    make = _OF_TAGS.get(source, functools.partial(accumulate, classwise=source == "classwise"))
    # What is set already (bins, the reduction of an entity's words) is a matter of the state.
    known, options = signature(make).parameters, getattr(metric, "keywords", {})
    where |= {name: value for name, value in options.items() if name in known}
    return make(predictions, **where)


def _resampled(
    states: tuple[Additive, ...], replicates: int, seed: int
) -> Iterable[tuple[Additive, ...]]:
    """Yield the replicates of the states, all at once if small enough, else in parts."""
    occupied = _occupied(states)
    size = sum(getattr(s, name)[:1].size for s in states for name in s.SUMS)
    if size * replicates <= _NUMBERS:
        return _resampled_at_once(states, replicates, seed)
    weights = _weights(occupied, replicates, seed)
    if weights is None:
        return []
    rows = max(1, _NUMBERS // size)
    parts = (weights[i : i + rows].astype(np.float64) for i in range(0, replicates, rows))
    return (tuple(s.resampled(part) for s in states) for part in parts)


# An audit needs the intervals of many metrics of one state, one after the other.
@functools.lru_cache(maxsize=1)
def _resampled_at_once(
    states: tuple[Additive, ...], replicates: int, seed: int
) -> list[tuple[Additive, ...]]:
    weights = _weights(_occupied(states), replicates, seed)
    if weights is None:
        return []
    weights = weights.astype(np.float64)  # Once for all products; the numbers stay whole.
    return [tuple(s.resampled(weights) for s in states)]


def _replicate_confidences(
    metric: Callable[..., Any], source: Confidences, replicates: int, seed: int
) -> np.ndarray | None:
    if source.block is None:
        raise InputError("bootstrap_interval needs blocks: confidences(p, block=assign_blocks(p)).")
    affordable = _EXAMPLES // max(1, len(source))
    if affordable < min(replicates, _FEWEST):
        return None
    used = np.bincount(source.block) > 0
    weights = _weights(used, min(replicates, affordable), seed)
    if weights is None:
        return None
    values = []
    with Progress(len(weights), "bootstrap replicates") as progress:
        for drawn in resampled_steps(source, weights):
            values.append(metric(drawn))
            progress.advance()
    return _checked(np.array(values))


def _replicate_classes(
    metric: Callable[..., Any], source: ClassSums, replicates: int, seed: int
) -> np.ndarray | None:
    if metric is not classwise_ece:
        raise InputError("ClassSums only have replicates of classwise_ece; use accumulate.")
    weights = _weights(source.n > 0, replicates, seed)
    if weights is None:
        return None
    with Progress(source.classes, "classes of the bootstrap") as progress:
        return source.replicated_ece(weights, progress.advance)


def _weights(occupied: np.ndarray, replicates: int, seed: int) -> np.ndarray | None:
    """Draw (R, G) multinomial weights, the draws of each block; empty blocks are never drawn."""
    count = int(occupied.sum())
    if count < 2:
        return None
    drawn = np.random.default_rng(seed).integers(count, size=(replicates, count))
    cell = np.flatnonzero(occupied)[drawn] + len(occupied) * np.arange(replicates)[:, None]
    flat = np.bincount(cell.ravel(), minlength=replicates * len(occupied))
    return flat.reshape(replicates, len(occupied))


def _occupied(states: tuple[Additive, ...]) -> np.ndarray:
    """Return which blocks hold an example in any of the states."""
    lengths = {len(s.n) if np.ndim(s.n) else 0 for s in states}
    if len(lengths) != 1 or lengths == {0}:
        raise InputError(
            "bootstrap_interval needs states with one and the same leading axis of blocks: "
            f"pass block= and blocks= when they are made; got axes of {sorted(lengths)}."
        )
    used = [s.n.reshape(len(s.n), -1).any(axis=1) for s in states]
    return np.asarray(np.any(used, axis=0))


def _checked(values: np.ndarray) -> np.ndarray | None:
    """Return None if the metric is undefined in every replicate (no example, one class only)."""
    return None if np.isnan(values).all() else values


def _estimate(metric: Callable[..., Any], source: Blocked) -> Any:
    if isinstance(source, Confidences):
        return metric(confidence_steps(source))
    if isinstance(source, ClassSums):
        return metric(source.total())
    states = source if isinstance(source, tuple) else (source,)
    return metric(*(_summed(state) for state in states))


def _summed(state: Any) -> Any:
    """Sum the state over its axis of blocks; an axis of entity types stays."""
    return replace(state, **{name: getattr(state, name).sum(axis=0) for name in state.SUMS})
