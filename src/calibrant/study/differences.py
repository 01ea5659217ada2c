"""Paired differences of each method from the baseline, and their tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from calibrant.charts.numbers import DASH
from calibrant.distributions import holm
from calibrant.study.measures import StudyMeasure
from calibrant.study.runs import Run
from calibrant.study.statistics import LEVEL, PairedComparison, compare_pairs, paired_values, t_p

__all__ = ["Compared", "Differences", "compare_runs", "differences_of", "verdict"]


class Compared(NamedTuple):
    """Paired runs compared, over pairs and over seeds, and the keys of their records."""

    pairs: PairedComparison
    over_seeds: float  # p of the t-test over each seed's mean difference
    keys: tuple[str, ...]
    corrected: float = math.nan  # Holm's p among the methods of one measure


# Measure, then method → its comparison with the baseline; a method without shared runs is absent.
Differences = dict[StudyMeasure, dict[str, Compared]]


def differences_of(
    runs: Sequence[Run], measures: Sequence[StudyMeasure], baseline: str
) -> Differences:
    """Compare all methods with the baseline, corrected for the number of methods."""
    base = [run for run in runs if run.method == baseline]
    methods = list(dict.fromkeys(run.method for run in runs if run.method != baseline))
    found: Differences = {}
    for measure in measures:
        compared = {
            method: compare_runs([run for run in runs if run.method == method], base, measure)
            for method in methods
        }
        known = {method: pairs for method, pairs in compared.items() if pairs is not None}
        corrected = holm([pairs.pairs.t for pairs in known.values()])
        if known:
            found[measure] = {
                method: pairs._replace(corrected=q)
                for (method, pairs), q in zip(known.items(), corrected, strict=True)
            }
    return found


def compare_runs(
    runs: Sequence[Run], base: Sequence[Run], measure: StudyMeasure
) -> Compared | None:
    """Compare runs with those of the baseline; None without pairs or with a missing number."""
    ones = {run.pair: measure.of(run) for run in runs}
    others = {run.pair: measure.of(run) for run in base}
    a, b, shared = paired_values(ones, others)
    if not shared or not all(map(math.isfinite, (*a, *b))):
        return None
    seeds: dict[int, list[float]] = {}
    for pair, one, other in zip(shared, a, b, strict=True):
        seeds.setdefault(pair[-1], []).append(one - other)
    over_seeds = t_p([float(np.mean(differences)) for differences in seeds.values()])
    keys = sorted(run.key for run in (*runs, *base) if run.pair in set(shared))
    return Compared(compare_pairs(a, b), over_seeds, tuple(keys))


def verdict(found: PairedComparison, corrected: float, sign: int) -> str:
    """Put a corrected p into words; a dash where no test is possible.

    >>> verdict(compare_pairs([3.0, 4.0, 5.1], [1.0, 2.0, 3.0]), 0.01, 1)
    'better'
    """
    if math.isnan(corrected):
        return DASH
    if corrected >= LEVEL:
        return "no significant difference"
    if not sign:
        return "differs"
    return "better" if found.difference.mean * sign > 0 else "worse"
