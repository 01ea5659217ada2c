"""``export_run``: write a finished run as an export, and a temperature into a head."""

from __future__ import annotations

import contextlib
import logging
import shutil
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calibrant.calibrators import Temperature, load_calibrator
from calibrant.calibrators.export import quiet_exporter, to_onnx
from calibrant.errors import InputError
from calibrant.export.tracing import calibrated_difference, trace
from calibrant.extras import require
from calibrant.inputs import read_json
from calibrant.loading import load_run
from calibrant.metrics import ece
from calibrant.outputs import new_folder
from calibrant.policies import Policy, load_policy
from calibrant.tasks import DEFAULT_TASK, task_of
from calibrant.tasks.export_folder import MODEL, is_export, write_manifest
from calibrant.tasks.predictor import Predictor
from calibrant.tasks.scoring import OnnxScorer, TorchScorer

__all__ = [
    "Export",
    "Quantised",
    "export_run",
    "fold_temperature",
]

_MAP = "map.onnx"


@dataclass(frozen=True)
class Quantised:
    """What int8 costs on the test split: score and ECE of the run, before and after.

    >>> found = Quantised("accuracy", score=(0.91, 0.905), ece=(0.012, 0.015), examples=2000)
    >>> print(str(found).partition(", ECE")[0])
    int8 on 2,000 rows of the test split: accuracy 0.9100 → 0.9050 (-0.0050)
    """

    score_name: str
    score: tuple[float, float]
    ece: tuple[float, float]
    examples: int

    def __str__(self) -> str:
        return (
            f"int8 on {self.examples:,} rows of the test split: {self.score_name} "
            f"{self.score[0]:.4f} → {self.score[1]:.4f} ({self.score[1] - self.score[0]:+.4f}), "
            f"ECE {self.ece[0]:.4f} → {self.ece[1]:.4f} ({self.ece[1] - self.ece[0]:+.4f})."
        )


@dataclass(frozen=True)
class Export:
    """A written export: its folder, size, difference to torch, and what int8 changed.

    ``difference`` is that of probabilities before the calibrator, ``calibrated_difference`` that
    after it, or None where the calibrator also reads columns beside the scores.

    >>> Export(Path("exported"), bytes=90_000_000, difference=2e-7).quantised is None
    True
    """

    folder: Path
    bytes: int
    difference: float
    quantised: Quantised | None = None
    calibrated_difference: float | None = None


def export_run(
    run: str | Path,
    folder: str | Path,
    *,
    int8: bool = False,
    policies: Sequence[str | Path] = (),
    directory: str | None = None,
    overwrite: bool = False,
    trust_remote_code: bool = False,
) -> Export:
    """Write everything that predicting needs into one folder, for onnxruntime without torch.

    The probabilities of the export differ from those of the run by at most 1e-5, or nothing is
    written. ``int8`` stores the weights of matrix products in 8 bits (texts and entities), measured
    on the test split of the run's data, which ``directory`` may hold. ``policies`` are files that
    go along with those of the run.
    """
    _check_run(run)
    predictor = load_run(run, "cpu", trust_remote_code=trust_remote_code)
    recipe = read_json(Path(run) / "recipe.json", "not a recipe")
    task = str(recipe.get("task", DEFAULT_TASK))
    if int8 and not hasattr(predictor, "predict_part"):
        raise InputError("int8 is for models of texts: leave --int8 out for images and masks.")
    kept = {**predictor.policies, **{Path(f).stem: _checked(predictor, f) for f in policies}}
    measured = None
    with new_folder(folder, overwrite=overwrite) as made:
        difference = trace(predictor, made / MODEL)
        calibrated = calibrated_difference(predictor, made / MODEL)
        if int8:
            measured = _quantise(predictor, Path(run), made / MODEL, directory)
        if not predictor.calibrator.needs_groups:
            to_onnx(predictor.calibrator, made / _MAP, takes="logits")
        predictor.write_parts(made)
        _write_policies(made / "policies", kept)
        write_manifest(
            made,
            {
                "task": task,
                "precision": "int8" if int8 else "float32",
                "model": predictor.model,
                "settings": predictor.settings(),
                "difference": difference,
                "calibrated_difference": calibrated,
                "quantised": None if measured is None else vars(measured),
            },
        )
        size = sum(path.stat().st_size for path in made.rglob("*") if path.is_file())
    return Export(Path(folder), size, difference, measured, calibrated)


def _check_run(run: str | Path) -> None:
    if is_export(Path(run)):
        raise InputError(f"{run} is an export already: name the run that it was made from.")


def _quantise(predictor: Predictor, run: Path, path: Path, directory: str | None) -> Quantised:
    """Store the weights of matrix products in 8 bits, and measure what that changes."""
    from calibrant.experiments.run_folder import RunFolder

    recipe = RunFolder(run).recipe()
    assert recipe is not None
    task = task_of(recipe.task)
    part = task.prepare(recipe, directory).parts["test"]
    library = require("onnxruntime.quantization", "onnx", "Storing weights in 8 bits")
    small = path.with_name("int8.onnx")
    _forget_shapes(path)
    with quiet_exporter(), _quiet_root():
        library.quantize_dynamic(path, small, weight_type=library.QuantType.QInt8, per_channel=True)
    small.replace(path)
    for other in path.parent.glob(f"{path.name}.*"):  # Weights of a model over 2 GB.
        other.unlink()
    whole: Any = predictor
    numbers = []
    for scorer in (predictor.scorer, OnnxScorer(path)):
        found = predictor.calibrator.transform(whole.predict_part(part, scorer))
        numbers.append((task.score(found), float(ece(found))))
    (score, error), (score_8, error_8) = numbers
    return Quantised(task.score_name, (score, score_8), (error, error_8), len(found))


def _forget_shapes(path: Path) -> None:
    """Drop the shapes between nodes that the tracer noted: some are wrong, all can be inferred."""
    onnx = require("onnx", "onnx", "Storing weights in 8 bits")
    model = onnx.load(path)
    del model.graph.value_info[:]
    onnx.save(model, path)


@contextlib.contextmanager
def _quiet_root() -> Iterator[None]:
    """Silence the advice of onnxruntime's quantisation, which goes to the root logger."""
    level = logging.root.level
    logging.root.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.root.setLevel(level)


def _checked(predictor: Predictor, path: str | Path) -> Policy:
    """Return a policy of this model, also one for words that are given (``predict --tokens``)."""
    policy = load_policy(path)
    return predictor.checked_policy(policy, tokens=policy.settings.get("words") == "corpus")


def _write_policies(folder: Path, policies: dict[str, Policy]) -> None:
    if policies:
        folder.mkdir()
    for name, policy in policies.items():
        policy.save(folder / f"{name}.json")


def fold_temperature(
    run: str | Path,
    folder: str | Path,
    *,
    overwrite: bool = False,
    trust_remote_code: bool = False,
) -> float:
    """Write the model of a run with its temperature in the head; return the temperature T.

    The last layer is divided by T, so that the softmax of ``transformers.pipeline`` is calibrated
    without calibrant. Only a temperature can be part of a head, so this is that of the run
    (``temperature.json``), also where predictions are made with another calibrator.
    """
    _check_run(run)
    predictor: Any = load_run(run, "cpu", trust_remote_code=trust_remote_code)
    if not hasattr(predictor, "tokenizer") or not isinstance(predictor.scorer, TorchScorer):
        raise InputError("A temperature is folded into heads of transformers: texts and entities.")
    path = Path(run) / "temperature.json"
    calibrator = load_calibrator(path)
    if not isinstance(calibrator, Temperature):
        raise InputError(f"{path} is damaged: it is not a temperature.")
    temperature = 1.0 if calibrator.fell_back_ else calibrator.temperature_
    from calibrant.export.torch_logits import divide_head
    from calibrant.tasks.encoders.foreign_models import quiet
    from calibrant.tasks.encoders.merged_classes import MergedClasses, OneOutput
    from calibrant.tasks.feature_signals import WithSignals

    model: Any = predictor.scorer.model
    model = model.model if isinstance(model, WithSignals) else model
    model = model.model if isinstance(model, OneOutput) else model  # σ(z / T) of its output z.
    if isinstance(model, MergedClasses):
        raise InputError(
            f"{run} adds up classes of its model, whose head cannot hold the temperature of the "
            "sums: export the run without --fold-temperature."
        )
    divide_head(model, temperature)
    with new_folder(folder, overwrite=overwrite) as made, quiet():
        shutil.copytree(Path(run) / "model", made, dirs_exist_ok=True)
        model.save_pretrained(str(made))
    return float(temperature)
