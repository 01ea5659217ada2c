"""``calibrant.load_run``: the predictor that a training run left."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.devices import usable_device
from calibrant.errors import InputError
from calibrant.extras import require
from calibrant.inputs import read_json
from calibrant.prediction.cut_text import FIRST_CUTTING
from calibrant.prediction.run_files import (
    check_labels,
    find_file,
    read_labels,
    read_max_length,
)
from calibrant.tasks.language.splitter_choice import Cutting

if TYPE_CHECKING:
    from calibrant.prediction.entity_confidence import EntityConfidence
    from calibrant.prediction.predictor import Predictor

__all__ = ["RAW_MAP", "WORDS", "load_run", "read_cutting"]

RAW_MAP = "raw_calibrator.json"  # Fitted on words of raw text, where these are not the corpus'.
WORDS = "words.json"


def load_run(
    run: str | Path, device: str | None = None, *, trust_remote_code: bool = False
) -> Predictor:
    """The predictor in the folder of a finished ``calibrant train``, on CUDA where there is one.

    ``calibrant.load_run("RUN").predict(["Anna lives in Paris."])``

    A model that brings code of its own is refused unless ``trust_remote_code`` lets it run.
    """
    torch = require("torch", "torch", "A trained model")
    from calibrant.calibrators import load_calibrator
    from calibrant.prediction.entity_confidence import EntityConfidence
    from calibrant.prediction.model_folder import load_model
    from calibrant.prediction.predictor import Predictor
    from calibrant.predictions import Predictions
    from calibrant.tasks.encoders.foreign_models import trusting

    folder = Path(run)
    recipe = _recipe(folder)
    device = usable_device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    labels, length = read_labels(folder), read_max_length(folder, recipe)
    with trusting(trust_remote_code):
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


def _recipe(folder: Path) -> dict[str, Any]:
    if folder.is_file():
        raise InputError(
            f"{folder} is a file; calibrant.load_run takes the folder of a training run. Call "
            f'calibrant.load_calibrator("{folder}") for a saved calibrator, '
            f'calibrant.read("{folder}") for predictions.'
        )
    if not (folder / "recipe.json").exists():
        raise InputError(f"{folder} is not the folder of a training run: it has no recipe.json.")
    if not (folder / "metrics.json").exists():
        raise InputError(
            f"{folder} is not finished: give its 'calibrant train' command again, and it goes on."
        )
    recipe: Any = read_json(folder / "recipe.json", "no recipe")
    if not isinstance(recipe, dict):
        raise InputError(f"{folder / 'recipe.json'}: no recipe of a run.")
    if recipe.get("task", "ner") != "ner":
        raise InputError(
            f"{folder} is a run of task '{recipe['task']}', whose model classifies no words: only "
            "entities are predicted from raw text so far."
        )
    return dict(recipe)
