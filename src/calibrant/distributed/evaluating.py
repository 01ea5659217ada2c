"""What a comparison asks: losses out of fold, numbers on TEST, and whether both are the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.calibrators import Calibrator
from calibrant.claims import Claims
from calibrant.comparison import row_marks
from calibrant.comparison.cross_validation import brier_if_wrong, example_brier, example_nll
from calibrant.comparison.recommendation import losses_if_wrong
from calibrant.distributed.passes import Answer, Chunk
from calibrant.distributed.questions import mapped_by
from calibrant.distributed.views import Folded, block_numbers, rows_of
from calibrant.metrics import Bins, CalibrationState, ConfidenceSketch, accumulate
from calibrant.metrics.blocks import dependent_group
from calibrant.metrics.confidences import bin_confidences, confidences
from calibrant.metrics.sketch import BINS
from calibrant.predictions import Predictions

__all__ = ["BLOCKS", "HeldOut", "Marks", "OnTest"]

BLOCKS = 1000  # Of the bootstrap.


@dataclass(frozen=True)
class Marks:
    """A sum over rows that does not depend on their order: the same data have the same."""

    def __call__(self, chunk: Chunk) -> Answer:
        """Return the sums of some rows."""
        p = rows_of(chunk, None)
        if not len(p):
            return {}
        marks = row_marks(p)
        both = np.array([marks.sum(dtype=np.uint64), (marks * marks).sum(dtype=np.uint64)])
        return {"sum:marks": both, "sum:labels": np.bincount(p.labels, minlength=p.classes)}


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Losses of rows under calibrators that were fitted without their fold, per block."""

    fitted: tuple[tuple[Calibrator, ...], ...]  # Of each calibrator, one fit per fold.
    folds: int
    seed: int
    floor: float

    def __call__(self, chunk: Chunk) -> Answer:
        """Return the sums of some rows."""
        count = np.zeros(BLOCKS)
        nll, brier = (np.zeros((len(self.fitted), BLOCKS)) for _ in range(2))
        mistake, top = np.zeros((2, len(self.fitted))), np.zeros((len(self.fitted), 3, 15))
        block = block_numbers(chunk, BLOCKS)
        for fold in range(self.folds):
            inside = Folded(self.folds, fold, self.seed, inside=True)
            p, where = rows_of(chunk, inside), block[inside.mask(chunk)]
            if not len(p):
                continue
            weights = np.ones(len(p)) if p.weights is None else p.weights
            count += np.bincount(where, weights, BLOCKS)
            for k, fits in enumerate(self.fitted):
                mapped = mapped_by(fits[fold], p)
                each = example_nll(mapped, self.floor)
                nll[k] += np.bincount(where, weights * each, BLOCKS)
                brier[k] += np.bincount(where, weights * example_brier(mapped), BLOCKS)
                mistake[0, k] += weights @ losses_if_wrong(each)
                mistake[1, k] += weights @ brier_if_wrong(mapped)
                top[k] += _top(mapped, bool(fits[fold].claims_))
        return {
            "sum:count": count,
            "sum:nll": nll,
            "sum:brier": brier,
            "sum:mistake": mistake,
            "sum:top": top,
        }


def _judged(p: Predictions, claims: bool) -> Predictions | Claims:
    """Return binary predictions of claims as claims again."""
    return Claims.of_positive(p) if claims else p


def _top(p: Predictions, claims: bool) -> np.ndarray:
    """Return (3, bins) counts, sums of confidence and right predictions."""
    state = bin_confidences(confidences(_judged(p, claims)), Bins())
    return np.stack([state.top_count, state.top_confidence, state.top_correct])


@dataclass(frozen=True, eq=False)
class OnTest:
    """The states and sketches of TEST after each calibrator."""

    fitted: tuple[Calibrator, ...]
    bins: int

    def __call__(self, chunk: Chunk) -> Answer:
        """Return the sums of some rows."""
        p, block = rows_of(chunk, None), block_numbers(chunk, BLOCKS)
        if not len(p):
            return {}
        grouped = dependent_group(chunk.rows) is not None
        found: Answer = {"sum:n": np.array([len(p)]), "max:grouped": np.array([int(grouped)])}
        cells: list[dict[str, np.ndarray]] = []
        for k, calibrator in enumerate(self.fitted):
            mapped = _judged(mapped_by(calibrator, p), bool(calibrator.claims_))
            state = accumulate(
                mapped, self.bins, classwise=False, block=block, blocks=BLOCKS
            ).without_classes()
            found |= {f"sum:{k}.{s}": getattr(state, s) for s in _NARROW}
            cells.append(_cells(ConfidenceSketch.of(confidences(mapped)), k))
        return found | {name: np.concatenate([c[name] for c in cells]) for name in cells[0]}


_NARROW = [s for s in CalibrationState.SUMS if not s.startswith(("class_", "label_", "predicted_"))]


def _cells(sketch: ConfidenceSketch, place: int) -> dict[str, np.ndarray]:
    used = np.flatnonzero(sketch.count)
    names = ("count", "correct", "confidence")
    columns = {f"cell:{n}": getattr(sketch, n)[used].astype(np.float64) for n in names}
    return {"cell:place": place * BINS + used, **columns}
