"""What the demo says: the tables, and which differences are more than the spread over seeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from calibrant.demo.runs import BASELINE
from calibrant.demo.spread import Spread, spread
from calibrant.experiments.record import Record

__all__ = ["LEGEND", "Records", "best", "domain_table", "findings", "method_table", "over_seeds"]

Records = Mapping[str, Sequence[Record]]
_MAPS = ("identity", "temperature")
_JUDGED = {True: "more than", False: "within"}
_COMPARED = (  # What is said, metric, map, part.
    ("F1", "entity_f1", "identity", "test"),
    ("ECE as trained", "ece", "identity", "test"),
    ("ECE after temperature scaling", "ece", "temperature", "test"),
    ("ECE out of domain, as trained", "ece", "identity", "ood"),
    ("ECE out of domain, after temperature scaling", "ece", "temperature", "ood"),
)
LEGEND = (
    "In-domain test. F1 of entities; ECE over words, 15 bins; APCR = F1² / ECE; (T): with the "
    "temperature fitted on validation; ±: half of a 95 % t-interval over seeds."
)


def over_seeds(
    records: Sequence[Record], metric: str, map_: str = "identity", part: str = "test"
) -> Spread:
    """A metric of the runs of one variant."""
    return spread(_values(records, metric, map_, part))


def method_table(records: Records) -> tuple[list[str], list[list[str]]]:
    """Heads and rows: F1, ECE and APCR = F1² / ECE of each variant, in-domain."""
    heads = ["method", "F1 %", "ECE %", "APCR", "ECE % (T)", "APCR (T)"]
    rows = []
    for name, runs in records.items():
        row = [name, over_seeds(runs, "entity_f1").show(100, 1)]
        for map_ in _MAPS:
            row.append(over_seeds(runs, "ece", map_).show(100, 2))
            row.append(over_seeds(runs, "apcr", map_).show(1, 0))
        rows.append(row)
    return heads, rows


def best(records: Records) -> str:
    """The variant with the highest APCR on validation, temperature-scaled: no look at the test."""
    return max(
        records, key=lambda name: over_seeds(records[name], "apcr", "temperature", "valid").mean
    )


def domain_table(records: Records) -> tuple[list[str], list[list[str]]]:
    """Heads and rows: what each variant claims and keeps, in-domain and out of it (ood)."""
    heads = ["method", "right", "sure", "ood right", "ood sure", "ood ECE %", "ood ECE % (T)"]
    rows = []
    for name, runs in records.items():
        row = [name]
        for part in ("test", "ood"):
            for metric in ("accuracy", "mean_confidence"):
                row.append(f"{100 * over_seeds(runs, metric, part=part).mean:.1f} %")
        row += [over_seeds(runs, "ece", map_, "ood").show(100, 1) for map_ in _MAPS]
        rows.append(row)
    return heads, rows


def findings(records: Records) -> list[str]:
    """Plain sentences: what the tables show, and what they do not."""
    said = [_scaling(records), _other_domain(records)]
    if len(records[BASELINE]) == 1:
        return [*said, "One seed says nothing about differences between methods."]
    return [*said, *_against_baseline(records)]


def _scaling(records: Records) -> str:
    runs = records[BASELINE]
    before, after = (over_seeds(runs, "ece", map_).mean for map_ in _MAPS)
    change = _difference(runs, runs, "ece", ("temperature", "identity"), "test")
    judged = "" if len(runs) == 1 else f", {_JUDGED[change.stands_out]} the spread over seeds"
    return (
        f"Temperature scaling takes the ECE of the baseline from {100 * before:.2f} to "
        f"{100 * after:.2f} points{judged}. It changes no prediction, so F1 stays."
    )


def _other_domain(records: Records) -> str:
    runs = records[BASELINE]
    right, sure = (
        100 * over_seeds(runs, metric, part="ood").mean
        for metric in ("accuracy", "mean_confidence")
    )
    before, after = (100 * over_seeds(runs, "ece", map_, "ood").mean for map_ in _MAPS)
    return (
        f"Out of domain the baseline says {sure:.1f} % and is right {right:.1f} % of the time. The "
        f"temperature, fitted in-domain, takes its ECE there from {before:.1f} to {after:.1f} "
        "points: audit on data like those that you will meet."
    )


def _against_baseline(records: Records) -> Iterator[str]:
    """Differences to the baseline, seed by seed: the same seed has the same encoder and batches."""
    others = [name for name in records if name != BASELINE]
    for title, metric, map_, part in _COMPARED:
        changes = {
            name: _difference(records[name], records[BASELINE], metric, (map_, map_), part)
            for name in others
        }
        yield f"{title}: {_sorted_out(changes)}"
    yield (
        f"These are {len(_COMPARED) * len(others)} comparisons at 95 %: if all methods were the "
        "same, one in twenty would still stand out."
    )


def _sorted_out(changes: Mapping[str, Spread]) -> str:
    """Which differences stand out.

    >>> _sorted_out({"ABS": Spread(0.01, 0.005), "AvUC": Spread(0.01, 0.02)})
    'off the baseline by more than the spread over seeds: ABS (+1.00 points); within it: AvUC.'
    """
    apart = [
        f"{name} ({100 * change.mean:+.2f}".replace("-", "−") + " points)"
        for name, change in changes.items()
        if change.stands_out
    ]
    within = [name for name, change in changes.items() if not change.stands_out]
    if not apart:
        return "every difference to the baseline is within the spread over seeds."
    said = f"off the baseline by more than the spread over seeds: {', '.join(apart)}"
    return said + (f"; within it: {', '.join(within)}." if within else ".")


def _difference(
    runs: Sequence[Record], others: Sequence[Record], metric: str, maps: tuple[str, str], part: str
) -> Spread:
    ones = _values(runs, metric, maps[0], part)
    return spread(
        [a - b for a, b in zip(ones, _values(others, metric, maps[1], part), strict=True)]
    )


def _values(records: Sequence[Record], metric: str, map_: str, part: str) -> list[float]:
    return [float(record.results[map_][part][metric]) for record in records]
