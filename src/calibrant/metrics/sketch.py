"""A sketch of the confidences: metrics that need ranks, in constant memory, over any shards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.errors import InputError
from calibrant.metrics.all_reduce import sum_over_processes
from calibrant.metrics.confidences import Confidences, confidences
from calibrant.metrics.kernel_dispatch import claim_kernels, plain
from calibrant.metrics.state import times
from calibrant.metrics.state_bytes import check_complete, pack_state, unpack_state
from calibrant.predictions import Predictions
from calibrant.validation import RANGE_TOLERANCE

__all__ = ["BINS", "ConfidenceSketch", "Sketched", "bin_log_odds", "bin_numbers"]

ROUNDING = 2.0**-47  # 64 units in the last place: by this much sums of a hundred classes differ.

BINS = 1 << 16
_LIMIT = 40.0  # Beyond the log-odds of every float64 but 0 and 1.
_WIDTH = 2 * _LIMIT / BINS
_CUT = _LIMIT, _WIDTH, 1 - ROUNDING, BINS  # What the compiled pass needs of these.
_CHUNK = 1 << 18  # Confidences binned at a time.
_KIND = "ConfidenceSketch"


@dataclass(frozen=True, eq=False)
class ConfidenceSketch:
    """Counts and sums in 65,536 bins of the log-odds log(c / (1 − c)) from −40 to 40.

    It takes 1.5 MB for any number of examples, and sketches of shards add up. Every metric that
    takes :class:`~calibrant.metrics.Confidences` takes a sketch: adaptive ECE, AUROC, the family
    of AURC, KS, thresholds. Confidences in one bin become a tie at their mean, which is at most
    .000305 away (c (1 − c) times the width of a bin). With r_b right and w_b wrong of n_b examples
    in bin b, and m_b examples in this bin and above it:

    ============== =========================================================
    metric         differs from the exact one by at most
    ============== =========================================================
    AUROC          ½ Σ_b r_b w_b / (R W)
    AURC           Σ_b n_b² / (n m_b)
    AUGRC          ½ Σ_b r_b w_b / n²
    KS             max_b n_b / n; it is never above the exact one
    adaptive ECE   2 Σ n_b / n, over bins b that several of equal mass share
    ============== =========================================================

    Isotonic regression on the bins has a mean squared error, on the rows of the fit, of at most
    4.5 max_b n_b / n above that of the exact fit. All this is nothing unless many examples are in
    one bin: confidences that differ by less than .0003 and still tell right from wrong.

    Confidence 1 has its own bin, with values that only differ from it by rounding (2⁻⁴⁷): the
    exact metrics treat that as a tie too.

    >>> p = Predictions.from_probabilities([[0.9, 0.1], [0.3, 0.7], [0.8, 0.2]], [0, 0, 0])
    >>> whole = ConfidenceSketch.of(p)
    >>> parts = sum(ConfidenceSketch.of(p[i : i + 1]) for i in range(3))
    >>> from calibrant.metrics import aurc
    >>> aurc(p) == aurc(whole) == aurc(parts)
    True
    """

    count: np.ndarray
    correct: np.ndarray
    confidence: np.ndarray  # sums

    @classmethod
    def empty(cls, *, weighted: bool = False) -> ConfidenceSketch:
        """Return the neutral element of ``+``; with sample weights, counts are sums of them."""
        dtype = np.float64 if weighted else np.int64
        return cls(np.zeros(BINS, dtype), np.zeros(BINS, dtype), np.zeros(BINS))

    @classmethod
    def of(cls, source: Predictions | Confidences, *, chunk: int = _CHUNK) -> ConfidenceSketch:
        """Return the sketch of predictions, by their top label, or of confidences.

        ``chunk`` confidences are taken at a time.
        """
        state = confidences(source)
        made = cls.empty(weighted=state.weighted)
        for start in range(0, len(state), chunk):
            made._add(state[start : start + chunk])
        return made

    def _add(self, part: Confidences) -> None:
        low, high = -RANGE_TOLERANCE, 1 + RANGE_TOLERANCE  # As predictions may be rounded.
        if not low <= part.confidence.min() <= part.confidence.max() <= high:
            raise InputError("ConfidenceSketch expects confidences from 0 to 1.")
        self._add_columns(part.confidence, part.correct, part.weights)

    def _add_columns(
        self, confidence: np.ndarray, right: np.ndarray, w: np.ndarray | None = None
    ) -> None:
        """Add confidences of any float type; rounding outside of 0..1 is cut off."""
        if w is None and (module := claim_kernels(len(right), again=True)) is not None:
            columns = (plain(confidence), plain(right, np.bool_))
            module.add_sketch(*columns, _CUT, (self.count, self.correct, self.confidence))
            return
        confidence = np.clip(confidence.astype(np.float64, copy=False), 0, 1)
        place = bin_numbers(confidence)
        self.count[:] += np.bincount(place, w, BINS)
        self.correct[:] += np.bincount(place[right], None if w is None else w[right], BINS)
        self.confidence[:] += np.bincount(place, times(confidence, w), BINS)

    def __repr__(self) -> str:
        return f"<ConfidenceSketch of {len(self):,} examples>"

    def __len__(self) -> int:
        """Return the number of examples; a sum of weights is rounded."""
        return round(float(self.n))

    @property
    def weighted(self) -> bool:
        """Whether the examples have sample weights."""
        return self.count.dtype.kind == "f"

    @property
    def n(self) -> Any:
        """The number of examples, or the sum of their weights."""
        return self.count.sum().item()

    def __add__(self, other: ConfidenceSketch) -> ConfidenceSketch:
        if not isinstance(other, ConfidenceSketch):
            return NotImplemented
        pairs = zip(self._columns(), other._columns(), strict=True)
        return ConfidenceSketch(*(mine + theirs for mine, theirs in pairs))

    def __radd__(self, other: object) -> ConfidenceSketch:
        return self if other == 0 else NotImplemented  # This makes sum(states) work.

    def steps(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return of each bin in use, ascending: mean confidence, examples, right ones."""
        used = np.flatnonzero(self.count)
        means = np.clip(self.confidence[used] / self.count[used], 0, 1)
        # Means of neighbours may meet by rounding, but never cross.
        return np.maximum.accumulate(means), self.count[used], self.correct[used]

    def all_reduce(self, group: Any = None) -> ConfidenceSketch:
        """Return the sum of the sketches of all processes of ``torch.distributed``, in each."""
        return ConfidenceSketch(**sum_over_processes(vars(self), group))

    def to_bytes(self) -> bytes:
        """Return the bins in use with a version and a checksum."""
        used = np.flatnonzero(self.count)
        names = ("count", "correct", "confidence")
        arrays = dict(zip(names, (column[used] for column in self._columns()), strict=True))
        return pack_state(_KIND, {"bins": BINS}, {"bin": used.astype(np.uint16), **arrays})

    @classmethod
    def from_bytes(cls, data: bytes) -> ConfidenceSketch:
        """Read the output of :meth:`to_bytes`."""
        settings, arrays = unpack_state(_KIND, data)
        check_complete(_KIND, ("bin", "count", "correct", "confidence"), arrays)
        if settings.get("bins") != BINS:
            raise InputError(
                f"from_bytes expects a {_KIND} of {BINS} bins, got {settings.get('bins')}."
            )
        if len({array.shape for array in arrays.values()}) > 1:
            raise InputError(f"from_bytes: the arrays of the {_KIND} differ in length.")
        made = cls.empty(weighted=arrays["count"].dtype.kind == "f")
        for name in ("count", "correct", "confidence"):
            getattr(made, name)[arrays["bin"]] = arrays[name]
        return made

    def _columns(self) -> Iterator[np.ndarray]:
        yield from (self.count, self.correct, self.confidence)


class Sketched:
    """Takes the place of a :class:`~calibrant.metrics.sample.Sample`: all rows count.

    Up to ``most`` rows are kept as they are; with more, all of them are in a sketch. So a long
    stream takes no more memory, and no time for copies, than its sketch.

    >>> kept = Sketched(most=2)
    >>> kept.add(Confidences(np.array([0.9, 0.8]), np.array([True, False])))
    >>> kept.take()[:1].confidence
    array([0.9])
    >>> kept.add(Confidences(np.array([0.9]), np.array([True])))
    >>> kept.take()
    <ConfidenceSketch of 3 examples>
    """

    whole = True  # No row is left out.

    def __init__(self, most: int = 0) -> None:
        self.most, self.held = most, 0
        self.parts: list[Confidences] = []
        self.sketch: ConfidenceSketch | None = None

    def like(self) -> Sketched:
        """Return an empty one."""
        return Sketched(self.most)

    def take(self) -> Confidences | ConfidenceSketch:
        """Return the confidences, or the sketch of all if there are more than ``most``."""
        if self.sketch is not None:
            return self.sketch
        return Confidences.concatenate(self.parts) if self.parts else ConfidenceSketch.empty()

    def add(self, part: Confidences) -> None:
        """Add the next rows."""
        self.parts.append(part)
        self.held += len(part)
        if self.sketch is None and self.held <= self.most:
            return
        if self.sketch is None:
            self.sketch = ConfidenceSketch.empty(weighted=part.weighted)
        for held in self.parts:
            self._sum(held.confidence, held.correct, held.weights)
        self.parts = []

    def add_to_sketch(
        self, confidence: np.ndarray, correct: np.ndarray, weights: np.ndarray | None
    ) -> None:
        """Add the next rows to the sketch that there is already, without a copy."""
        self._sum(confidence, correct, weights)
        self.held += len(confidence)

    def _sum(self, confidence: np.ndarray, correct: np.ndarray, w: np.ndarray | None) -> None:
        assert self.sketch is not None
        for start in range(0, len(confidence), _CHUNK):
            rows = slice(start, start + _CHUNK)
            weights = None if w is None else w[rows]
            self.sketch._add_columns(confidence[rows], correct[rows], weights)

    def merge(self, later: Sketched) -> None:
        """Add the rows of another one of the same size."""
        for part in later.parts:
            self.add(part)
        if later.sketch is None:
            return
        held, self.parts = self.parts, []
        self.sketch = later.sketch if self.sketch is None else self.sketch + later.sketch
        for part in held:
            self.add(part)


def bin_numbers(probabilities: np.ndarray) -> np.ndarray:
    """Return the bin of each probability; those that only differ from 1 by rounding share one."""
    with np.errstate(divide="ignore"):  # 0 and 1 have infinite log-odds, and the end bins.
        place = bin_log_odds(np.log(probabilities / (1 - probabilities)))
    place[probabilities >= 1 - ROUNDING] = BINS - 1
    return place


def bin_log_odds(values: np.ndarray) -> np.ndarray:
    """Return the bin of each log-odds, which is overwritten; the end bins have what is beyond."""
    values += _LIMIT
    values /= _WIDTH
    np.clip(values, 0, BINS - 1, out=values)
    return np.asarray(values.astype(np.int64))
