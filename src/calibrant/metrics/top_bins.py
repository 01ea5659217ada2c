"""The bins of the top-label confidence alone, which suffice for ECE, MCE and accuracy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np

from calibrant.arrays import Array, as_array, to_numpy
from calibrant.claims import Claims
from calibrant.errors import InputError
from calibrant.metrics.accumulate import accumulate_by, check_counted, edge_type
from calibrant.metrics.bins import Bins, Closed
from calibrant.metrics.claim_state import claim_state
from calibrant.metrics.kernel_dispatch import (
    in_host_memory,
    kernel_edges,
    kernels,
    kernels_for,
    plain,
    spread,
)
from calibrant.predictions import Kind, Predictions
from calibrant.validation import RANGE_TOLERANCE, SUM_TOLERANCE

__all__ = ["TopBins", "top_bins"]

_TABLES = ("top_count", "top_confidence", "top_correct")
_CHUNK = 1 << 17  # Scores that NumPy takes at a time: a megabyte in float64.
_LEAST = 1 << 20  # Scores that a thread takes at a time, in about half a millisecond.


@dataclass(frozen=True, eq=False)
class TopBins:
    """Sums per bin of the top-label confidence: a small state if nothing else is needed.

    The fields have the names that they have in a :class:`~calibrant.metrics.CalibrationState`.
    Create it by :func:`top_bins` from predictions, or directly from arrays, which are checked and
    summed in one pass: the fastest way from arrays to an ECE. States can be added.

    >>> from calibrant.metrics import ece
    >>> batches = [([[2.0, 0.0], [0.0, 1.0]], [0, 0]), ([[0.0, 3.0]], [-100])]
    >>> state = sum(TopBins.from_logits(logits, labels) for logits, labels in batches)
    >>> state.top_count.sum(), state.ignored, round(ece(state), 3)
    (np.int64(2), 1, 0.425)
    """

    bins: Bins
    ignored: int
    top_count: np.ndarray
    top_confidence: np.ndarray
    top_correct: np.ndarray

    @classmethod
    def from_logits(
        cls,
        logits: Any,
        labels: Any,
        bins: int | Bins = 15,
        *,
        closed: Closed = "right",
        weights: Any = None,
    ) -> TopBins:
        """Create from what :meth:`calibrant.Predictions.from_logits` takes, with its checks."""
        make = Predictions.from_logits
        return _from_arrays(make, logits, labels, _as_bins(bins, closed), weights)

    @classmethod
    def from_probabilities(
        cls,
        probabilities: Any,
        labels: Any,
        bins: int | Bins = 15,
        *,
        closed: Closed = "right",
        weights: Any = None,
    ) -> TopBins:
        """Create from what :meth:`calibrant.Predictions.from_probabilities` takes."""
        make = Predictions.from_probabilities
        return _from_arrays(make, probabilities, labels, _as_bins(bins, closed), weights)

    @classmethod
    def empty(cls, bins: Bins) -> TopBins:
        """Return the neutral element of ``+``."""
        counts = np.zeros((2, bins.count), np.int64)
        return cls(bins, 0, counts[0], np.zeros(bins.count), counts[1])

    @property
    def n(self) -> np.ndarray:
        """The number of examples."""
        return np.asarray(self.top_count.sum(axis=-1))

    @property
    def correct(self) -> np.ndarray:
        """The number of examples whose argmax is the label."""
        return np.asarray(self.top_correct.sum(axis=-1))

    @property
    def weighted(self) -> bool:
        """Whether the counts are sums of sample weights."""
        return self.top_count.dtype.kind == "f"

    @property
    def tables(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The counts, sums of confidences and counts of correct examples, for the kernels."""
        return self.top_count, self.top_confidence, self.top_correct

    def __add__(self, other: TopBins) -> TopBins:
        if not isinstance(other, TopBins):
            return NotImplemented
        if self.bins != other.bins:
            raise InputError(
                f"States with different bins cannot be added: {self.bins} and {other.bins}."
            )
        if self.weighted != other.weighted and self.n and other.n:
            raise InputError("States with and without sample weights cannot be added.")
        sums = (mine + theirs for mine, theirs in zip(self.tables, other.tables, strict=True))
        return TopBins(self.bins, self.ignored + other.ignored, *sums)

    def __radd__(self, other: object) -> TopBins:
        return self if other == 0 else NotImplemented  # This makes sum(states) work.


def top_bins(
    predictions: Predictions | Claims, bins: int | Bins = 15, *, closed: Closed = "right"
) -> TopBins:
    """Compute these fields as :func:`~calibrant.metrics.accumulate` does, in less time.

    From float32 logits the compiled kernels find the same counts, and confidences to float32's
    precision.

    >>> p = Predictions.from_probabilities([[0.9, 0.1], [0.3, 0.7]], [0, 0])
    >>> top_bins(p, bins=5).top_correct
    array([0, 0, 0, 0, 1])
    """
    bins = _as_bins(bins, closed)
    if isinstance(predictions, Claims):
        state = claim_state(predictions, bins)
        return TopBins(bins, state.ignored, *(getattr(state, name) for name in _TABLES))
    module = None if predictions.weighted else kernels_for(predictions)
    if module is None:
        return _by_numpy(predictions, bins)
    p = predictions
    if _is_float32(p.scores):
        found, valid = _in_lanes(p.kind, p.scores, p.labels, bins)
        if valid:
            check_counted(int(found.n), len(p))
            return replace(found, ignored=p.ignored)
    return _in_float64(p, bins, module)


def _as_bins(bins: int | Bins, closed: Closed) -> Bins:
    return bins if isinstance(bins, Bins) else Bins(bins, closed)


def _is_float32(scores: Array) -> bool:
    """Whether the kernels get the scores as float32, also from half precision."""
    return plain(scores[:0]).dtype == np.float32


def _from_arrays(
    make: Callable[..., Predictions], scores: Any, labels: Any, bins: Bins, weights: Any
) -> TopBins:
    """Check and sum in one pass if there is a kernel for it, else one after the other.

    The kernel knows only "surely valid". Doubtful input takes the slower path, where a closer
    look finds the wrong row and its error message, or that all is well.
    """
    if weights is not None:
        return top_bins(make(scores, labels, weights=weights), bins)
    scores, labels = as_array(scores), as_array(labels)
    if not _are_plain(scores, labels):
        return top_bins(make(scores, labels), bins)
    if kernels(scores.shape[0] * scores.shape[1]) is None:
        return _by_numpy(make(scores, labels), bins)
    kind: Kind = "logits" if make == Predictions.from_logits else "probabilities"
    found, valid = _in_lanes(kind, scores, labels, bins)
    return found if valid else top_bins(make(scores, labels), bins)


def _are_plain(scores: Array, labels: Array) -> bool:
    """Whether these are n × K floats of at most 32 bits and n integers, in host memory."""
    shapes = tuple(scores.shape), tuple(labels.shape)
    if len(shapes[0]) != 2 or shapes[0][1] < 2 or shapes[0][:1] != shapes[1]:
        return False
    if not (in_host_memory(scores) and in_host_memory(labels)):
        return False
    if object in (scores.dtype, labels.dtype):
        return False
    kinds = to_numpy(scores[:0]).dtype.kind, to_numpy(labels[:0]).dtype
    # uint64 takes the slower path: the kernel would read 2⁶⁴ − 100 as −100.
    whole = kinds[1].kind in "iu" and kinds[1] != np.uint64
    return kinds[0] == "f" and whole and _is_float32(scores)


def _by_numpy(p: Predictions, bins: Bins) -> TopBins:
    """Compute with NumPy in chunks that stay in cache, or on the tensors' device."""
    if p.weighted or not in_host_memory(p.scores):
        state = accumulate_by(None, p, bins, classwise=False)
        return TopBins(bins, p.ignored, state.top_count, state.top_confidence, state.top_correct)
    rows = max(1, _CHUNK // p.classes)

    def add(start: int, stop: int) -> TopBins:
        # Also cut at stop: if rows do not divide it, the next task has the rest.
        spans = (slice(i, min(i + rows, stop)) for i in range(start, stop, rows))
        parts = (_added(p.kind, p.scores[span], p.labels[span], bins) for span in spans)
        return sum(parts, start=TopBins.empty(bins))

    return _joined(p, bins, spread(add, len(p), p.classes))


def _joined(p: Predictions, bins: Bins, parts: list[TopBins]) -> TopBins:
    """Return the sum of the parts, which must hold every row of ``p`` once."""
    found = sum(parts, start=replace(TopBins.empty(bins), ignored=p.ignored))
    check_counted(int(found.n), len(p))
    return found


def _added(kind: Kind, scores: Array, labels: Array, bins: Bins) -> TopBins:
    """Return the bins of one chunk, computed as in :func:`~calibrant.metrics.accumulate`."""
    scores, labels = to_numpy(scores), to_numpy(labels)
    predicted = scores.argmax(axis=1)
    confidence = scores[np.arange(len(labels)), predicted]
    if kind == "logits":
        shifted = scores.astype(np.float64)
        with np.errstate(over="ignore"):  # A class ruled out by the lowest float: −∞, exp gives 0.
            shifted -= confidence[:, None]
        confidence = 1 / np.exp(shifted, out=shifted).sum(axis=1)
    where = bins.index(confidence)
    count = np.bincount(where, minlength=bins.count)
    sums = np.bincount(where, confidence, minlength=bins.count)
    correct = np.bincount(where[predicted == labels], minlength=bins.count)
    return TopBins(bins, 0, count, sums, correct)


def _in_lanes(kind: Kind, scores: Array, labels: Array, bins: Bins) -> tuple[TopBins, bool]:
    """Return the bins of float32 scores, and whether all scores and labels are surely valid."""
    from calibrant.metrics.kernels import tops

    classes, logits = int(scores.shape[1]), kind == "logits"
    edges, right, margin, _ = kernel_edges(bins, edge_type(kind, scores))
    cut = edges, right, tops.margin(bins.count, classes) if logits else margin
    # Two of a row whose sum is valid cannot both be above the first; sums of float32 miss by up to
    # half a unit in the last place for each class.
    checks = 0.5 + SUM_TOLERANCE, SUM_TOLERANCE - classes * 2.0**-24

    def add(start: int, stop: int) -> tuple[np.ndarray, np.ndarray, bool]:
        cells = tops.TABLES * bins.count
        tally, sums = np.zeros(cells, np.int64), np.zeros(cells)
        given = plain(scores[start:stop]), plain(labels[start:stop], np.int64)
        return tally, sums, tops.add_tops(*given, cut, logits, checks, (tally, sums))

    parts = spread(add, len(scores), classes, smallest=_LEAST)
    if not parts:
        return TopBins.empty(bins), True
    tallies, sums, valid = (np.array(column) for column in zip(*parts, strict=True))
    tables = (tallies & 0xFFFFFFFF, sums, tallies >> 32)
    count, confidence, correct = (t.reshape(-1, bins.count).sum(axis=0) for t in tables)
    ignored = len(scores) - int(count.sum())
    return TopBins(bins, ignored, count, confidence, correct), bool(valid.all())


def _in_float64(p: Predictions, bins: Bins, kernels: ModuleType) -> TopBins:
    """Return the bins of scores of any type, with any values that validation allows."""
    cut = kernel_edges(bins, edge_type(p.kind, p.scores))
    alone = _no_tie_above(p.kind, p.classes)

    def add(start: int, stop: int) -> TopBins:
        part, rows = TopBins.empty(bins), slice(start, stop)
        scores, labels = plain(p.scores[rows]), plain(p.labels[rows], np.int64)
        kernels.add_tops(scores, labels, cut, p.kind == "logits", alone, *part.tables)
        return part

    return _joined(p, bins, spread(add, len(p), p.classes))


def _no_tie_above(kind: Kind, classes: int) -> float:
    """Return a confidence that two classes of one row cannot both exceed.

    It is one half; for probabilities, plus half of what validation lets sums miss 1, and values be
    below 0.
    """
    slack = 0.0 if kind == "logits" else SUM_TOLERANCE + classes * RANGE_TOLERANCE
    return 0.5 + slack / 2 + 1e-3
