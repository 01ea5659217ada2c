"""The outcome of a recipe: predictions, the calibrator that is chosen for them, and the record.

Every engine ends in an :class:`Outcome`; :func:`measure_outcome` makes the record of any outcome.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from torch import nn

from calibrant.calibrators import (
    CALIBRATORS,
    CalibrationWarning,
    Calibrator,
    calibrator_class,
)
from calibrant.comparison import SpanCalibrator
from calibrant.comparison.selection import select_calibrator
from calibrant.comparison.span_calibrator import fit_entities
from calibrant.comparison.under_shift import predicted_copies, with_corruption
from calibrant.errors import InputError
from calibrant.experiments.measure import LazyPredictions, measure_run
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.recipe_checks import AUTO
from calibrant.experiments.record import Record, under_own_word
from calibrant.experiments.small_data import nothing_learned
from calibrant.metrics.tags import is_bio
from calibrant.predictions import IGNORED, Predictions
from calibrant.tasks import task_of
from calibrant.tasks.data import Damaged, Data
from calibrant.tasks.task import Task

if TYPE_CHECKING:
    from calibrant.tasks.feature_signals import WithSignals

__all__ = [
    "CANDIDATES",
    "Job",
    "Measured",
    "Outcome",
    "choose_calibrator",
    "copy_names",
    "labelled_rows",
    "measure_outcome",
    "noted_warnings",
    "record_of",
]

# They keep every prediction, so only the confidence changes, and need the scores alone.
CANDIDATES = tuple(
    name
    for name, row in CALIBRATORS.items()
    if row.calibrator.keeps_argmax
    and not row.calibrator.needs_groups
    and not row.calibrator.needs_copies
)


@dataclass(frozen=True)
class Outcome:
    """What a trained model predicts, and how the training went."""

    recipe: Recipe
    valid: Predictions
    test: Predictions
    training: dict[str, Any]
    shift: Mapping[str, Predictions] = field(default_factory=dict)
    ood: Predictions | None = None
    outside: Predictions | None = None  # of examples of no class
    copies: Predictions | None = None  # of the validation part, corrupted
    signals: WithSignals | None = None  # The model, with the signals of predictions for copies.

    @property
    def predictions(self) -> dict[str, Predictions]:
        """The predictions of each split that a run keeps."""
        kept = {"valid": self.valid, "test": self.test, "ood": self.ood}
        return {split: found for split, found in kept.items() if found is not None}

    def without_model(self) -> Outcome:
        """Return what another process needs to measure it, and leave the model as it was."""
        if self.signals is not None:
            self.signals.release()
        return replace(self, signals=None)


@dataclass(frozen=True)
class Job:
    """Recipes that share their data: the data, and the parts that ``shift`` names."""

    task: Task
    data: Data
    shift: Mapping[str, Any]

    @classmethod
    def of(cls, recipe: Recipe, directory: str | None) -> Job:
        """Prepare everything that can fail before training starts."""
        task = task_of(recipe.task)
        data = task.prepare(recipe, directory)
        return cls(task, data, task.shifted(recipe, data, directory))

    def build(self, recipe: Recipe) -> nn.Module:
        """Build a new model."""
        return self.task.build_model(recipe, self.data)

    def outcome(
        self, recipe: Recipe, model: nn.Module, training: Mapping[str, Any], *, lazy: bool = False
    ) -> Outcome:
        """Predict all parts; if ``lazy``, the shifted ones when they are needed, one at a time."""
        data = self.data
        copied = copy_names(recipe, labelled_rows(data.parts["valid"]))
        signals = self._with_signals(model, copied, trusting=not recipe.wrapped)
        model = model if signals is None else signals
        made = {split: data.predict(model, part) for split, part in data.parts.items()}
        shift: Mapping[str, Predictions] = LazyPredictions(
            self.shift, lambda part: data.predict(model, part)
        )
        if not lazy:
            shift = dict(shift)
        outside = data.outside(model)
        notes = [*data.notes, *training["notes"]]  # Now: predicting may sample, and says so.
        return Outcome(
            recipe,
            made["valid"],
            made["test"],
            {**training, "notes": notes},
            shift,
            made.get("ood"),
            outside,
            predicted_copies(
                lambda part: data.predict(model, part), self.task.copies(copied, data)
            ),
            signals,
        )

    def _with_signals(
        self, model: nn.Module, copied: Sequence[str], *, trusting: bool
    ) -> WithSignals | None:
        """Return the model with signals of its features, if a calibrator may read them.

        A wrapped model may have no training data, or hide what its head is given.
        """
        from calibrant.tasks.feature_signals import WithSignals, known_features

        if not copied or "train" not in self.data.splits:
            return None
        rows = self.data.windows(str(next(model.parameters()).device))[0]
        try:
            centres = known_features(model, rows, len(self.data.labels))
        except InputError:
            if trusting:
                raise
            return None
        damage = self.data.damage(model) if isinstance(self.data, Damaged) else None
        return WithSignals(model, centres, damage)


def labelled_rows(part: Any) -> int:
    """Return how many rows of predictions a part gives: words, texts or images with a class."""
    labels = part.labels if hasattr(part, "labels") else getattr(part, "classes", ())
    return int((np.asarray(labels) != IGNORED).sum())


def copy_names(recipe: Recipe, rows: int) -> tuple[str, ...]:
    """Return the corruptions of the copies of a validation part with that many rows.

    >>> copy_names(Recipe(), 100), copy_names(Recipe(), 50_000)[:2]
    ((), ('typos-1', 'typos-3'))
    """
    asked = recipe.calibrator != AUTO and calibrator_class(recipe.calibrator).needs_copies
    if recipe.copies == ("none",) or not (asked or recipe.calibrator == AUTO):
        return ()
    if recipe.copies != (AUTO,):
        return recipe.copies
    task = task_of(recipe.task)
    return task.default_copies if asked or rows >= task.enough_to_copy else ()


class Measured(NamedTuple):
    """A record, and its fitted calibrators: those of the recipe, and the chosen one.

    ``entities`` is the learned confidence of entities, where labels are tags.
    """

    record: Record
    fitted: Mapping[str, Calibrator]
    chosen: Calibrator
    entities: SpanCalibrator | None = None


@contextlib.contextmanager
def noted_warnings() -> Iterator[list[str]]:
    """Turn warnings about calibrators into notes; the list is filled at the end."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CalibrationWarning)
        yield notes
    notes += sorted({str(w.message) for w in caught if w.category is CalibrationWarning})


def measure_outcome(outcome: Outcome, circumstances: Mapping[str, Any]) -> Measured:
    """Choose the calibrator, fit the others, and measure the predictions with each.

    Warnings about calibrators become notes of the record.
    """
    recipe, training = outcome.recipe, outcome.training
    with noted_warnings() as warned:
        chosen = choose_calibrator(recipe.calibrator, outcome.valid, outcome.copies)
        fitted = {chosen.name: chosen}
        for name in recipe.measure:
            if name not in fitted:
                fitted[name] = calibrator_class(name)().fit(outcome.valid)
        entities = None
        if is_bio(outcome.valid.label_names):
            entities = fit_entities(chosen, outcome.valid, outcome.copies)
        results = measure_run(
            outcome.valid,
            outcome.test,
            recipe.measure,
            ood=outcome.ood,
            shift=outcome.shift,
            calibrator=chosen.name,
            measure=task_of(recipe.task).measure,
            by_class=task_of(recipe.task).by_class,
            outside=outcome.outside,
            fitted=fitted,
            entities=entities,
        )
    training = {
        **training,
        "notes": [*training.get("notes", ()), *warned],
        "calibrator": chosen.name,
    }
    nothing = nothing_learned(recipe, outcome.test, training.get("steps", 0), outcome.valid)
    if nothing is not None:
        training["nothing_learned"] = nothing
    results = under_own_word(results, recipe, chosen.name)
    record = Record(recipe, results, training, dict(circumstances))
    return Measured(record, fitted, chosen, entities)


def record_of(outcome: Outcome, circumstances: Mapping[str, Any]) -> Record:
    """Return the record of an outcome."""
    return measure_outcome(outcome, circumstances).record


def choose_calibrator(
    name: str, valid: Predictions, copies: Predictions | None = None
) -> Calibrator:
    """Fit the calibrator ``name`` on ``valid``; ``"auto"`` chooses one of :data:`CANDIDATES`.

    The rule is that of :func:`calibrant.comparison.select_calibrator`. A single sentence gets a
    temperature. With corrupted ``copies`` of ``valid``, ``shift-aware`` may be chosen too.

    >>> rng = np.random.default_rng(0)
    >>> logits = 2 * rng.normal(size=(3000, 3))
    >>> labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    >>> choose_calibrator("auto", Predictions.from_logits(4 * logits, labels)).name
    'temperature'
    """
    whole, names = valid, CANDIDATES
    if copies is not None:
        whole = Predictions.concatenate([with_corruption(valid, ""), copies])
        names = (*CANDIDATES, "shift-aware")
    if name != AUTO:
        kind = calibrator_class(name)
        return kind().fit(whole if kind.needs_copies else valid)
    try:
        return select_calibrator(whole, names).calibrator
    except InputError:
        return calibrator_class("temperature")().fit(valid)
