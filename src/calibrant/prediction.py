"""Deployment: a trained run as a predictor of entities with honest confidences.

>>> from calibrant.prediction import split_words
>>> [word.text for word in split_words("In 3.5 hours, U.S. time.")]
['In', '3.5', 'hours', ',', 'U.S.', 'time', '.']
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.comparison.risk_control import Guarantee, guaranteed_threshold
from calibrant.errors import InputError
from calibrant.extras import require, usable_device
from calibrant.inputs import read_json
from calibrant.tasks import DEFAULT_TASK, TASKS, task_of
from calibrant.tasks.language.words import Word, split_words

if TYPE_CHECKING:
    from calibrant.tasks.ner.predictor import Predictor

__all__ = ["Guarantee", "Word", "guaranteed_threshold", "load_run", "split_words"]


def load_run(
    run: str | Path, device: str | None = None, *, trust_remote_code: bool = False
) -> Predictor:
    """Return the predictor of a finished ``calibrant train``, on CUDA where there is one.

    ``calibrant.load_run("RUN").predict(["Anna lives in Paris."])``

    A model that brings code of its own is refused unless ``trust_remote_code`` lets it run.
    """
    torch = require("torch", "torch", "A trained model")
    from calibrant.tasks.encoders.foreign_models import trusting

    folder = Path(run)
    recipe = _recipe(folder)
    task = task_of(recipe.get("task", DEFAULT_TASK))
    device = usable_device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    with trusting(trust_remote_code):
        found: Predictor = task.predictor(folder, recipe, device)
    return found


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
    if str(recipe.get("task", DEFAULT_TASK)) not in TASKS:
        raise InputError(f"{folder} is a run of task '{recipe['task']}', which is unknown.")
    return dict(recipe)
