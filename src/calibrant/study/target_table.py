"""Which recipe to take: APCR as a multiple of the best of the paper's rows, and its cost in F1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from calibrant.study.candidates import LOSS, Candidate, candidates_of, choose, references_of
from calibrant.study.measures import Measure
from calibrant.study.table import Entry, Row, Table, as_entry, grouped
from calibrant.study.units import Units

__all__ = ["target_table"]

_MULTIPLE = 3.0  # What a recipe to recommend should reach on every corpus.


def target_table(units: Units, baseline: str) -> Table | None:
    """A row per method and map; None where there is nothing to compare with."""
    references = references_of(units)
    candidates = candidates_of(units, references, baseline)
    if not references or not candidates:
        return None
    corpora = list(units)
    return Table(
        "target",
        "Which recipe to take",
        ("method", "map"),
        (*("APCR ×", "F1 points") * len(corpora), "on target"),
        grouped(_row(candidate, corpora) for candidate in candidates),
        _note(candidates, references, corpora, baseline),
        groups=(*((corpus, 2) for corpus in corpora), ("all", 1)),
        measures=(Measure("apcr").to_dict(), Measure("entity_f1").to_dict()),
    )


def _row(candidate: Candidate, corpora: Sequence[str]) -> Row:
    entries: list[Entry] = []
    reached = 0
    for corpus in corpora:
        ratio, f1 = candidate.ratio[corpus], candidate.f1[corpus]
        good, cheap = ratio.mean >= _MULTIPLE, f1.mean >= -LOSS
        points = f1._replace(mean=100 * f1.mean, half=100 * f1.half)
        entries += [as_entry(ratio, 2, good), as_entry(points, 2, cheap and good, signed=True)]
        reached += good and cheap
    told = f"{reached} of {len(corpora)}"
    whole = Entry(told, float(reached), float("nan"), 1, reached == len(corpora))
    return Row((candidate.method, candidate.map), (*entries, whole), candidate.keys)


def _note(
    candidates: Sequence[Candidate],
    references: Mapping[str, str],
    corpora: Sequence[str],
    baseline: str,
) -> str:
    best = ", ".join(f"{references[corpus]} on {corpus}" for corpus in corpora)
    said = (
        "APCR on the test split as a multiple of that of the best of the paper's five rows as "
        f"trained ({best}), and F1 minus that of {baseline} in points; means over pairs of the "
        "same seed and width ± half of a 95 % t-interval. Bold: a multiple of 3 or more, with F1 "
        "at most 0.5 points below."
    )
    overall = choose(candidates, corpora)
    if overall is None:
        return said + " On validation no recipe keeps F1 within 0.5 points on every corpus."
    said += (
        f" Chosen on validation alone, one for all corpora: {overall.method} with {overall.map}."
        " Each corpus by itself: "
    )
    single = [(corpus, choose(candidates, [corpus])) for corpus in corpora]
    said += "; ".join(
        f"{corpus} {found.method} with {found.map} (× {found.ratio[corpus].mean:.2f} on test)"
        for corpus, found in single
        if found is not None
    )
    return (
        said + ". Maps are fitted on the same validation split, which favours those that fit more."
    )
