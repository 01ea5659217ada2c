"""The predictor of entities that a training run left."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calibrant.calibrators import load_calibrator
from calibrant.errors import InputError
from calibrant.inputs import read_json
from calibrant.predictions import Predictions
from calibrant.tasks.encoders.model_folder import load_model
from calibrant.tasks.language.splitter_choice import Cutting
from calibrant.tasks.ner.cut_text import FIRST_CUTTING
from calibrant.tasks.ner.entity_confidence import EntityConfidence
from calibrant.tasks.ner.predictor import Predictor
from calibrant.tasks.run_files import check_labels, find_file, read_labels, read_max_length

__all__ = ["RAW_MAP", "WORDS", "load_predictor", "read_cutting"]

RAW_MAP = "raw_calibrator.json"  # Fitted on words of raw text, where these are not the corpus'.
WORDS = "words.json"


def load_predictor(folder: Path, recipe: Mapping[str, Any], device: str) -> Predictor:
    """Load model, maps and validation predictions of the finished run in ``folder``."""
    labels, length = read_labels(folder), read_max_length(folder, recipe)
    model, tokenizer = load_model(folder / "model")
    check_labels(folder, labels, model)
    # The first version had one map.
    calibrator = load_calibrator(find_file(folder, "calibrator.json", "temperature.json"))
    given = EntityConfidence(calibrator, Predictions.read(_split(folder, "valid")))
    of_texts = given
    if (folder / RAW_MAP).exists():
        raw = Predictions.read(_split(folder, "raw_valid"))
        of_texts = EntityConfidence(load_calibrator(folder / RAW_MAP), raw)
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
    """The parts of a run are of one label set: one that was replaced would give other labels."""
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
    """How a run cuts raw text; one of an earlier version cuts as that version did."""
    path = folder / WORDS
    if not path.exists():
        return FIRST_CUTTING
    content = read_json(path, "it cannot be read")
    try:
        return Cutting.from_dict(content if isinstance(content, dict) else {})
    except (ValueError, TypeError) as error:
        raise InputError(f"{path} cannot be read: {error}.") from None
