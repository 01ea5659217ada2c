"""The files that predicting entities needs: written after training, loaded by the predictor.

Maps, confidences of entities and guarantees that were learned on the words of a corpus hold for
such words. So they are learned a second time, on the validation split as raw text: detokenised, and
cut by the splitter of the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calibrant.calibrators import load_calibrator
from calibrant.comparison.entity_map import entity_words
from calibrant.errors import InputError
from calibrant.inputs import read_json
from calibrant.metrics import entity_f1
from calibrant.predictions import Predictions
from calibrant.tasks.encoders.model_folder import load_model
from calibrant.tasks.language.splitter_choice import Cutting
from calibrant.tasks.ner.cut_text import FIRST_CUTTING
from calibrant.tasks.ner.entity_confidence import EntityConfidence
from calibrant.tasks.ner.predictor import Predictor
from calibrant.tasks.run_files import check_labels, find_file, read_labels, read_max_length
from calibrant.tasks.task import TrainedRun

__all__ = ["finish_raw_text", "load_predictor", "read_cutting"]

_RAW_MAP = "raw_calibrator.json"  # Fitted on words of raw text, where these are not the corpus'.
_WORDS = "words.json"
_TARGET = 0.1  # The risk that corpus' words and raw text are compared at.


def finish_raw_text(trained: TrainedRun) -> dict[str, Any]:
    """Write the files for predicting raw text; return how raw text differs from the corpus."""
    run, data, calibrator = trained.run, trained.data, trained.calibrator
    made = trained.predictions
    known = {"corpus": _numbers(EntityConfidence(calibrator, made["valid"]), made["test"])}
    run.write_json(_WORDS, data.cutting.to_dict())
    (run.path / _RAW_MAP).unlink(missing_ok=True)  # Of a run that was cut short.
    parts = data.raw_pieces()
    if parts:
        raw = {split: data.predict(trained.model, part) for split, part in parts.items()}
        raw["valid"].write(run.path / f"raw_valid.{trained.suffix}", overwrite=True)
        calibrator = trained.choose(raw["valid"])
        calibrator.save(run.path / _RAW_MAP, overwrite=True)
        known["raw"] = _numbers(EntityConfidence(calibrator, raw["valid"]), raw["test"])
    return {
        **data.cutting.to_dict(),
        "splitter": data.cutting.splitter.name,
        "calibrator": calibrator.name,
        "target_risk": _TARGET,
        "test": known,
    }


def _numbers(judged: EntityConfidence, test: Predictions) -> dict[str, float]:
    """Return F1, and the risk and share of the entities accepted at the target risk."""
    found = judged.entity_map().transform(entity_words(judged.calibrator, test))
    accepted = found.confidence >= judged.threshold(_TARGET).threshold
    wrong = (accepted & ~found.correct).sum()
    return {
        "entity_f1": float(entity_f1(test)),
        "accepted": float(accepted.mean()) if len(found) else 0.0,
        "risk": float(wrong / max(accepted.sum(), 1)),
    }


def load_predictor(folder: Path, recipe: Mapping[str, Any], device: str) -> Predictor:
    """Load model, maps and validation predictions of the finished run in ``folder``."""
    labels, length = read_labels(folder), read_max_length(folder, recipe)
    model, tokenizer = load_model(folder / "model")
    check_labels(folder, labels, model)
    # The first version had one map.
    calibrator = load_calibrator(find_file(folder, "calibrator.json", "temperature.json"))
    given = EntityConfidence(calibrator, Predictions.read(_split(folder, "valid")))
    of_texts = given
    if (folder / _RAW_MAP).exists():
        raw = Predictions.read(_split(folder, "raw_valid"))
        of_texts = EntityConfidence(load_calibrator(folder / _RAW_MAP), raw)
    _check_classes(folder, labels, int(model.config.num_labels), given, of_texts)
    return Predictor(
        model.to(device),
        tokenizer,
        labels,
        of_texts.calibrator,
        of_texts.valid,
        length,
        cutting=read_cutting(folder),
        given=given,
    )


def _check_classes(
    folder: Path, labels: tuple[str, ...], outputs: int, *maps: EntityConfidence
) -> None:
    """Check that the parts of a run have one label set: a replaced one gives other labels."""
    counts = {"its model": outputs}
    for confidence in maps:
        counts |= {"its map": confidence.calibrator.n_classes_}
        counts |= {"its validation predictions": confidence.valid.classes}
        for what, count in counts.items():
            if count != len(labels):
                raise InputError(
                    f"{folder} is damaged: {what} and labels.json differ in their classes."
                )


def _split(folder: Path, name: str) -> Path:
    return find_file(folder, f"{name}.parquet", f"{name}.npz")


def read_cutting(folder: Path) -> Cutting:
    """Read how a run cuts raw text; a run of an earlier version cuts as that version did."""
    path = folder / _WORDS
    if not path.exists():
        return FIRST_CUTTING
    content = read_json(path, "it cannot be read")
    try:
        return Cutting.from_dict(content if isinstance(content, dict) else {})
    except (ValueError, TypeError) as error:
        raise InputError(f"{path} cannot be read: {error}.") from None
