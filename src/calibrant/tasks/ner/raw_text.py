"""A tagger on raw text: its words as ``calibrant predict`` cuts them, and what that costs.

Maps, confidences of entities and guarantees that were learned on the words of a corpus hold for
such words. So they are learned a second time, on the validation split as raw text: detokenised, and
cut by the splitter of the run.
"""

from __future__ import annotations

from typing import Any

from calibrant.comparison.entity_map import entity_words
from calibrant.metrics import entity_f1
from calibrant.predictions import Predictions
from calibrant.tasks.ner.entity_confidence import EntityConfidence
from calibrant.tasks.ner.loading import RAW_MAP, WORDS
from calibrant.tasks.task import TrainedRun

__all__ = ["finish_raw_text"]

_TARGET = 0.1  # The risk that corpus' words and raw text are compared at.


def finish_raw_text(trained: TrainedRun) -> dict[str, Any]:
    """Write what predicting from raw text needs, and return what is known of the difference."""
    run, data, calibrator = trained.run, trained.data, trained.calibrator
    made = trained.predictions
    known = {"corpus": _numbers(EntityConfidence(calibrator, made["valid"]), made["test"])}
    run.write_json(WORDS, data.cutting.to_dict())
    (run.path / RAW_MAP).unlink(missing_ok=True)  # Of a run that was cut short.
    parts = data.raw_pieces()
    if parts:
        raw = {split: data.predict(trained.model, part) for split, part in parts.items()}
        raw["valid"].write(run.path / f"raw_valid.{trained.suffix}", overwrite=True)
        calibrator = trained.choose(raw["valid"])
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
