"""Which recipe to take: APCR as a multiple of the best of the paper's rows, and its cost in F1."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from calibrant.study.grouping import Units
from calibrant.study.measures import StudyMeasure
from calibrant.study.table import Table, TableEntry, TableRow, as_entry, number_entry

from .candidates import (
    LOSS,
    RecipeCandidate,
    candidates_of,
    choose,
    references_of,
    validation_score,
)

__all__ = ["Target", "describe_choice", "describe_reach", "target_of", "target_table"]

_MULTIPLE = 3.0  # What a recipe to recommend should reach on every corpus.
_MOST = 20  # Rows that are shown at first.
_NAMED = 4  # Recipes that a sentence names.


class Target(NamedTuple):
    """The candidates, their references, and the one that validation alone would choose."""

    candidates: list[RecipeCandidate]
    references: Mapping[str, str]
    corpora: list[str]
    baseline: str
    chosen: RecipeCandidate | None

    @property
    def costs(self) -> bool:
        """Whether F1 needs a column; most calibrators of one method keep every prediction."""
        changed = any(f1.mean or f1.half > 0 for c in self.candidates for f1 in c.f1.values())
        return changed or len({candidate.method for candidate in self.candidates}) > 1


def target_of(units: Units, baseline: str) -> Target | None:
    """Collect the candidates; None without a reference, or with a single map to choose from."""
    references = references_of(units)
    corpora = [corpus for corpus in units if corpus in references]
    candidates = candidates_of({c: units[c] for c in corpora}, references, baseline)
    if len({candidate.method for candidate in candidates}) < 2 and len(candidates) < 3:
        return None
    return Target(candidates, references, corpora, baseline, choose(candidates, corpora))


def describe_choice(target: Target) -> str:
    """Describe what validation alone would choose, and its results on test."""
    chosen = target.chosen
    if chosen is None:
        return "On validation no recipe keeps F1 within 0.5 points on every corpus."
    there = "; ".join(
        f"{corpus} × {chosen.ratio[corpus].show(2)}"
        + (f", F1 {_points(chosen, corpus).text}" if target.costs else "")
        for corpus in target.corpora
    )
    return (
        f"Chosen on validation alone ({_judged(target)}), one for all corpora: {chosen.method} "
        f"with {chosen.map}. On test it reaches the target (APCR × 3, F1 at most 0.5 points below "
        f"{target.baseline}) on {_reached(chosen, target.corpora)} of {len(target.corpora)}: "
        f"{there}.{'' if target.costs else ' No recipe changes F1.'}"
        f"{_next_best(target)}{_not_judged(target)}"
    )


def describe_reach(target: Target) -> str:
    """Describe how far any recipe comes on test, in hindsight."""
    most = max(_reached(candidate, target.corpora) for candidate in target.candidates)
    best = [c for c in target.candidates if _reached(c, target.corpora) == most]
    names = [f"{c.method} with {c.map}" for c in best[:_NAMED]]
    names += [f"{len(best) - _NAMED} more"] if len(best) > _NAMED else []
    return (
        f"In hindsight, of {len(target.candidates)} recipes the target is reached on at most "
        f"{most} of {len(target.corpora)}" + (f": by {', '.join(names)}." if most else ".")
    )


def target_table(target: Target) -> Table:
    """Make a row per method and calibrator, in the order that validation chooses them."""
    corpora = target.corpora
    heads = ("APCR ×", "F1 points") if target.costs else ("APCR ×",)
    return Table(
        "target",
        "Which recipe to take",
        ("method", "map"),
        (*heads * len(corpora), "on target", "× on validation"),
        tuple(_row(candidate, corpora, len(heads)) for candidate in target.candidates),
        _note(target),
        groups=(*((corpus, len(heads)) for corpus in corpora), ("all", 2)),
        measures=(StudyMeasure("apcr").to_dict(), StudyMeasure("entity_f1").to_dict()),
        most=_MOST,
    )


def _row(candidate: RecipeCandidate, corpora: Sequence[str], columns: int) -> TableRow:
    """Make a row with ``columns`` per corpus: multiple of APCR, and F1 if recipes change it."""
    entries: list[TableEntry] = []
    for corpus in corpora:
        if corpus in candidate.ratio:
            good = _on_target(candidate, corpus)
            found = [as_entry(candidate.ratio[corpus], 2, good), _points(candidate, corpus)]
        else:
            found = [TableEntry(""), TableEntry("")]
        entries += found[:columns]
    reached, there = _reached(candidate, corpora), len(candidate.ratio)
    whole = TableEntry(
        f"{reached} of {there}", float(reached), math.nan, 1, reached == len(corpora)
    )
    judged = set(corpora) <= set(candidate.valid_ratio)
    score = number_entry(validation_score(candidate, corpora), 2) if judged else TableEntry("")
    return TableRow((candidate.method, candidate.map), (*entries, whole, score), candidate.keys)


def _points(candidate: RecipeCandidate, corpus: str) -> TableEntry:
    f1 = candidate.f1[corpus]
    bold = _on_target(candidate, corpus)
    return as_entry(f1._replace(mean=100 * f1.mean, half=100 * f1.half), 2, bold, signed=True)


def _on_target(candidate: RecipeCandidate, corpus: str) -> bool:
    """Whether the whole interval of the multiple is high enough; a single seed has no interval."""
    ratio = candidate.ratio[corpus]
    return ratio.mean - ratio.half >= _MULTIPLE and candidate.f1[corpus].mean >= -LOSS


def _reached(candidate: RecipeCandidate, corpora: Sequence[str]) -> int:
    return sum(_on_target(candidate, corpus) for corpus in corpora if corpus in candidate.ratio)


def _note(target: Target) -> str:
    places: dict[str, list[str]] = {}
    for corpus in target.corpora:
        places.setdefault(target.references[corpus], []).append(corpus)
    best = "; ".join(f"{method} on {', '.join(there)}" for method, there in places.items())
    note = (
        "APCR on the test split as a multiple of that of the best of the paper's five rows that "
        f"were run, as trained ({best}), and F1 minus that of {target.baseline} in points; paired "
        "by seed and width, each seed's mean over its widths, then mean ± half of a 95 % "
        "t-interval over seeds. Bold: a multiple whose interval lies at 3 or above, F1 at most 0.5 "
        "points below. "
        "Rows are in the order in which validation alone would take them: those that keep F1 there "
        "first, by the geometric mean of their multiples there; what lacks a corpus, or a second "
        f"seed on one, comes last. {describe_choice(target)}"
    )
    single = [(corpus, choose(target.candidates, [corpus])) for corpus in target.corpora]
    single_choices = "; ".join(
        f"{corpus} {found.method} with {found.map} (× {found.ratio[corpus].mean:.2f} on test)"
        for corpus, found in single
        if found is not None
    )
    return note + (f" Each corpus separately: {single_choices}." if single_choices else "")


def _next_best(target: Target) -> str:
    """Name the runner-up on validation."""
    corpora, chosen = target.corpora, target.chosen
    other = choose([c for c in target.candidates if c is not chosen], corpora)
    if chosen is None or other is None:
        return ""
    scores = [validation_score(candidate, corpora) for candidate in (chosen, other)]
    return (
        f" On validation it has × {scores[0]:.2f}; next is {other.method} with {other.map}, "
        f"× {scores[1]:.2f}."
    )


def _not_judged(target: Target) -> str:
    """Count the recipes that could not be chosen, and name the corpora that lack numbers."""
    lacking = [
        [corpus for corpus in target.corpora if corpus not in candidate.valid_ratio]
        for candidate in target.candidates
    ]
    count = sum(map(bool, lacking))
    if not count:
        return ""
    where = [corpus for corpus in target.corpora if any(corpus in gone for gone in lacking)]
    return (
        f" {count} of {len(lacking)} recipes could not be chosen, because they lack numbers "
        f"(cross-validated, where others have such) or of a second seed on {', '.join(where)}."
    )


def _judged(target: Target) -> str:
    """Say whether the calibrators were fitted on the sentences that they were chosen by."""
    seen = {corpus for candidate in target.candidates for corpus in candidate.fitted_there}
    favours = "by the sentences that maps were fitted on, which favours those that fit more"
    if not seen:
        return "cross-validated: each sentence by a map that was fitted on others"
    if seen >= set(target.corpora):
        return f"not cross-validated: {favours}"
    return f"cross-validated, but on {', '.join(sorted(seen))} {favours}"
