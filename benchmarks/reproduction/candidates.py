"""Recipes to choose from: a method with a calibrator, judged on validation and test."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from calibrant.study.grouping import Units, methods_of, with_enough_seeds
from calibrant.study.measures import StudyMeasure, calibrators_of
from calibrant.study.runs import Run
from calibrant.study.statistics import Estimate, estimate, paired_values

from .printed import paper_methods

__all__ = [
    "LOSS",
    "RecipeCandidate",
    "candidates_of",
    "choose",
    "references_of",
    "validation_score",
]

LOSS = 0.005  # Of F1 against the baseline: what a recipe may cost.


@dataclass(frozen=True)
class RecipeCandidate:
    """A method with a calibrator: APCR over the reference's and F1 minus the baseline's, by corpus.

    Pairs are runs of one seed and width that were measured with the calibrator. Runs of one seed
    are not independent, so each seed's mean counts once.

    Numbers on validation come from sentences that the calibrator was not fitted on. If no record of
    a corpus has such numbers, the fitted sentences are used and ``fitted_there`` names the corpus.
    A candidate has no number on validation if others have cross-validated numbers and it has not,
    which would favour it, or with too few seeds. Each part has its own reference, so that test does
    not influence what validation chooses.
    """

    method: str
    map: str
    ratio: Mapping[str, Estimate]
    f1: Mapping[str, Estimate]
    valid_ratio: Mapping[str, float]
    valid_f1: Mapping[str, float]
    fitted_there: tuple[str, ...]
    keys: tuple[str, ...]


def references_of(units: Units, part: str = "test") -> dict[str, str]:
    """Return corpus → the paper's method with the highest APCR as trained.

    A single seed is no reference where others have more.
    """
    apcr = StudyMeasure("apcr", part=part)
    found = {}
    for corpus, runs in units.items():
        enough = with_enough_seeds(run for run in runs if run.method in paper_methods())
        means = {
            method: float(np.mean([apcr.of(run) for run in runs if run.method == method]))
            for method in paper_methods()
            if method in enough
        }
        known = {method: mean for method, mean in means.items() if math.isfinite(mean)}
        if known:
            found[corpus] = max(known, key=lambda method: known[method])
    return found


def candidates_of(
    units: Units, references: Mapping[str, str], baseline: str
) -> list[RecipeCandidate]:
    """Return every method with every calibrator that can be compared on any corpus, best first.

    Candidates without a number on validation for some corpus come last; before them those that cost
    too much F1.
    """
    maps = calibrators_of([run for runs in units.values() for run in runs])
    corpora, on_validation = list(units), references_of(units, "valid")
    found = [
        _candidate(units, references, on_validation, baseline, method, map_)
        for method in methods_of(units)
        for map_ in maps
    ]

    def place(candidate: RecipeCandidate) -> tuple[int, bool, float]:
        known = [corpus for corpus in corpora if corpus in candidate.valid_ratio]
        cheap = _keeps_f1(candidate, known)
        return -len(known), not cheap, -validation_score(candidate, known)

    return sorted((candidate for candidate in found if candidate.ratio), key=place)


def _candidate(
    units: Units,
    references: Mapping[str, str],
    on_validation: Mapping[str, str],
    baseline: str,
    method: str,
    map_: str,
) -> RecipeCandidate:
    ratio, f1, valid_ratio, valid_f1 = {}, {}, {}, {}
    used: list[Run] = []
    fitted_there = []
    for corpus, runs in units.items():
        base, best, best_there = (
            [run for run in runs if run.method == name]
            for name in (baseline, references.get(corpus), on_validation.get(corpus))
        )
        ours = [run for run in runs if run.method == method and run.part(map_)]
        ratios, changes = _ratios(ours, best, map_), _changes(ours, base, map_)
        if not (_known(ratios) and _known(changes)):
            continue
        ratio[corpus], f1[corpus] = estimate(ratios), estimate(changes)
        used += [*ours, *base, *best, *best_there]
        judged, part = _to_judge_by(ours, map_)
        fitted = part == "valid" and map_ != "identity"
        others = (run for run in runs if run.method != method)
        if method not in with_enough_seeds([*ours, *others]) or (fitted and _has_crossed(runs)):
            continue
        ratios = _ratios(judged, best_there, map_, part)
        changes = _changes(judged, base, map_, part)
        if _known(ratios) and _known(changes):
            valid_ratio[corpus], valid_f1[corpus] = float(np.mean(ratios)), float(np.mean(changes))
            fitted_there += [corpus] if fitted else []
    keys = tuple(sorted({run.key for run in used}))
    return RecipeCandidate(
        method, map_, ratio, f1, valid_ratio, valid_f1, tuple(fitted_there), keys
    )  # fmt: skip


def _to_judge_by(runs: Sequence[Run], map_: str) -> tuple[Sequence[Run], str]:
    """Return the runs with cross-validated numbers if two seeds or all have them, else all runs."""
    crossed = StudyMeasure("apcr", map_, "cross_validated")
    found = [run for run in runs if not math.isnan(crossed.of(run))]
    enough = len({run.seed for run in found}) >= min(2, len({run.seed for run in runs}))
    return (found, "cross_validated") if enough else (runs, "valid")


def _has_crossed(runs: Iterable[Run]) -> bool:
    """Whether any run has cross-validated numbers of a calibrator."""
    return any(
        map_ != "identity" and "cross_validated" in parts
        for run in runs
        for map_, parts in run.record.results.items()
    )


def _ratios(ours: Sequence[Run], best: Sequence[Run], map_: str, part: str = "test") -> list[float]:
    """Return APCR over that of the reference as trained: each seed's mean of its pairs."""
    pairs = _paired(ours, best, "apcr", map_, part)
    return _over_pairs((seed, x / y if y else math.nan) for seed, x, y in pairs)


def _changes(
    ours: Sequence[Run], base: Sequence[Run], map_: str, part: str = "test"
) -> list[float]:
    """Return F1 minus that of the baseline as trained: each seed's mean of its pairs."""
    pairs = _paired(ours, base, "entity_f1", map_, part)
    return _over_pairs((seed, x - y) for seed, x, y in pairs)


def _paired(
    ours: Sequence[Run], others: Sequence[Run], metric: str, map_: str, part: str
) -> list[tuple[int, float, float]]:
    """Return the seed and both values of each pair.

    Numbers as trained involve no fit on validation data, so "valid" is right for them.
    """
    plain = "test" if part == "test" else "valid"
    one, other = StudyMeasure(metric, map_, part), StudyMeasure(metric, "identity", plain)
    a, b, shared = paired_values(
        {run.pair: one.of(run) for run in ours}, {run.pair: other.of(run) for run in others}
    )
    return [(pair[-1], x, y) for pair, x, y in zip(shared, a, b, strict=True)]


def _over_pairs(values: Iterable[tuple[int, float]]) -> list[float]:
    seeds: dict[int, list[float]] = {}
    for seed, value in values:
        seeds.setdefault(seed, []).append(value)
    return [sum(each) / len(each) for each in seeds.values()]


def _known(values: Sequence[float]) -> bool:
    return bool(values) and all(map(math.isfinite, values))


def choose(candidates: Sequence[RecipeCandidate], corpora: Sequence[str]) -> RecipeCandidate | None:
    """Return the candidate with the highest geometric mean of its multiples on validation.

    F1 on validation must be at most :data:`LOSS` below the baseline's on each of the ``corpora``;
    None if no candidate qualifies.
    """
    fit = [
        candidate
        for candidate in candidates
        if _keeps_f1(candidate, corpora)
        and all(candidate.valid_ratio.get(corpus, 0) > 0 for corpus in corpora)
    ]
    return max(fit, key=lambda candidate: validation_score(candidate, corpora), default=None)


def _keeps_f1(candidate: RecipeCandidate, corpora: Sequence[str]) -> bool:
    return all(candidate.valid_f1.get(corpus, -math.inf) >= -LOSS for corpus in corpora)


def validation_score(candidate: RecipeCandidate, corpora: Sequence[str]) -> float:
    """Return the geometric mean of the multiples of APCR on validation; 0 without any."""
    found = [candidate.valid_ratio[corpus] for corpus in corpora]
    if not found or min(found) <= 0:
        return 0.0
    return math.exp(sum(map(math.log, found)) / len(found))
