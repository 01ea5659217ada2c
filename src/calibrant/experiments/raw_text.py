"""A tagger on raw text: its words as ``calibrant predict`` cuts them, and what that costs.

Maps, confidences of entities and guarantees that were learned on the words of a corpus hold for
such words. So they are learned a second time, on the validation split as raw text: detokenised, and
cut by the splitter of the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from torch import nn

from calibrant.calibrators import Calibrator
from calibrant.comparison.entity_map import entity_words
from calibrant.experiments.choice import choose_calibrator
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.run_folder import RunFolder
from calibrant.metrics import entity_f1
from calibrant.prediction.entity_confidence import EntityConfidence
from calibrant.prediction.loading import RAW_MAP, WORDS
from calibrant.predictions import Predictions
from calibrant.tasks.language.splitter_choice import Cutting

__all__ = ["Tagged", "finish_raw_text"]

_TARGET = 0.1  # The risk that corpus' words and raw text are compared at.


@runtime_checkable
class Tagged(Protocol):
    """Data of tagged words, whose model is given raw texts when it is put to use."""

    @property
    def cutting(self) -> Cutting:
        """How raw text becomes words."""

    def raw_pieces(self, max_length: int) -> Mapping[str, Any]:
        """``valid`` and ``test`` as raw text; nothing where the data is raw text already."""

    def predict(self, model: nn.Module, part: Any) -> Predictions:
        """The predictions of a model for one of the parts, one row per word."""


def finish_raw_text(
    recipe: Recipe,
    data: Tagged,
    model: nn.Module,
    run: RunFolder,
    suffix: str,
    made: dict[str, Predictions],
    calibrator: Calibrator,
) -> dict[str, Any]:
    """Write what predicting from raw text needs, and return what is known of the difference."""
    known = {"corpus": _numbers(EntityConfidence(calibrator, made["valid"]), made["test"])}
    run.write_json(WORDS, data.cutting.to_dict())
    (run.path / RAW_MAP).unlink(missing_ok=True)  # Of a run that was cut short.
    parts = data.raw_pieces(recipe.max_length)
    if parts:
        raw = {split: data.predict(model, part) for split, part in parts.items()}
        raw["valid"].write(run.path / f"raw_valid.{suffix}", overwrite=True)
        calibrator = choose_calibrator(recipe.calibrator, raw["valid"])
        calibrator.save(run.path / RAW_MAP, overwrite=True)
        known["raw"] = _numbers(EntityConfidence(calibrator, raw["valid"]), raw["test"])
    return {
        **data.cutting.to_dict(),
        "splitter": data.cutting.splitter.name,
        "calibrator": calibrator.name,
        "target_risk": _TARGET,
        "test": known,
    }


def _numbers(judged: EntityConfidence, test: Predictions) -> dict[str, float]:
    """F1, and the risk and share of what is accepted at the target risk."""
    found = judged.entity_map().transform(entity_words(judged.calibrator, test))
    accepted = found.confidence >= judged.threshold(_TARGET).threshold
    wrong = (accepted & ~found.correct).sum()
    return {
        "entity_f1": float(entity_f1(test)),
        "accepted": float(accepted.mean()) if len(found) else 0.0,
        "risk": float(wrong / max(accepted.sum(), 1)),
    }
