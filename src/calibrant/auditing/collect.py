"""Collect in one pass over chunks of predictions what an audit is computed from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, cast

import numpy as np

from calibrant.arguments import check_kind
from calibrant.arrays import to_numpy
from calibrant.auditing.entities import Columns, EntitySums, Sentences, entity_sums
from calibrant.auditing.groups import GroupSums, Judged, LabelSums
from calibrant.auditing.per_group import PerGroup
from calibrant.auditing.pixels import PixelSums
from calibrant.auditing.record import Mistake
from calibrant.claims import Claims
from calibrant.errors import InputError
from calibrant.metrics import (
    Bins,
    CalibrationState,
    Confidences,
    ConfidenceSketch,
    accumulate,
    assign_blocks,
    is_bio,
    top_label,
)
from calibrant.metrics.blocks import dependent_group
from calibrant.metrics.class_sums import MOST_ENTRIES, ClassSums
from calibrant.metrics.confidences import TopLabel, given_type
from calibrant.metrics.entities import Reduction
from calibrant.metrics.sample import Sample
from calibrant.metrics.sketch import Sketched
from calibrant.metrics.spans import Tagging
from calibrant.predictions import Predictions
from calibrant.validation import rounded_rows

__all__ = ["MOST_ROWS", "Collector", "collect", "taken"]

_Chunk: TypeAlias = Predictions | Claims

# Sums of all blocks together: 4 million float64 are 32 MB, so many classes get fewer blocks.
_SUMS = 4_000_000
_MOST_BLOCKS, _FEWEST_BLOCKS = 1000, 50
_FEW_SUMS = 5000  # Of classes and bins; up to here each block has its own, beyond see ClassSums.
_MOST_CELLS = 1 << 24  # Classes times bins: three tables of 128 MB.
# Scores kept for the one metric that needs them all (adaptive classwise): 80 MB in float32.
_KEPT_SCORES = 20_000_000
# An engine that does not number its rows starts each partition at a multiple of this.
MOST_ROWS = 1 << 40


@dataclass
class Collector:
    """Adds chunks one after the other, and keeps the scores themselves only while they are few."""

    bins: Bins
    by: str | None = "auto"
    reduction: Reduction = "product"
    mistakes_shown: int = 20
    sample: Sample[Confidences] | Sketched = field(default_factory=lambda: Sample(10_000_000))
    per: Sequence[str] = ()
    intervals: bool = True  # without them, independent examples need no blocks
    start: int = 0  # the number of the first row, where the rows are a part of a whole
    is_part: bool = False
    skipped: int = 0  # rows of the part so far that could not be read

    rows: int = 0
    ignored: int = 0
    unlabelled: int = 0
    missing_texts: dict[str, None] = field(default_factory=dict)  # Labels such as NA, left out.
    rounded: int = 0  # rows of probabilities that miss a sum of 1
    like_probabilities: bool = False  # logits of which each row is positive and sums to 1
    weight: float = 0.0  # the sum of the sample weights, and of their squares
    squares: float = 0.0
    kind: str = ""
    dtype: str = ""
    label_names: tuple[str, ...] = ()
    blocks: int = 0
    state: CalibrationState | None = None  # with a leading axis of blocks
    class_sums: ClassSums | None = None  # the classwise part of it, where classes are many
    mistakes: list[Mistake] = field(default_factory=list)
    parts: list[Predictions] | None = field(default_factory=list)  # None: too many to keep
    entities: EntitySums | None = None
    pixels: PixelSums | None = None
    groups: GroupSums | None = None
    per_group: list[PerGroup] = field(default_factory=list)
    positive: Sample[Confidences] | Sketched | None = None  # of binary predictions: class 1
    top: CalibrationState | None = None  # of multi-label claims: the most probable of an example
    label_sums: LabelSums | None = None  # of claims about labels that are not known in advance
    _sentences: Sentences | None = None

    def add(self, chunk: Predictions | Claims) -> None:
        """Add one chunk."""
        check_kind("audit", chunk, Predictions, Claims)
        if self.state is None:
            self._start(chunk)
        block = None
        if self.blocks > 1:
            block = assign_blocks(chunk, self.by, self.blocks, start=self.start + self.rows)
        self._add_state(chunk, block)
        confidence, predicted, correct = _top_label(chunk)
        self._add_confidences(chunk, confidence, correct, block)
        if chunk.weights is not None:
            self.weight += float(chunk.weights.sum())
            self.squares += float(np.square(chunk.weights).sum())
        self._note_mistakes(chunk, confidence, predicted, correct)
        if isinstance(chunk, Claims):
            self.missing_texts |= dict.fromkeys(chunk.missing_texts)
            self._add_labels(chunk, block)
        else:
            self._add_scores(chunk, (confidence, predicted, correct, _of_each(block, chunk)))
        if chunk.groups or self.per:
            self._add_groups(chunk, Judged(_of_each(block, chunk), confidence, correct))
        self.rows, self.ignored = self.rows + len(chunk), self.ignored + chunk.ignored
        self.unlabelled += chunk.unlabelled

    def _add_confidences(
        self,
        chunk: _Chunk,
        confidence: np.ndarray,
        correct: np.ndarray,
        block: np.ndarray | None,
    ) -> None:
        if isinstance(self.sample, Sketched) and self.sample.sketch is not None:
            self.sample.add_to_sketch(confidence, correct, chunk.weights)
            return
        short = None if block is None else block.astype(np.int16)
        self.sample.add(Confidences(confidence, correct, short, chunk.weights))

    def _add_groups(self, chunk: _Chunk, judged: Judged) -> None:
        # Edges of bins are rounded to the type of the scores, as for all examples together.
        judged = judged._replace(confidence=judged.confidence.astype(given_type(chunk), copy=False))
        if self.groups is not None:
            self.groups.add(chunk, judged)
        for subgroups in self.per_group:
            if subgroups.of == "positive class" and isinstance(chunk, Predictions):
                claims = Claims.of_positive(chunk)
                subgroups.add(chunk, Judged(judged.block, claims.confidence, claims.correct))
            else:
                subgroups.add(chunk, judged)

    def _add_scores(self, chunk: Predictions, columns: Columns) -> None:
        """Add what only the scores of all classes show."""
        self._keep(chunk)
        if self.kind == "probabilities":
            self.rounded += rounded_rows(chunk.scores)
        if self.positive is not None:
            claims = Claims.of_positive(chunk)
            each = (claims.confidence, claims.correct, columns[3].astype(np.int16))
            self.positive.add(Confidences(*each, claims.weights))
        if self._sentences is not None:
            self._add_sentences(self._sentences.whole(chunk, *columns))
        if self.pixels is not None:
            self.pixels.add(chunk, columns[3])

    def _add_labels(self, claims: Claims, block: np.ndarray | None) -> None:
        if claims.kind == "multi-label":
            top = claims.top_labels()
            where: dict[str, Any] = {
                "block": assign_blocks(top, self.by, self.blocks),
                "blocks": self.blocks,
            }
            self.top = accumulate(top, self.bins, classwise=False, into=self.top, **where)
        if self.label_sums is not None:
            self.label_sums.add(claims, block)
            self.label_names = tuple(self.label_sums.names)

    def finish(self) -> None:
        """Add the last sentence, which waited for its end, and the sums of labels."""
        if self.weighted and self.weight:
            self._scale(self.rows / self.weight)
        if self.label_sums is not None and self.label_sums.blocked and self.state is not None:
            self.state = self.label_sums.into(self.state)
        if self._sentences is not None:
            self._add_sentences(self._sentences.rest())

    def _scale(self, factor: float) -> None:
        """Scale the weights to a mean of 1, so that their sum is the number of examples."""
        assert self.state is not None
        self.state = self.state.scaled(factor)
        self.top = None if self.top is None else self.top.scaled(factor)
        for sums in (self.groups, self.label_sums, self.pixels, *self.per_group):
            if sums is not None:
                sums.scale(factor)

    @property
    def weighted(self) -> bool:
        """Whether the examples have sample weights."""
        return self.state is not None and self.state.weighted

    @property
    def grouped(self) -> bool:
        """Whether the variance of sums comes from blocks: weighted counts are not binomial."""
        return self.by is not None or self.weighted

    @property
    def effective(self) -> float:
        """The number of examples of one weight that say as much: (Σ w)² / Σ w² (Kish 1965)."""
        return self.weight**2 / self.squares if self.squares else float(self.rows)

    @property
    def classwise(self) -> CalibrationState | ClassSums | None:
        """Return the source of the classwise ECE and its interval."""
        return self.class_sums or self.state

    @property
    def of_claims(self) -> bool:
        """Whether the examples are claims."""
        return self.kind not in ("logits", "probabilities")

    @property
    def classwise_known(self) -> bool:
        """Whether there are sums of the probability of every class."""
        return self.class_sums is not None or (self.state is not None and self.state.classwise)

    def total(self) -> CalibrationState:
        """Return the state of all examples, without blocks."""
        if self.state is None:
            raise InputError("Nothing to audit: no rows.")
        total = self.state.total()
        if self.label_sums is not None:
            return self.label_sums.into(total)
        if self.class_sums is None:
            return total
        tables = self.class_sums.total()
        if self.weighted:
            tables = tables.scaled(self.rows / self.weight)
        names = [name for name in CalibrationState.SUMS if name.startswith("class_")]
        return replace(total, **{name: getattr(tables, name) for name in names})

    def take_confidences(self) -> Confidences | ConfidenceSketch:
        """Return and release the confidences with their blocks, of a long stream a sample."""
        return taken(self.sample)

    def _start(self, chunk: Predictions | Claims) -> None:
        column = chunk.confidence if isinstance(chunk, Claims) else chunk.scores
        self.kind, self.dtype = chunk.kind, str(column.dtype).removeprefix("torch.")
        self.label_names = chunk.names
        self.like_probabilities = not isinstance(chunk, Claims) and _sum_to_one(chunk)
        self.by = dependent_group(chunk, self.by)
        # Predicted labels are not known in advance: parts of a whole must have the same blocks.
        classes = 2 if chunk.kind == "top-label" else max(len(chunk.names), 2)
        self._check_cells(classes)
        sums = 3 * classes * self.bins.count
        if not (self.intervals or self.by or chunk.weighted):
            self.blocks = 1
        elif sums <= _FEW_SUMS:
            self.blocks = min(_MOST_BLOCKS, _SUMS // sums)
        else:
            most = min(_MOST_BLOCKS, _SUMS // (5 * classes), MOST_ENTRIES * 3 // sums)
            self.blocks = max(_FEWEST_BLOCKS, most)
        self.groups = GroupSums(self.blocks, self.bins, self.by)
        self.per_group = [PerGroup(name, self.blocks, self.bins) for name in self.per]
        if isinstance(chunk, Claims):
            self.parts = None  # There are no scores.
            self.label_sums = None if chunk.kind == "multi-label" else LabelSums(self.blocks)
            return
        if sums > _FEW_SUMS:
            size = (chunk.classes, self.bins, self.blocks)
            self.class_sums = ClassSums(*size, weighted=chunk.weighted)
        # A part without the ends of sentences cannot be joined with its neighbours.
        ends_known = not self.is_part or "sentence" in chunk.groups
        if is_bio(chunk.label_names) and not chunk.weighted and ends_known:
            self._sentences = Sentences(part=self.is_part)
        if chunk.classes == 2 and "image" not in chunk.groups:
            self.positive = self.sample.like()
            of_class = [PerGroup(n, self.blocks, self.bins, "positive class") for n in self.per]
            self.per_group += of_class
        if "image" in chunk.groups:
            self.pixels = PixelSums(self.blocks, self.bins)

    def _check_cells(self, classes: int) -> None:
        if classes * self.bins.count > _MOST_CELLS:
            raise InputError(
                f"audit expects at most {_MOST_CELLS // classes:,} bins for {classes:,} classes, "
                f"got {self.bins.count:,}."
            )

    def _add_state(self, chunk: _Chunk, block: np.ndarray | None) -> None:
        classwise = self.class_sums is None
        if self.class_sums is not None and isinstance(chunk, Predictions):
            self.class_sums.add(chunk, _of_each(block, chunk))
        if self.state is None:
            block = _of_each(block, chunk)
        if block is None or self.state is None or not len(chunk) or (block != block[0]).any():
            self.state = accumulate(
                chunk,
                self.bins,
                classwise=classwise,
                block=block,
                blocks=self.blocks,
                into=self.state,
            )
            return
        # One image: only sums of its own block, so that all threads can work on it.
        part = accumulate(chunk, self.bins, classwise=classwise)
        for name in CalibrationState.SUMS:
            getattr(self.state, name)[block[0]] += getattr(part, name)
        self.state = replace(self.state, ignored=self.state.ignored + part.ignored)

    def _keep(self, chunk: Predictions) -> None:
        if self.parts is None:
            return
        self.parts.append(chunk)
        if (self.rows + len(chunk)) * chunk.classes > _KEPT_SCORES:
            self.parts = None

    def _add_sentences(self, found: tuple[Predictions, Columns] | None) -> None:
        if found is None or not len(found[0]):
            return
        part, (confidence, predicted, correct, block) = found
        tagging = Tagging(part, top=(confidence, predicted, correct))
        sums = entity_sums(part, tagging, block, self.blocks, self.bins, self.reduction)
        if isinstance(self.sample, Sketched) and not self.sample.most:
            sums = sums.sketched()
        self.entities = sums if self.entities is None else self.entities + sums

    def _note_mistakes(
        self,
        chunk: Predictions | Claims,
        confidence: np.ndarray,
        predicted: np.ndarray,
        correct: np.ndarray,
    ) -> None:
        wrong = ~correct
        if len(self.mistakes) == self.mistakes_shown > 0:  # Few can be surer than all of those.
            wrong &= confidence > self.mistakes[-1].confidence
        wrong = _surest(np.flatnonzero(wrong), confidence, self.mistakes_shown)
        worst = wrong[np.argsort(-confidence[wrong], kind="stable")[: self.mistakes_shown]]
        # A row of many labels makes one claim for each of them.
        claims = len(chunk.names) if chunk.kind == "multi-label" else 1
        before = (self.start + self.skipped) * claims + self.rows + self.ignored
        places = {row: int(row if chunk.rows is None else chunk.rows[row]) for row in worst}
        self.mistakes += [
            Mistake(
                (before + places[row]) // claims % MOST_ROWS,
                float(confidence[row]),
                *_predicted_and_true(chunk, int(predicted[row]), int(row)),
                {name: column[[row]].tolist()[0] for name, column in chunk.groups.items()},
            )
            for row in worst
        ]
        self.mistakes.sort(key=lambda mistake: -mistake.confidence)
        del self.mistakes[self.mistakes_shown :]


def _top_label(chunk: _Chunk) -> TopLabel:
    """Return confidence, predicted class and correctness; confidences of claims as they are."""
    if isinstance(chunk, Claims):
        about = np.broadcast_to(0, len(chunk)) if chunk.about is None else chunk.about
        return chunk.confidence, about, chunk.correct
    return top_label(chunk)


def _of_each(block: np.ndarray | None, chunk: _Chunk) -> np.ndarray:
    """Return the block of each row, which is the first where there is only one."""
    return np.zeros(len(chunk), np.int64) if block is None else block


def _surest(rows: np.ndarray, confidence: np.ndarray, most: int) -> np.ndarray:
    """Return the ``most`` rows of the largest confidence, and those that tie with the last."""
    if not 0 < most < len(rows):
        return rows
    found = confidence[rows]
    place = len(rows) - most
    return np.asarray(rows[found >= np.partition(found, place)[place]])


def _predicted_and_true(chunk: Predictions | Claims, predicted: int, row: int) -> tuple[str, str]:
    """Return the names of the predicted and the true label of a row that is wrong."""
    if isinstance(chunk, Predictions):
        return chunk.names[predicted], chunk.names[int(to_numpy(chunk.labels[[row]])[0])]
    name = "" if chunk.about is None else chunk.names[predicted]
    if chunk.truth is None:
        return name, f"not {name}" if name else "wrong"
    return name, chunk.names[chunk.truth[row]]


def taken(sample: Sample[Confidences] | Sketched) -> Confidences | ConfidenceSketch:
    """Return and release the confidences of a sample, or the sketch of all."""
    if isinstance(sample, Sketched):
        return sample.take()
    return Confidences.concatenate(sample.take())


def collect(chunks: Iterable[Predictions | Claims], collector: Collector) -> Collector:
    """Add all chunks and return the collector."""
    for chunk in chunks if isinstance(chunks, Sequence) else _read_ahead(chunks):
        collector.add(chunk)
    collector.finish()
    return collector


def _read_ahead(chunks: Iterable[_Chunk]) -> Iterator[_Chunk]:
    """Yield the chunks of a stream; a thread makes the next one while this one is used."""
    waiting, end = iter(chunks), object()
    with ThreadPoolExecutor(1) as reader:
        following = reader.submit(next, waiting, end)
        while (chunk := following.result()) is not end:
            following = reader.submit(next, waiting, end)
            yield cast(_Chunk, chunk)


def _sum_to_one(chunk: Predictions) -> bool:
    """Return whether the first rows of logits are distributions, as probabilities would be.

    >>> _sum_to_one(Predictions.from_logits([[0.2, 0.8], [0.7, 0.3]], [1, 0]))
    True
    >>> _sum_to_one(Predictions.from_logits([[0.2, 0.8], [2.0, -1.0]], [1, 0]))
    False
    """
    if chunk.kind != "logits" or not len(chunk):
        return False
    rows = np.asarray(to_numpy(chunk.scores[:1000]), np.float64)
    return bool((rows >= 0).all() and (abs(rows.sum(axis=1) - 1) < 0.01).all())
