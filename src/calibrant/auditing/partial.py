"""Parts of an audit: collected anywhere, sent as bytes, merged in any order, then concluded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from calibrant.auditing.collect import Collector
from calibrant.auditing.entities import Columns, EntitySums, Sentences
from calibrant.auditing.groups import GroupSums, LabelSums
from calibrant.auditing.per_group import PerGroup
from calibrant.auditing.pixels import PixelSums
from calibrant.auditing.record import Mistake
from calibrant.claims import Claims
from calibrant.encoding import check_one_reading
from calibrant.errors import InputError
from calibrant.metrics import Bins, CalibrationState, Confidences, ConfidenceSketch, MatchCounts
from calibrant.metrics.class_sums import ClassSums
from calibrant.metrics.packed_objects import pack_object, unpack_object
from calibrant.metrics.sample import Sample
from calibrant.metrics.sketch import Sketched
from calibrant.predictions import Predictions

__all__ = ["PartialAudit"]

_KIND = "PartialAudit"
_IN_SENTENCES = ("sentence", "unfit")  # The groups that metrics of entities read.
# Sums that have a method ``merge``, or may be added.
_MERGED = ("class_sums", "pixels", "groups", "positive", "label_sums", "sample")
_OF_THE_FIRST = ("start", "like_probabilities", "dtype")  # As the first rows have them.
_ADDED = ("rows", "ignored", "unlabelled", "rounded", "weight", "squares")


class PartialAudit:
    """What an audit keeps of some rows of a whole, whose number of the first row is ``start``.

    Parts of the same settings can be merged in any order: counts are those of the whole, and sums
    differ by rounding. A sentence that is cut between two parts is put together again at the end,
    and lies in one bootstrap block, which a hash of its name chooses.
    """

    def __init__(self, collector: Collector, place: str = "") -> None:
        collector.is_part, collector.parts = True, None
        self.collector, self.place = collector, place
        self.ends: list[tuple[int, Any, Any]] = []  # Of each part: start, first and last sentence.

    def add(self, chunks: Iterable[Predictions | Claims]) -> PartialAudit:
        """Add all rows of the part, and return self."""
        for chunk in chunks:
            self.collector.add(chunk)
        sentences = self.collector._sentences
        if sentences is not None:
            head, tail = _lean(sentences.head), _lean(sentences.rest())
            # One sentence without an end may continue on both sides.
            both = (tail, None) if head is None else (head, tail)
            self.ends = [(self.collector.start, *both)]
            self.collector._sentences = Sentences(part=True)
        return self

    def merge(self, other: PartialAudit) -> PartialAudit:
        """Add the sums of another part to these, and return self."""
        mine, theirs = self.collector, other.collector
        if theirs.state is None or mine.state is None:
            return self if theirs.state is None else other
        self._check(other)
        if theirs.start < mine.start:
            for name in _OF_THE_FIRST:
                setattr(mine, name, getattr(theirs, name))
        for name in _ADDED:
            setattr(mine, name, getattr(mine, name) + getattr(theirs, name))
        for name in ("state", "top", "entities"):
            setattr(mine, name, _sum(getattr(mine, name), getattr(theirs, name)))
        for name in _MERGED:
            if getattr(mine, name) is not None and getattr(theirs, name) is not None:
                getattr(mine, name).merge(getattr(theirs, name))
        for ours, own in zip(mine.per_group, theirs.per_group, strict=True):
            ours.merge(own)
        mine.missing_texts |= theirs.missing_texts
        mine.mistakes = sorted(mine.mistakes + theirs.mistakes, key=_surest_first)
        del mine.mistakes[mine.mistakes_shown :]
        self.ends += other.ends
        return self

    def _check(self, other: PartialAudit) -> None:
        mine, theirs = self.collector, other.collector
        for what in ("kind", "by", "blocks", "weighted"):
            if getattr(mine, what) != getattr(theirs, what):
                raise self._differ(other, what, getattr(mine, what), getattr(theirs, what))
        claims = mine.label_sums is not None
        if not claims and mine.label_names != theirs.label_names:
            names = mine.label_names, theirs.label_names
            if len(names[0]) != len(names[1]):
                raise self._differ(other, "number of classes", *map(len, names))
            raise self._differ(other, "names of the classes", *names)

    def _differ(self, other: PartialAudit, what: str, mine: Any, theirs: Any) -> InputError:
        return InputError(
            f"Partitions differ in the {what}: {mine} in {self.place or 'one'}, {theirs} in "
            f"{other.place or 'another'}."
        )

    def finish(self) -> Collector:
        """Return the collector of all rows, ready for :func:`~calibrant.auditing.run.conclude`."""
        found = self.collector
        if found.label_sums is not None:
            found.label_sums.sort()
            found.label_names = tuple(found.label_sums.names)
            check_one_reading(found.missing_texts, found.label_names)
        found._sentences = None
        found._add_sentences(_joined(self.ends))
        found.finish()
        return found

    def to_bytes(self) -> bytes:
        """Return the part with a version and a checksum."""
        self.collector._sentences = None
        if self.collector.class_sums is not None:
            self.collector.class_sums._settle()
        return pack_object(_KIND, [vars(self.collector), self.place, self.ends], _CLASSES)

    @classmethod
    def from_bytes(cls, data: bytes) -> PartialAudit:
        """Read the output of :meth:`to_bytes`."""
        content, place, ends = unpack_object(_KIND, data, _CLASSES)
        made = cls(Collector(content["bins"]), place)
        vars(made.collector).update(content)
        made.ends = ends
        return made


# What the bytes of a part may hold.
_CLASSES: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        *(Bins, CalibrationState, ClassSums, Confidences, ConfidenceSketch, EntitySums, GroupSums),
        *(LabelSums, MatchCounts, Mistake, PerGroup, PixelSums, Predictions, Sample, Sketched),
    )
}


def _surest_first(mistake: Mistake) -> tuple[float, int]:
    return (-mistake.confidence, mistake.row)


def _sum(mine: Any, theirs: Any) -> Any:
    if mine is None or theirs is None:
        return mine if theirs is None else theirs
    return mine + theirs


def _lean(end: tuple[Predictions, Columns] | None) -> tuple[Predictions, Columns] | None:
    """Return the rows of a sentence without what metrics of entities do not read."""
    if end is None:
        return None
    rows, columns = end
    groups = {name: rows.groups[name] for name in _IN_SENTENCES if name in rows.groups}
    return replace(rows, groups=groups, signals={}, rows=None), columns


def _joined(ends: list[tuple[int, Any, Any]]) -> tuple[Predictions, Columns] | None:
    """Return the ends of all parts, in the order of their rows, as whole sentences.

    The last sentence of a part continues in the first of the next one if both have one name.
    Between the first and the last sentence of a part there are others, so these never join.
    """
    ordered = [end for _, *both in sorted(ends, key=lambda end: end[0]) for end in both]
    cuts = [place % 2 == 1 for place in range(len(ordered))]  # Before each last sentence.
    found = [(end, cut) for end, cut in zip(ordered, cuts, strict=True) if end is not None]
    if not found:
        return None
    rows = Predictions.concatenate([end[0] for end, _ in found])
    columns = tuple(np.concatenate(c) for c in zip(*(end[1] for end, _ in found), strict=True))
    names = rows.groups["sentence"]
    begins = np.append(True, names[1:] != names[:-1])
    first = np.cumsum([0, *(len(end[0]) for end, _ in found)])[:-1]
    begins[first[[cut for _, cut in found]]] = True
    return replace(rows, groups={**rows.groups, "sentence": np.cumsum(begins)}), columns
