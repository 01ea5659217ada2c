"""The additive state behind all binned metrics, scores and diagrams."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np

from calibrant.errors import InputError
from calibrant.html_tables import html_table
from calibrant.metrics.all_reduce import sum_over_processes
from calibrant.metrics.bins import Bins
from calibrant.metrics.state_bytes import (
    check_complete,
    json_object,
    pack_state,
    unpack_state,
)

__all__ = ["CalibrationState", "times"]

_SETTINGS = ("bins", "closed", "classes", "ignored")
_PER_CLASS = ("class_", "label_", "predicted_")


@dataclass(frozen=True, eq=False)
class CalibrationState:
    """Counts and sums over examples; states of two shards add up to the state of the whole.

    Sums are float64 for scores of any type; memory does not grow with n. Every array may
    have leading axes, one state per entry (blocks of a bootstrap, replicates): the metrics work on
    the last axes and return one number per entry. With sample weights (``weighted``) every example
    counts by its weight: each count is a sum of weights, in float64, and each sum is weighted.

    ======================== ========= =====================================================
    field                    shape     per
    ======================== ========= =====================================================
    n, correct               ()        examples, and those whose argmax is the label
    nll, brier               ()        sums of −log p_y and of Σ_k (p_k − 1[y = k])²
    top_count, …_confidence, (B,)      bin of the top-label confidence: examples, sum of
    …_correct                          confidence, sum of correctness
    class_count,             (K, B)    class k and bin of p_k: examples, sum of p_k, and
    …_confidence, …_correct            examples labelled k (one against rest)
    label_count              (K,)      true class
    predicted_count, …       (K,)      predicted class: examples, sum of confidence, right
    ======================== ========= =====================================================

    >>> from calibrant import Predictions
    >>> from calibrant.metrics import accumulate, ece
    >>> p = Predictions.from_probabilities([[0.9, 0.1], [0.3, 0.7]], [0, 0])
    >>> whole = accumulate(p)
    >>> ece(whole) == ece(accumulate(p[:1]) + accumulate(p[1:]))
    True
    """

    bins: Bins
    classes: int
    ignored: int
    n: np.ndarray
    correct: np.ndarray
    nll: np.ndarray
    brier: np.ndarray
    top_count: np.ndarray
    top_confidence: np.ndarray
    top_correct: np.ndarray
    class_count: np.ndarray
    class_confidence: np.ndarray
    class_correct: np.ndarray
    label_count: np.ndarray
    predicted_count: np.ndarray
    predicted_confidence: np.ndarray
    predicted_correct: np.ndarray
    weighted: bool = False

    SUMS: ClassVar[tuple[str, ...]]

    @classmethod
    def empty(
        cls,
        classes: int,
        bins: Bins | None = None,
        *,
        classwise: bool = True,
        blocks: tuple[int, ...] = (),
        weighted: bool = False,
    ) -> CalibrationState:
        """Return the neutral element of ``+``; without ``classwise`` (K, B) tables have no rows."""
        bins = bins or Bins()
        rows = classes if classwise else 0
        shapes: dict[str, tuple[int, ...]] = {}
        for name in cls.SUMS:
            part = name.split("_")[0]
            shapes[name] = {
                "top": (bins.count,),
                "class": (rows, bins.count),
                "label": (classes,),
                "predicted": (classes,),
            }.get(part, ())
        counts = ("n", "correct", "top_count", "top_correct", "class_count", "class_correct")
        whole = (*counts, "label_count", "predicted_count", "predicted_correct")
        integer = () if weighted else whole
        return cls(
            bins,
            classes,
            0,
            **{
                name: np.zeros(blocks + shape, np.int64 if name in integer else np.float64)
                for name, shape in shapes.items()
            },
            weighted=weighted,
        )

    @property
    def classwise(self) -> bool:
        """Whether the (K, B) tables were kept."""
        return bool(self.class_count.shape[-2])

    def without_classes(self) -> CalibrationState:
        """Return the state without sums per class, which top-label errors and proper scores ignore.

        Resampling it costs the same for two classes as for a hundred thousand.
        """
        tables = {s: getattr(self, s) for s in self.SUMS if s.startswith(("label", "predicted"))}
        empty = {name: table[..., :0] for name, table in tables.items()}
        classwise = {s: getattr(self, s)[..., :0, :] for s in self.SUMS if s.startswith("class_")}
        return replace(self, **empty, **classwise)

    def __add__(self, other: CalibrationState) -> CalibrationState:
        if not isinstance(other, CalibrationState):
            return NotImplemented
        for name in ("bins", "classes", "classwise"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                raise InputError(
                    f"States with different {name} cannot be added: {mine} and {theirs}."
                )
        if self.weighted != other.weighted:
            raise InputError(
                "States with and without sample weights cannot be added: use weights of 1."
            )
        sums = {name: getattr(self, name) + getattr(other, name) for name in self.SUMS}
        return replace(self, ignored=self.ignored + other.ignored, **sums)

    def __radd__(self, other: object) -> CalibrationState:
        return self if other == 0 else NotImplemented  # This makes sum(states) work.

    def __getitem__(self, place: Any) -> CalibrationState:
        """Select along the leading axes: ``state[3]`` is the state of block 3."""
        return replace(self, **{s: getattr(self, s)[place] for s in self.SUMS})

    def total(self) -> CalibrationState:
        """Sum over the leading axes."""
        lead = tuple(range(self.n.ndim))
        return replace(self, **{s: getattr(self, s).sum(axis=lead) for s in self.SUMS})

    def scaled(self, factor: float) -> CalibrationState:
        """Return the state of the same examples with all sample weights times a factor."""
        sums: dict[str, Any] = {s: np.asarray(getattr(self, s) * factor) for s in self.SUMS}
        return replace(self, **sums, weighted=True)

    def resampled(self, weights: np.ndarray) -> CalibrationState:
        """Return states of bootstrap replicates: (R, G) weights times the sums of G blocks."""
        tables = {s: getattr(self, s) for s in self.SUMS}
        # One product of all sums side by side: the weights are read once.
        joined = np.concatenate([t.reshape(len(t), -1) for t in tables.values()], axis=1)
        drawn, start = _weighted(weights, joined.astype(np.float64, copy=False)), 0
        sums: dict[str, Any] = {}
        for name, table in tables.items():
            part = drawn[:, start : start + table[0].size]
            sums[name] = part.reshape(len(weights), *table.shape[1:])
            start += table[0].size
        return replace(self, **sums)

    def __repr__(self) -> str:
        """Show how many examples, classes and bins there are, not every sum."""
        lead = f", {'×'.join(map(str, np.shape(self.n)))} states" if np.ndim(self.n) else ""
        n = int(np.sum(self.n))
        return f"<CalibrationState of {n:,} examples, {self.classes} classes, {self.bins}{lead}>"

    def _repr_html_(self) -> str:
        """Return a table of the bins for a notebook, of all states together."""
        whole, edges = self.total(), self.bins.edges()
        rows = []
        for low, high, n, confidence, right in zip(
            edges, edges[1:], whole.top_count, whole.top_confidence, whole.top_correct, strict=False
        ):
            shares = [f"{total / n:.3f}" if n else "–" for total in (confidence, right)]
            rows.append([f"{low:.3f} to {high:.3f}", f"{int(n):,}", *shares])
        return html_table(["bin", "examples", "confidence", "accuracy"], rows, [repr(self)])

    def to_json(self) -> str:
        """Return one line of JSON; :meth:`from_json` restores the same state, to the last bit."""
        content: dict[str, Any] = {s: getattr(self, s).tolist() for s in self.SUMS}
        return json.dumps({**self._header(), **content}).replace(
            "Infinity",
            '"inf"',  # JSON has no infinity; nll is infinite if p_y = 0.
        )

    def _header(self) -> dict[str, Any]:
        """Return the settings; files without weights are as they were before there were any."""
        header = {"bins": self.bins.count, "closed": self.bins.closed, "classes": self.classes}
        weighted = {"weighted": True} if self.weighted else {}
        return {**header, "ignored": self.ignored, **weighted}

    @classmethod
    def from_json(cls, text: str) -> CalibrationState:
        """Read the output of :meth:`to_json`."""
        content = json_object(cls.__name__, text)
        weighted = bool(content.pop("weighted", False))
        check_complete(cls.__name__, (*_SETTINGS, *cls.SUMS), content, "from_json")
        bins = Bins(content["bins"], content["closed"])
        empty = cls.empty(content["classes"], bins, weighted=weighted)
        sums = {s: np.asarray(content[s], dtype=getattr(empty, s).dtype) for s in cls.SUMS}
        if not sums["class_count"].size:
            shape = (*sums["n"].shape, 0, bins.count)
            sums |= {s: sums[s].reshape(shape) for s in cls.SUMS if s.startswith("class_")}
        cls._check_shapes(bins, content["classes"], sums, "from_json")
        return cls(bins, content["classes"], content["ignored"], **sums, weighted=weighted)

    def all_reduce(self, group: Any = None) -> CalibrationState:
        """Return the sum of the states of all processes of ``torch.distributed``, in each of them.

        Call it once at the end of an evaluation, in every process. One that had no rows adds
        :meth:`empty`; states of other bins or classes are refused.
        """
        sums = {name: getattr(self, name) for name in self.SUMS}
        sums["ignored"] = np.array([self.ignored])
        about = (self.bins.count, self.bins.closed, self.classes, self.weighted)
        added: dict[str, Any] = dict(sum_over_processes(sums, group, about))
        return replace(self, **{**added, "ignored": int(added["ignored"][0])})

    def to_bytes(self) -> bytes:
        """Return the state with a version and a checksum, to send it to another process."""
        sums = {name: getattr(self, name) for name in self.SUMS}
        return pack_state(type(self).__name__, self._header(), sums)

    @classmethod
    def from_bytes(cls, data: bytes) -> CalibrationState:
        """Read the output of :meth:`to_bytes`: the same state, to the last bit."""
        header, sums = unpack_state(cls.__name__, data)
        weighted = bool(header.pop("weighted", False))
        check_complete(cls.__name__, (*_SETTINGS, *cls.SUMS), (*header, *sums))
        bins = Bins(header["bins"], header["closed"])
        cls._check_shapes(bins, header["classes"], sums, "from_bytes")
        return cls(bins, header["classes"], header["ignored"], **sums, weighted=weighted)

    @classmethod
    def _check_shapes(
        cls, bins: Bins, classes: int, sums: Mapping[str, np.ndarray], where: str
    ) -> None:
        """Require the shapes of a state, with or without sums per class, after those of n."""
        empty, blocks = cls.empty(classes, bins), sums["n"].shape
        for name, array in sums.items():
            whole = getattr(empty, name).shape
            allowed = (whole, (0, *whole[1:]) if name.startswith(_PER_CLASS) else whole)
            if array.shape not in [blocks + shape for shape in allowed]:
                raise InputError(
                    f"{where}: {name} of the {cls.__name__} has shape {array.shape}, expected "
                    f"{blocks + whole}."
                )


def times(values: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Return the values, each times its sample weight where there are weights."""
    return values if weights is None else values * weights


def _weighted(weights: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Return weights @ table with 0 · ∞ = 0: an undrawn block does not count (nll can be ∞)."""
    infinite = np.isinf(table)
    if not infinite.any():
        return np.asarray(weights @ table)
    total = weights @ np.where(infinite, 0.0, table)
    return np.where(weights @ infinite.astype(np.float64) > 0, np.inf, total)


CalibrationState.SUMS = tuple(f.name for f in fields(CalibrationState))[3:-1]
