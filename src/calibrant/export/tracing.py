"""Trace the torch model of a predictor to ONNX, and let onnxruntime run it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from calibrant.calibrators.export import quiet_exporter
from calibrant.errors import InputError
from calibrant.export.first_piece import read_first_piece_alone
from calibrant.extras import require
from calibrant.predictions import Predictions
from calibrant.tasks.export_folder import MODEL
from calibrant.tasks.predictor import Predictor
from calibrant.tasks.scoring import OnnxScorer

__all__ = ["NEEDED", "calibrated_difference", "run_by_onnxruntime", "trace"]

NEEDED = ("torch", "onnx", "onnxscript", "onnxruntime")
_TOLERANCE = 1e-5  # Between the probabilities of the run and of its export.


def trace(predictor: Predictor, path: Path) -> float:
    """Write the torch model of a predictor as ONNX; return how far its probabilities differ.

    A difference of more than 1e-5 is an error.
    """
    for needed in NEEDED:
        require(needed, "onnx", "Exporting a run")
    _write_onnx(predictor, path)
    return _shortened(predictor, path, _difference(predictor, path))


def run_by_onnxruntime(predictor: Predictor) -> float:
    """Let onnxruntime run the model of a predictor, which torch has run so far, on the processor.

    It takes some seconds, and single inputs are then predicted several times as fast. Returns how
    far the probabilities differ; more than 1e-5 is an error, which leaves the predictor as it was.
    """
    with TemporaryDirectory(prefix="calibrant-") as folder:
        path = Path(folder) / MODEL
        difference = trace(predictor, path)
        predictor.scorer = OnnxScorer(path)
    return difference


def _write_onnx(predictor: Predictor, path: Path) -> None:
    """Write the torch model as ONNX, with free numbers of rows, pieces or pixels."""
    import torch

    from calibrant.export.torch_logits import logits_module

    example = predictor.example()
    scorer: Any = predictor.scorer
    tensors = tuple(torch.as_tensor(values) for values, _ in example.values())
    free = torch.export.Dim.DYNAMIC
    shapes = tuple(dict.fromkeys(axes, free) for _, axes in example.values())
    module, outputs = logits_module(scorer.model, tuple(example))
    with quiet_exporter(), torch.no_grad(), _attention_step_by_step(scorer.model):
        program = torch.onnx.export(
            module,
            tensors,
            dynamo=True,
            verbose=False,
            input_names=list(example),
            output_names=outputs,
            dynamic_shapes=shapes,
        )
        assert program is not None
        program.save(path)


@contextmanager
def _attention_step_by_step(model: Any) -> Iterator[None]:
    """Let a model of transformers compute attention in single steps.

    onnxruntime does not know torch's fused attention: exported, it has a third more nodes, which
    check for rows that are masked as a whole. A short text takes a tenth longer.
    """
    parts = [m for m in model.modules() if hasattr(m, "set_attn_implementation")]
    before = [part.config._attn_implementation for part in parts]
    try:
        for part in parts:
            part.set_attn_implementation("eager")
        yield
    finally:
        for part, implementation in zip(parts, before, strict=True):  # The whole comes first.
            part.set_attn_implementation(implementation)


def calibrated_difference(predictor: Predictor, path: Path) -> float | None:
    """Return the largest difference of calibrated probabilities between torch and onnxruntime.

    It has no limit: a calibrator with steps, such as bins, makes a large difference of a small one.
    None where the calibrator also reads columns beside the scores.
    """
    calibrator = predictor.calibrator
    if calibrator.needs_groups or calibrator.signals_:
        return None
    return max(
        _apart(*(calibrator.transform(made) for made in both)) for both in _both(predictor, path)
    )


def _difference(predictor: Predictor, path: Path) -> float:
    """Return the largest difference of probabilities between torch and onnxruntime."""
    most = max(_apart(*both) for both in _both(predictor, path))
    if not most <= _TOLERANCE:
        raise InputError(
            f"The exported model differs from the run's by {most:.1e} in probability, more than "
            f"{_TOLERANCE:g}: this network cannot be exported."
        )
    return most


def _both(predictor: Predictor, path: Path) -> Iterator[tuple[Predictions, Predictions]]:
    """Yield the predictions of examples of several sizes, by torch and by onnxruntime."""
    exported = OnnxScorer(path)
    for size in (1, 2, 5):
        inputs = {name: values for name, (values, _) in predictor.example(size).items()}
        one, two = (scorer(**inputs) for scorer in (predictor.scorer, exported))
        yield _unlabelled(one), _unlabelled(two)


def _unlabelled(logits: np.ndarray) -> Predictions:
    return Predictions.from_logits(logits, np.zeros(logits.shape[:-1], np.int64))


def _apart(one: Predictions, two: Predictions) -> float:
    first, second = (np.asarray(each.probabilities(), np.float64) for each in (one, two))
    return float(np.abs(first - second).max())


def _shortened(predictor: Predictor, path: Path, difference: float) -> float:
    """Leave out what the head of a text classifier never reads; return the difference then."""
    short = path.with_name("short.onnx")
    try:
        if read_first_piece_alone(path, short):
            difference = _difference(predictor, short)
            short.replace(path)
    except InputError:  # Another network than it looks: the whole one is right.
        short.unlink()
    return difference
