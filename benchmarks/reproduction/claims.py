"""The paper's claims: on how many corpora its methods are better than the baseline."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from calibrant.distributions import holm
from calibrant.study.comparison_table import compare_runs, verdict
from calibrant.study.grouping import Units, Values, describe_values
from calibrant.study.measures import StudyMeasure
from calibrant.study.rows import requested_heads
from calibrant.study.table import Table, TableEntry, TableRow, grouped

__all__ = ["Claim", "claims_of", "claims_table", "describe_claims"]

_CLAIMED = ("head_noise", "head_noise_error_regularization")


class Claim(NamedTuple):
    """One method and measure against the baseline, as counts of corpora."""

    method: str
    measure: StudyMeasure
    better: int  # In the mean
    corpora: int
    surely: int  # Better by the test
    surely_worse: int
    keys: tuple[str, ...]
    values: Values = ()  # Of the requested keys: each is judged separately


def claims_of(
    parts: Mapping[Values, Units], measures: Sequence[StudyMeasure], baseline: str
) -> list[Claim]:
    """Test every measure of the paper's two methods that can be compared."""
    found = (
        _claim(units, method, measure, baseline)._replace(values=values)
        for method in _CLAIMED
        for values, units in parts.items()
        for measure in measures
        if measure.sign and method != baseline
    )
    return [claim for claim in found if claim.corpora]


def _claim(units: Units, method: str, measure: StudyMeasure, baseline: str) -> Claim:
    compared = [
        compare_runs(
            [run for run in runs if run.method == method],
            [run for run in runs if run.method == baseline],
            measure,
        )
        for runs in units.values()
    ]
    known = [found for found in compared if found is not None]
    corrected = holm([found.pairs.t for found in known])
    verdicts = [
        verdict(found.pairs, q, measure.sign) for found, q in zip(known, corrected, strict=True)
    ]
    return Claim(
        method,
        measure,
        sum(found.pairs.difference.mean * measure.sign > 0 for found in known),
        len(known),
        verdicts.count("better"),
        verdicts.count("worse"),
        tuple(sorted({key for found in known for key in found.keys})),
    )


def claims_table(claims: Sequence[Claim], baseline: str) -> Table | None:
    """Make a row per method and measure."""
    if not claims:
        return None
    rows = [
        TableRow(
            (claim.method, *(value for _, value in claim.values), claim.measure.title),
            tuple(
                TableEntry(f"{count} of {claim.corpora}", float(count), math.nan, claim.corpora)
                for count in (claim.better, claim.surely, claim.surely_worse)
            ),
            claim.keys,
        )
        for claim in claims
    ]
    return Table(
        "claims",
        f"The paper’s claims: against {baseline}",
        ("method", *requested_heads(key for key, _ in claims[0].values), "measure"),
        ("better mean", "significantly better", "significantly worse"),
        grouped(rows),
        f"Corpora on which the method is better than {baseline} in the mean of pairs of the same "
        "seed and width, and those where the paired t-test says so or says the opposite (5 %, "
        "Holm-corrected over the corpora of a row; over the methods of a corpus instead, it stands "
        "in the corpus' own tables). No effect at all would be better in the mean on half of them.",
    )


def describe_claims(claims: Sequence[Claim], baseline: str) -> list[str]:
    """Write a sentence per method (and requested value), as trained."""
    sentences = []
    for method, values in dict.fromkeys((claim.method, claim.values) for claim in claims):
        where = f" ({describe_values(values)})" if values else ""
        counts = "; ".join(
            f"{claim.measure.title} better on {claim.better} of {claim.corpora} (significantly on "
            f"{claim.surely}, significantly worse on {claim.surely_worse})"
            for claim in claims
            if (claim.method, claim.values) == (method, values)
            and claim.measure.calibrator == "identity"
        )
        if counts:
            sentences.append(
                f"{method} against {baseline}{where}, as trained, by corpus: {counts}."
            )
    return sentences
