"""Models as functions from arrays to logits, run by torch or by onnxruntime.

A predictor works the same with either: it makes arrays of its inputs and calls a scorer.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from calibrant.errors import InputError
from calibrant.extras import require

__all__ = ["OnnxScorer", "Scorer", "TorchScorer", "length_batches", "pad_rows"]

# Word pieces of a forward pass. The caches of a processor hold few, and a GPU needs many.
_HOST_PIECES, _DEVICE_PIECES = 1 << 8, 1 << 16
_HOST_PIXELS, _DEVICE_PIXELS = 1 << 20, 1 << 22  # Values of pixels of a forward pass.


class Scorer(Protocol):
    """A model: named arrays in, logits with the classes last out."""

    pieces: int
    """How many word pieces run together."""
    pixels: int
    """How many values of pixels run together."""

    def __call__(self, **inputs: np.ndarray) -> np.ndarray:
        """Return the float32 logits."""


class TorchScorer:
    """A torch module in evaluation mode, which is on a device."""

    def __init__(self, model: Any, device: str = "cpu") -> None:
        self.model, self.device = model, device
        host = str(device).startswith("cpu")
        self.pieces = _HOST_PIECES if host else _DEVICE_PIECES
        self.pixels = _HOST_PIXELS if host else _DEVICE_PIXELS

    def __call__(self, **inputs: np.ndarray) -> np.ndarray:
        """Return the float32 logits."""
        import torch

        from calibrant.training.head_hook import logits_of

        with torch.inference_mode():
            tensors = {name: torch.as_tensor(v, device=self.device) for name, v in inputs.items()}
            found: np.ndarray = logits_of(self.model(**tensors)).float().cpu().numpy()
        return found

    def __repr__(self) -> str:
        return f"{type(self.model).__name__} by torch on {self.device}"


class OnnxScorer:
    """An ONNX file whose output is called ``logits``, run by onnxruntime on the processor."""

    pieces, pixels, device = _HOST_PIECES, _HOST_PIXELS, "cpu"

    def __init__(self, path: Path) -> None:
        runtime = require("onnxruntime", "runtime", "Predicting with an export")
        options = runtime.SessionOptions()
        options.log_severity_level = 3
        threads = os.environ.get("OMP_NUM_THREADS", "")
        if threads.isdigit():
            options.intra_op_num_threads = int(threads)
        try:
            self.session = runtime.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime has its own error for each fault.
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise InputError(f"{path} is not a model that onnxruntime can load: {reason}") from None
        self.names = {given.name for given in self.session.get_inputs()}

    def __call__(self, **inputs: np.ndarray) -> np.ndarray:
        """Return the float32 logits."""
        found: np.ndarray = self.session.run(["logits"], inputs)[0]
        return found

    def __repr__(self) -> str:
        return "ONNX model by onnxruntime"


def length_batches(lengths: np.ndarray, pieces: int) -> Iterator[np.ndarray]:
    """Yield the numbers of rows that run together: of similar length, ``pieces`` with padding.

    >>> [rows.tolist() for rows in length_batches(np.array([9, 2, 3, 8]), pieces=18)]
    [[1, 2], [3, 0]]
    """
    order = np.argsort(lengths, kind="stable")
    ascending, start = lengths[order], 0
    while start < len(order):
        # Up to here rows × longest fits; one row always runs.
        room = max(1, pieces // max(1, int(ascending[start])))
        sizes = ascending[start : start + room] * np.arange(1, len(order[start : start + room]) + 1)
        end = start + max(1, int(np.searchsorted(sizes > pieces, True)))
        yield order[start:end]
        start = end


def pad_rows(
    flat: np.ndarray, starts: np.ndarray, rows: np.ndarray, padding: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of ``flat`` filled up to the longest, and the mask of what is not filled.

    >>> ids, mask = pad_rows(np.array([5, 6, 7]), np.array([0, 2, 3]), np.array([0, 1]), 9)
    >>> ids.tolist(), mask.tolist()
    ([[5, 6], [7, 9]], [[1, 1], [1, 0]])
    """
    lengths = np.diff(starts)[rows]
    place = np.arange(int(lengths.max(initial=0)))
    mask = place < lengths[:, None]
    source = np.where(mask, starts[rows][:, None] + place, 0)
    return np.where(mask, flat[source], padding).astype(np.int64), mask.astype(np.int64)
