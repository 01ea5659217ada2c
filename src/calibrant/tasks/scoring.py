"""Models as functions from arrays to logits, run by torch or by onnxruntime.

A predictor works the same with either: it makes arrays of its inputs and calls a scorer.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from calibrant.errors import InputError
from calibrant.extras import require

__all__ = [
    "SIGNALS",
    "OnnxScorer",
    "Scored",
    "Scorer",
    "TorchScorer",
    "in_place",
    "length_batches",
    "pad_rows",
]

# What a model that was wrapped for it returns beside its logits, as the last axis of ``signals``.
# Only networks of images have the last.
SIGNALS = ("energy", "norm", "distance", "own_distance", "damage")

# Word pieces of a forward pass. The caches of a processor hold few, and a GPU needs many.
_HOST_PIECES, _DEVICE_PIECES = 1 << 8, 1 << 16
_HOST_PIXELS, _DEVICE_PIXELS = 1 << 20, 1 << 22  # Values of pixels of a forward pass.


class Scored(NamedTuple):
    """Logits with the classes last, and signals by name, whose shape is that of one class."""

    logits: np.ndarray
    signals: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, logits: np.ndarray, signals: np.ndarray | None) -> Scored:
        """Return logits, and the columns of signals where there are any."""
        columns = () if signals is None else np.moveaxis(signals, -1, 0)
        return cls(logits, dict(zip(SIGNALS, columns, strict=False)))


def in_place(parts: Sequence[Scored], order: np.ndarray) -> Scored:
    """Return the rows of all parts in another order."""
    columns = {
        name: np.concatenate([part.signals[name] for part in parts])[order]
        for name in parts[0].signals
    }
    return Scored(np.concatenate([part.logits for part in parts])[order], columns)


class Scorer(Protocol):
    """A model: named arrays in, logits with the classes last out."""

    pieces: int
    """How many word pieces run together."""
    pixels: int
    """How many values of pixels run together."""

    def __call__(self, **inputs: np.ndarray) -> np.ndarray:
        """Return the float32 logits."""

    def scored(self, **inputs: np.ndarray) -> Scored:
        """Return the float32 logits, and the signals of a model that computes some."""


class TorchScorer:
    """A torch module in evaluation mode, which is on a device."""

    def __init__(self, model: Any, device: str = "cpu") -> None:
        self.model, self.device = model, device
        self.on_processor = host = str(device).startswith("cpu")
        self.pieces = _HOST_PIECES if host else _DEVICE_PIECES
        self.pixels = _HOST_PIXELS if host else _DEVICE_PIXELS

    def __call__(self, **inputs: np.ndarray) -> np.ndarray:
        """Return the float32 logits."""
        return self.scored(**inputs).logits

    def scored(self, **inputs: np.ndarray) -> Scored:
        """Return the float32 logits, and the signals of a model that computes some."""
        import torch

        from calibrant.training.head_hook import logits_of

        with torch.inference_mode():
            tensors = {name: torch.as_tensor(v, device=self.device) for name, v in inputs.items()}
            output = self.model(**tensors)
            logits: np.ndarray = logits_of(output).float().cpu().numpy()
            beside = output.get("signals") if isinstance(output, dict) else None
            return Scored.of(logits, None if beside is None else beside.float().cpu().numpy())

    def __repr__(self) -> str:
        return f"{type(self.model).__name__} by torch on {self.device}"


class OnnxScorer:
    """An ONNX file whose output is called ``logits``, run by onnxruntime on the processor."""

    pieces, pixels, device = _HOST_PIECES, _HOST_PIXELS, "cpu"

    def __init__(self, path: Path) -> None:
        runtime = require("onnxruntime", "runtime", "Predicting with an export")
        options = runtime.SessionOptions()
        options.log_severity_level = 3
        # Its threads wait actively for work, by default also long after a run, which keeps the
        # processor from others. Within a run they wait less than this.
        options.add_session_config_entry("session.intra_op.spin_duration_us", "50")
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
        made = {given.name for given in self.session.get_outputs()}
        self.outputs = [name for name in ("logits", "signals") if name in made]

    def __call__(self, **inputs: np.ndarray) -> np.ndarray:
        """Return the float32 logits."""
        return self.scored(**inputs).logits

    def scored(self, **inputs: np.ndarray) -> Scored:
        """Return the float32 logits, and the signals of a model that computes some."""
        found = self.session.run(self.outputs or ["logits"], inputs)
        return Scored.of(found[0], found[1] if len(found) > 1 else None)

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
