"""Calibration metrics: additive states and pure functions of them, by name in :data:`METRICS`."""

from typing import Any

from calibrant.metrics import table
from calibrant.metrics.accumulate import accumulate
from calibrant.metrics.bins import Bins
from calibrant.metrics.blocks import assign_blocks
from calibrant.metrics.bootstrap import bootstrap_interval, replicate
from calibrant.metrics.confidences import Confidences, bin_confidences, confidences, top_label
from calibrant.metrics.entities import (
    entity_confidences,
    entity_risk_coverage,
    entity_state,
    without_outside,
)
from calibrant.metrics.measure import measure
from calibrant.metrics.null_ece import chance_ece
from calibrant.metrics.segmentation_example import Scene, near_border, pixel_predictions
from calibrant.metrics.selective import (
    RiskCoverage,
    RiskPoint,
    risk_coverage_curve,
    risk_points,
)
from calibrant.metrics.sketch import ConfidenceSketch
from calibrant.metrics.sorted_confidences import ConfidenceSteps, confidence_steps
from calibrant.metrics.spans import Spans, find_spans
from calibrant.metrics.state import CalibrationState
from calibrant.metrics.table import *  # noqa: F403  # The metrics: a new one is listed there alone.
from calibrant.metrics.tag_f1 import MatchCounts, entity_counts, token_counts
from calibrant.metrics.tags import TagSet, is_bio
from calibrant.metrics.top_bins import TopBins
from calibrant.old_names import renamed

__all__ = [
    "Bins",
    "CalibrationState",
    "ConfidenceSketch",
    "ConfidenceSteps",
    "Confidences",
    "MatchCounts",
    "RiskCoverage",
    "RiskPoint",
    "Scene",
    "Spans",
    "TagSet",
    "TopBins",
    "accumulate",
    "assign_blocks",
    "bin_confidences",
    "bootstrap_interval",
    "chance_ece",
    "confidence_steps",
    "confidences",
    "entity_confidences",
    "entity_counts",
    "entity_risk_coverage",
    "entity_state",
    "find_spans",
    "is_bio",
    "measure",
    "near_border",
    "pixel_predictions",
    "replicate",
    "risk_coverage_curve",
    "risk_points",
    "token_counts",
    "top_label",
    "without_outside",
]
__all__ += table.__all__


def __getattr__(name: str) -> Any:
    return renamed(__name__, name)
