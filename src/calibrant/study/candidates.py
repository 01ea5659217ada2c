"""Recipes to choose from: a training method with a post-hoc map, judged on validation and test."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from calibrant.study.best import paired_values
from calibrant.study.estimate import Estimate, estimate
from calibrant.study.measures import Measure, maps_of
from calibrant.study.paper import paper_methods
from calibrant.study.runs import Run
from calibrant.study.units import Units, methods_of

__all__ = ["LOSS", "Candidate", "candidates_of", "choose", "references_of"]

LOSS = 0.005  # Of F1 against the baseline: what a recipe may cost.


@dataclass(frozen=True)
class Candidate:
    """By corpus: APCR as a multiple of the reference's, and F1 minus the baseline's."""

    method: str
    map: str
    ratio: Mapping[str, Estimate]
    f1: Mapping[str, Estimate]
    valid_ratio: Mapping[str, float]
    valid_f1: Mapping[str, float]
    keys: tuple[str, ...]


def references_of(units: Units) -> dict[str, str]:
    """Corpus → the one of the paper's methods with the highest APCR as trained."""
    apcr = Measure("apcr")
    found = {}
    for corpus, runs in units.items():
        means = {
            method: float(np.mean([apcr.of(run) for run in runs if run.method == method]))
            for method in paper_methods()
            if any(run.method == method for run in runs)
        }
        known = {method: mean for method, mean in means.items() if math.isfinite(mean)}
        if known:
            found[corpus] = max(known, key=lambda method: known[method])
    return found


def candidates_of(units: Units, references: Mapping[str, str], baseline: str) -> list[Candidate]:
    """Every method with every map that can be compared on every corpus."""
    maps = maps_of([run for runs in units.values() for run in runs])
    found = [
        _candidate(units, references, baseline, method, map_)
        for method in methods_of(units)
        for map_ in maps
    ]
    return [candidate for candidate in found if len(candidate.ratio) == len(units)]


def _candidate(
    units: Units, references: Mapping[str, str], baseline: str, method: str, map_: str
) -> Candidate:
    ratio, f1, valid_ratio, valid_f1 = {}, {}, {}, {}
    used: list[Run] = []
    for corpus, runs in units.items():
        ours, base, best = (
            [run for run in runs if run.method == name]
            for name in (method, baseline, references.get(corpus))
        )
        ratios, valid_ratios = (_ratios(ours, best, map_, part) for part in ("test", "valid"))
        changes, valid_changes = (_changes(ours, base, map_, part) for part in ("test", "valid"))
        if not (_known(ratios) and _known(changes)):
            continue
        ratio[corpus], f1[corpus] = estimate(ratios), estimate(changes)
        if _known(valid_ratios) and _known(valid_changes):
            valid_ratio[corpus] = float(np.mean(valid_ratios))
            valid_f1[corpus] = float(np.mean(valid_changes))
        used += [*ours, *base, *best]
    keys = tuple(sorted({run.key for run in used}))
    return Candidate(method, map_, ratio, f1, valid_ratio, valid_f1, keys)


def _ratios(ours: Sequence[Run], best: Sequence[Run], map_: str, part: str) -> list[float]:
    """APCR over that of the reference as trained, pair by pair."""
    one, other = Measure("apcr", map_, part), Measure("apcr", "identity", part)
    a, b, _ = paired_values({r.pair: one.of(r) for r in ours}, {r.pair: other.of(r) for r in best})
    return [x / y if y else math.nan for x, y in zip(a, b, strict=True)]


def _changes(ours: Sequence[Run], base: Sequence[Run], map_: str, part: str) -> list[float]:
    """F1 minus that of the baseline as trained, pair by pair."""
    one, other = Measure("entity_f1", map_, part), Measure("entity_f1", "identity", part)
    a, b, _ = paired_values({r.pair: one.of(r) for r in ours}, {r.pair: other.of(r) for r in base})
    return [x - y for x, y in zip(a, b, strict=True)]


def _known(values: Sequence[float]) -> bool:
    return bool(values) and all(map(math.isfinite, values))


def choose(candidates: Sequence[Candidate], corpora: Sequence[str]) -> Candidate | None:
    """The one with the highest geometric mean of its multiples on validation, over ``corpora``.

    Only those whose F1 on validation falls at most :data:`LOSS` behind the baseline's on each of
    the corpora; None where there is none.
    """
    fit = [
        candidate
        for candidate in candidates
        if all(candidate.valid_f1.get(corpus, -math.inf) >= -LOSS for corpus in corpora)
        and all(candidate.valid_ratio.get(corpus, 0) > 0 for corpus in corpora)
    ]
    return max(fit, key=lambda candidate: _geometric_mean(candidate, corpora), default=None)


def _geometric_mean(candidate: Candidate, corpora: Sequence[str]) -> float:
    return sum(math.log(candidate.valid_ratio[corpus]) for corpus in corpora) / len(corpora)
