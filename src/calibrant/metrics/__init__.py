"""Calibration metrics: additive states and pure functions of them."""

from calibrant.metrics.accumulate import accumulate
from calibrant.metrics.binned import classwise_ece, debiased_ece, ece, mce, overconfidence_error
from calibrant.metrics.bins import Bins
from calibrant.metrics.chance import chance_ece
from calibrant.metrics.confidences import Confidences, confidences, top_label
from calibrant.metrics.scores import accuracy, brier, error, mean_confidence, nll
from calibrant.metrics.state import CalibrationState

__all__ = [
    "Bins",
    "CalibrationState",
    "Confidences",
    "accumulate",
    "accuracy",
    "brier",
    "chance_ece",
    "classwise_ece",
    "confidences",
    "debiased_ece",
    "ece",
    "error",
    "mce",
    "mean_confidence",
    "nll",
    "overconfidence_error",
    "top_label",
]
