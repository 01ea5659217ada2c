"""Export fitted calibrators for production: as a torch module or an ONNX file.

Both come from the calibrator's own formula (:meth:`~calibrant.calibrators.Calibrator.apply`),
traced, so that there is one implementation of each calibrator and nothing to keep in step.
"""

from __future__ import annotations

import contextlib
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.calibrators.base import Calibrator
from calibrant.extras import require
from calibrant.outputs import check_writable, new_file
from calibrant.predictions import Kind

if TYPE_CHECKING:
    import torch

    from calibrant.calibrators.torch_module import CalibrationModule

__all__ = ["quiet_exporter", "to_onnx", "to_torch"]

_INT64 = 7  # onnx.TensorProto.INT64


def to_torch(
    calibrator: Calibrator,
    *,
    takes: Kind | None = None,
    gives: Kind = "probabilities",
    dtype: torch.dtype | None = None,
) -> CalibrationModule:
    """Return the fitted calibrator as a ``torch.nn.Module`` for compile, export and autograd.

    ``takes`` is the kind of the scores, by default that of the fit. ``gives="logits"``
    returns log-probabilities, for code that applies a softmax itself. ``dtype`` is float64
    by default; devices without it (MPS) need ``torch.float32``.

    >>> import torch
    >>> from calibrant import Predictions
    >>> from calibrant.calibrators import Temperature
    >>> fitted = Temperature().fit(Predictions.from_logits([[2.0, 0.0]] * 4, [0, 0, 0, 1]))
    >>> to_torch(fitted)(torch.tensor([[2.0, 0.0]])).round(decimals=4)
    tensor([[0.7500, 0.2500]])
    """
    torch = require("torch", "torch", "Exporting a calibrator to torch")
    from calibrant.calibrators.torch_module import CalibrationModule

    calibrator.learned()  # Raises an error if the calibrator is not fitted.
    takes = takes or calibrator.fitted_on_["kind"]
    module = CalibrationModule(calibrator, takes, gives, dtype or torch.float64)
    return module.eval()


def to_onnx(
    calibrator: Calibrator,
    path: str | Path,
    *,
    takes: Kind | None = None,
    gives: Kind = "probabilities",
    overwrite: bool = False,
) -> Path:
    """Write the fitted calibrator as an ONNX file; input and output are (n, K) float32 scores.

    Input and output are named ``logits`` or ``probabilities`` (a calibrator from logits to logits
    has the output ``calibrated_logits``); a calibrator that reads groups has one int64 input of
    shape (n,) for each, of that name; a calibrator that reads signals one float32 input for each of
    ``signals_`` (:meth:`~calibrant.calibrators.Calibrator.signal_columns`). It computes in float64.
    Method, version, label names and provenance are in the metadata of the file.
    """
    path = check_writable(path, overwrite=overwrite)
    for needed in ("torch", "onnx", "onnxscript"):
        require(needed, "onnx", "Exporting a calibrator to ONNX")
    module = to_torch(calibrator, takes=takes, gives=gives)
    program = _traced(module)
    program.model.metadata_props.update(_metadata(calibrator))
    with quiet_exporter(), new_file(path, overwrite=overwrite) as unfinished:
        program.save(unfinished)
    return path


def _traced(module: CalibrationModule) -> Any:
    """Return the ONNX program of a module, for any number of rows."""
    import torch

    groups, signals = module.calibrator.needs_groups, module.calibrator.signals_
    columns = (*groups, *signals)
    scores = torch.full((3, module.calibrator.n_classes_), 1 / module.calibrator.n_classes_)
    inputs = (
        scores,
        *(torch.zeros(3, dtype=torch.int64) for _ in groups),
        *(torch.zeros(3) for _ in signals),
    )
    rows = torch.export.Dim("rows")
    # One entry per parameter of forward: the scores, and all columns together if there are any.
    shapes = ({0: rows}, tuple({0: rows} for _ in columns))[: 2 if columns else 1]
    output = module.gives if module.gives != module.takes else f"calibrated_{module.gives}"
    with quiet_exporter(), torch.no_grad():
        return torch.onnx.export(
            module,
            inputs,
            dynamo=True,
            verbose=False,
            input_names=[module.takes, *columns],
            output_names=[output],
            dynamic_shapes=shapes,
            custom_translation_table=_translations(),
        )


def _metadata(calibrator: Calibrator) -> dict[str, str]:
    from calibrant import __version__

    return {
        "calibrant.version": __version__,
        "calibrant.method": calibrator.name,
        "calibrant.label_names": json.dumps(calibrator.label_names_),
        "calibrant.fitted_on": json.dumps(calibrator.fitted_on_),
    }


@contextlib.contextmanager
def quiet_exporter() -> Iterator[None]:
    """Silence the exporter's messages about itself: its deprecations, missing torchvision."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _translations() -> dict[Any, Callable[..., Any]]:
    """Torch operation → function that builds its ONNX nodes, for ``torch.onnx.export``."""
    import torch

    return {torch.ops.aten.searchsorted.Tensor: _searchsorted}


def _searchsorted(
    sorted_sequence: Any,
    values: Any,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """Count the entries of a sorted table below each value (``right``: at most the value).

    It unrolls a binary search: log₂ m steps of a few nodes and memory for the values alone;
    comparing every value with every entry would take m times that. The table has shape (m,), or
    (…, m) with the leading axes of the values.
    """
    from onnxscript import opset18

    op: Any = opset18  # Its own types are too narrow for traced values.
    if sorter is not None or out_int32:
        raise NotImplementedError("searchsorted with sorter or out_int32")
    size = int(sorted_sequence.shape[-1])
    shared = len(sorted_sequence.shape) == 1
    below = op.LessOrEqual if right or side == "right" else op.Less
    same = op.Cast(op.Equal(values, values), to=_INT64)
    count = op.Mul(same, op.Constant(value_int=0))  # Zeros of the shape of the values.
    for step in (1 << bit for bit in reversed(range(size.bit_length()))):
        ahead = op.Add(count, op.Constant(value_int=step))
        inside = op.LessOrEqual(ahead, op.Constant(value_int=size))
        last = op.Constant(value_int=size - 1)
        index = op.Min(op.Sub(ahead, op.Constant(value_int=1)), last)
        entry = (
            op.Gather(sorted_sequence, index)
            if shared
            else op.GatherElements(sorted_sequence, index, axis=-1)
        )
        count = op.Where(op.And(inside, below(entry, values)), ahead, count)
    return count
