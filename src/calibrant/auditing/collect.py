"""Collect in one pass over chunks of predictions what an audit is computed from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from calibrant.arguments import check_kind
from calibrant.arrays import to_numpy
from calibrant.auditing.entities import Columns, EntitySums, Sentences, entity_sums
from calibrant.auditing.groups import GroupSums
from calibrant.auditing.pixels import PixelSums
from calibrant.auditing.record import Mistake
from calibrant.errors import InputError
from calibrant.metrics import (
    Bins,
    CalibrationState,
    Confidences,
    accumulate,
    assign_blocks,
    is_bio,
    top_label,
)
from calibrant.metrics.blocks import dependent_group
from calibrant.metrics.class_sums import MOST_ENTRIES, ClassSums
from calibrant.metrics.entities import Reduction
from calibrant.metrics.sample import Sample
from calibrant.metrics.spans import Tagging
from calibrant.predictions import Predictions

__all__ = ["Collector", "collect"]

# Sums of all blocks together: 4 million float64 are 32 MB, so many classes get fewer blocks.
_SUMS = 4_000_000
_MOST_BLOCKS, _FEWEST_BLOCKS = 1000, 50
_FEW_SUMS = 5000  # Of classes and bins; up to here each block has its own, beyond see ClassSums.
_MOST_CELLS = 1 << 24  # Classes times bins: three tables of 128 MB.
# Scores kept for the one metric that needs them all (adaptive classwise): 80 MB in float32.
_KEPT_SCORES = 20_000_000


@dataclass
class Collector:
    """Adds chunks one after the other, and keeps the scores themselves only while they are few."""

    bins: Bins
    by: str | None = "auto"
    reduction: Reduction = "product"
    mistakes_shown: int = 20
    sample: Sample[Confidences] = field(default_factory=lambda: Sample(10_000_000))

    rows: int = 0
    ignored: int = 0
    unlabelled: int = 0
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
    _sentences: Sentences | None = None

    def add(self, chunk: Predictions) -> None:
        """Add one chunk."""
        check_kind("audit", chunk, Predictions)
        if self.state is None:
            self._start(chunk)
        block = assign_blocks(chunk, self.by, self.blocks, start=self.rows)
        self._add_state(chunk, block)
        confidence, predicted, correct = top_label(chunk)
        self.sample.add(Confidences(confidence, correct, block.astype(np.int16)))
        self._note_mistakes(chunk, confidence, predicted, correct)
        self._keep(chunk)
        if self._sentences is not None:
            columns = (confidence, predicted, correct, block)
            self._add_sentences(self._sentences.whole(chunk, *columns))
        if self.pixels is not None:
            self.pixels.add(chunk, block)
        if self.groups is not None:
            self.groups.add(chunk, block, confidence, correct)
        self.rows, self.ignored = self.rows + len(chunk), self.ignored + chunk.ignored
        self.unlabelled += chunk.unlabelled

    def finish(self) -> None:
        """Add the last sentence, which waited for its end."""
        if self._sentences is not None:
            self._add_sentences(self._sentences.rest())

    @property
    def classwise(self) -> CalibrationState | ClassSums | None:
        """Return the source of the classwise ECE and its interval."""
        return self.class_sums or self.state

    def total(self) -> CalibrationState:
        """Return the state of all examples, without blocks."""
        if self.state is None:
            raise InputError("Nothing to audit: no rows.")
        total = self.state.total()
        if self.class_sums is None:
            return total
        tables = self.class_sums.total()
        names = [name for name in CalibrationState.SUMS if name.startswith("class_")]
        return replace(total, **{name: getattr(tables, name) for name in names})

    def take_confidences(self) -> Confidences:
        """Return and release the confidences with their blocks, of a long stream a sample."""
        return Confidences.concatenate(self.sample.take())

    def _start(self, chunk: Predictions) -> None:
        self.kind, self.dtype = chunk.kind, str(chunk.scores.dtype).removeprefix("torch.")
        self.label_names = chunk.names
        self.by = dependent_group(chunk, self.by)
        self._check_cells(chunk.classes)
        sums = 3 * chunk.classes * self.bins.count
        if sums <= _FEW_SUMS:
            self.blocks = min(_MOST_BLOCKS, _SUMS // sums)
        else:
            most = min(_MOST_BLOCKS, _SUMS // (5 * chunk.classes), MOST_ENTRIES * 3 // sums)
            self.blocks = max(_FEWEST_BLOCKS, most)
            self.class_sums = ClassSums(chunk.classes, self.bins, self.blocks)
        if chunk.label_names is not None and is_bio(chunk.label_names):
            self._sentences = Sentences()
        self.groups = GroupSums(self.blocks, self.bins, self.by)
        if "image" in chunk.groups:
            self.pixels = PixelSums(self.blocks, self.bins)

    def _check_cells(self, classes: int) -> None:
        if classes * self.bins.count > _MOST_CELLS:
            raise InputError(
                f"audit expects at most {_MOST_CELLS // classes:,} bins for {classes:,} classes, "
                f"got {self.bins.count:,}."
            )

    def _add_state(self, chunk: Predictions, block: np.ndarray) -> None:
        classwise = self.class_sums is None
        if self.class_sums is not None:
            self.class_sums.add(chunk, block)
        if self.state is None or not len(chunk) or (block != block[0]).any():
            self.state = accumulate(
                chunk,
                self.bins,
                classwise=classwise,
                block=block,
                blocks=self.blocks,
                into=self.state,
            )
            return
        # One image: sums of its own block alone, so that all threads can work on it.
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
        self.entities = sums if self.entities is None else self.entities + sums

    def _note_mistakes(
        self,
        chunk: Predictions,
        confidence: np.ndarray,
        predicted: np.ndarray,
        correct: np.ndarray,
    ) -> None:
        wrong = np.flatnonzero(~correct)
        worst = wrong[np.argsort(-confidence[wrong], kind="stable")[: self.mistakes_shown]]
        labels, before = to_numpy(chunk.labels), self.rows + self.ignored
        self.mistakes += [
            Mistake(
                before + int(row if chunk.rows is None else chunk.rows[row]),
                float(confidence[row]),
                self.label_names[predicted[row]],
                self.label_names[labels[row]],
                {name: column[[row]].tolist()[0] for name, column in chunk.groups.items()},
            )
            for row in worst
        ]
        self.mistakes.sort(key=lambda mistake: -mistake.confidence)
        del self.mistakes[self.mistakes_shown :]


def collect(chunks: Iterable[Predictions], collector: Collector) -> Collector:
    """Add all chunks and return the collector."""
    for chunk in chunks:
        collector.add(chunk)
    collector.finish()
    return collector
