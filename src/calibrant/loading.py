"""Deployment: ``load`` opens what calibrant wrote; a run or an export becomes a predictor.

>>> from calibrant.loading import split_words
>>> [word.text for word in split_words("In 3.5 hours, U.S. time.")]
['In', '3.5', 'hours', ',', 'U.S.', 'time', '.']
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.calibrators import Calibrator, load_calibrator
from calibrant.comparison.risk_control import Guarantee, guaranteed_threshold
from calibrant.errors import InputError
from calibrant.extras import require, usable_device
from calibrant.inputs import nearest_path, read_json
from calibrant.policies import Policy, load_policy, model_fingerprint
from calibrant.tasks import DEFAULT_TASK, TASKS, task_of
from calibrant.tasks.export_folder import is_export, load_export, read_policies
from calibrant.tasks.language.words import Word, split_words

if TYPE_CHECKING:
    from calibrant.tasks.predictor import Predictor

__all__ = ["Guarantee", "Word", "guaranteed_threshold", "load", "load_run", "split_words"]


def load(path: str | Path, device: str | None = None, *, trust_remote_code: bool = False) -> Any:
    """Open what calibrant wrote: a run, an exported run, a saved calibrator or a policy.

    ``calibrant.load("RUN").predict(["Anna lives in Paris."])``

    The folder of a run or an export becomes a :class:`~calibrant.tasks.predictor.Predictor`, a file
    a calibrator or a policy. ``device`` and ``trust_remote_code`` are those of :func:`load_run`.

    >>> from tempfile import TemporaryDirectory
    >>> from calibrant import Predictions, Temperature
    >>> valid = Predictions.from_logits([[2.0, 0.0]] * 4, [0, 0, 0, 1])
    >>> with TemporaryDirectory() as folder:
    ...     Temperature().fit(valid).save(f"{folder}/calibrator.json")
    ...     load(f"{folder}/calibrator.json")
    <Temperature(), fitted on 4 examples: temperature_=1.8205>
    """
    place = Path(path)
    if place.is_dir():
        return load_run(place, device, trust_remote_code=trust_remote_code)
    if not place.exists():
        raise InputError(
            f"There is nothing at {place}: name a run, an export or a saved calibrator."
        )
    return _load_file(place)


def _load_file(path: Path) -> Calibrator | Policy:
    if path.suffix == ".json" and path.is_file():
        content = read_json(path, "this is not a file that calibrant saved")
        if isinstance(content, dict) and content.get("signature") == "calibrant policy":
            return load_policy(path)
    return load_calibrator(path)


def load_run(
    run: str | Path, device: str | None = None, *, trust_remote_code: bool = False
) -> Predictor:
    """Return the predictor of a finished ``calibrant train``, on CUDA where there is one.

    An export (``calibrant export``) runs on the CPU. A model that comes with its own code is
    refused unless ``trust_remote_code`` lets it run.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     try:
    ...         load_run(folder)
    ...     except InputError as error:
    ...         print(str(error).replace(folder, "FOLDER"))
    FOLDER is not the folder of a training run: it has no recipe.json.
    """
    folder = Path(run)
    if is_export(folder):
        if device not in (None, "cpu"):
            raise InputError(f"{folder} is an export, which runs on the CPU, not on '{device}'.")
        return load_export(folder)
    recipe = _recipe(folder)
    task = task_of(recipe.get("task", DEFAULT_TASK))
    torch = require("torch", "transformers", "A trained model")
    from calibrant.tasks.encoders.foreign_models import trusting

    device = usable_device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    with trusting(trust_remote_code):
        found = task.predictor(folder, recipe, device)
    found.model = model_fingerprint(folder / "model")
    found.policies = read_policies(folder)
    return found


def _recipe(folder: Path) -> dict[str, Any]:
    if folder.is_file():
        raise InputError(
            f"{folder} is a file; calibrant.load_run takes the folder of a training run. Call "
            f'calibrant.load("{folder}") for a saved calibrator, '
            f'calibrant.read("{folder}") for predictions.'
        )
    if not folder.exists():
        raise InputError(
            f"There is no folder {folder}: name a training run or an export.{nearest_path(folder)}"
        )
    if not (folder / "recipe.json").exists():
        raise InputError(f"{folder} is not the folder of a training run: it has no recipe.json.")
    if not (folder / "metrics.json").exists():
        raise InputError(
            f"{folder} is not finished: run its 'calibrant train' command again to continue it."
        )
    recipe: Any = read_json(folder / "recipe.json", "not a recipe")
    if not isinstance(recipe, dict):
        raise InputError(f"{folder / 'recipe.json'}: not a recipe of a run.")
    if str(recipe.get("task", DEFAULT_TASK)) not in TASKS:
        raise InputError(f"{folder} is a run of task '{recipe['task']}', which is unknown.")
    return dict(recipe)
