"""A fitted calibrator as a torch module: the last layer of a model."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from calibrant.calibrators.backend import (
    log_probabilities,
    log_softmax,
    masked_again,
    softmax,
    unmasked,
)
from calibrant.calibrators.base import Calibrator
from calibrant.errors import InputError
from calibrant.predictions import Kind

__all__ = ["CalibrationModule"]


class CalibrationModule(nn.Module):
    """Map scores of shape (…, K) to calibrated ones of the same shape.

    The learned values are buffers, so they follow the model to its device and into its
    ``state_dict`` but are never trained; gradients flow through to the scores. All arithmetic has
    the type of the buffers (float64 by default, at least float32); the result is
    as wide as the scores, at least float32.

    A calibrator that reads groups (``needs_groups``, such as the position in the sentence) or
    signals (``signals_``; ``Calibrator.signal_columns`` computes them) takes them as further
    arguments, in that order, each of shape (…).
    """

    def __init__(
        self, calibrator: Calibrator, takes: Kind, gives: Kind, dtype: torch.dtype = torch.float64
    ) -> None:
        super().__init__()
        self.calibrator, self.takes, self.gives = calibrator, takes, gives
        self.learned_names: tuple[str, ...] = tuple(calibrator.learned())
        for name, value in calibrator.learned().items():
            buffer = torch.as_tensor(np.asarray(value))  # Not via float32.
            self.register_buffer(name, buffer.to(dtype) if buffer.is_floating_point() else buffer)

    def forward(self, scores: Tensor, *columns: Tensor) -> Tensor:
        """Return the calibrated scores."""
        self._check(scores, columns)
        values = {name: self.get_buffer(name) for name in self.learned_names}
        rows = scores.reshape(-1, self.calibrator.n_classes_).to(self._precision(scores))
        groups, precise = self.calibrator.needs_groups, rows.dtype
        names = (*groups, *self.calibrator.signals_)
        flat = {name: c.reshape(-1) for name, c in zip(names, columns, strict=True)}
        flat = {name: c if name in groups else c.to(precise) for name, c in flat.items()}
        plain = unmasked(rows) if self.takes == "logits" else rows
        out: Tensor = self.calibrator.apply(plain, self.takes, {**values, **flat})
        narrow = torch.promote_types(scores.dtype, torch.float32)
        out = self._as_requested(out)
        out = self.calibrator.lead_kept(out, plain, self.takes, narrow, self.gives)
        if self.takes == "logits":
            out = masked_again(out, rows, self.gives)
        # A step or a bin would turn NaN into a value.
        out = out.masked_fill(rows.isnan().any(-1, keepdim=True), torch.nan)
        return out.reshape(scores.shape).to(narrow)

    def extra_repr(self) -> str:
        """Describe the module for print(module)."""
        return f"{self.calibrator!r}, {self.takes} -> {self.gives}"

    def _precision(self, scores: Tensor) -> torch.dtype:
        wide = next((b.dtype for b in self.buffers() if b.is_floating_point()), scores.dtype)
        return torch.promote_types(wide, torch.float32)

    def _as_requested(self, out: Tensor) -> Tensor:
        got = self.calibrator.kind_of(self.takes)
        if self.gives == "logits":
            out = log_softmax(out) if got == "logits" else log_probabilities(out)
        elif got == "logits":
            out = softmax(out)
        return out

    def _check(self, scores: Tensor, columns: tuple[Tensor, ...]) -> None:
        if scores.shape[-1] != self.calibrator.n_classes_:
            raise InputError(
                f"{self.calibrator.name} calibrator was fitted on {self.calibrator.n_classes_} "
                f"classes, got scores of shape {tuple(scores.shape)}."
            )
        needed = (*self.calibrator.needs_groups, *self.calibrator.signals_)
        if len(columns) != len(needed):
            what = "signal(s)" if self.calibrator.signals_ else "group(s)"
            raise InputError(
                f"{self.calibrator.name} calibrator takes the scores and {len(needed)} {what} "
                f"({', '.join(needed) or 'none'}), got {len(columns)}."
            )
