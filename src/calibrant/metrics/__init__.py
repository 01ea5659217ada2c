"""Calibration metrics: additive states and pure functions of them."""

from calibrant.metrics.accumulate import accumulate
from calibrant.metrics.adaptive import adaptive_classwise_ece, adaptive_ece
from calibrant.metrics.binned import classwise_ece, debiased_ece, ece, mce, overconfidence_error
from calibrant.metrics.bins import Bins
from calibrant.metrics.blocks import assign_blocks
from calibrant.metrics.bootstrap import interval, replicate
from calibrant.metrics.confidences import Confidences, bin_confidences, confidences, top_label
from calibrant.metrics.entities import (
    entity_confidences,
    entity_ece,
    entity_risk_coverage,
    entity_state,
    without_outside,
)
from calibrant.metrics.null_ece import chance_ece
from calibrant.metrics.scores import (
    accuracy,
    apcr,
    brier,
    class_iou,
    error,
    mean_confidence,
    mean_iou,
    nll,
)
from calibrant.metrics.segmentation_example import Scene, near_border, pixel_predictions
from calibrant.metrics.selective import (
    RiskCoverage,
    augrc,
    aurc,
    auroc,
    coverage_at_risk,
    e_aurc,
    risk_at_coverage,
    risk_coverage_curve,
)
from calibrant.metrics.sorted_confidences import Steps, steps
from calibrant.metrics.spans import Spans, find_spans
from calibrant.metrics.state import CalibrationState
from calibrant.metrics.tag_f1 import (
    MatchCounts,
    entity_counts,
    entity_f1,
    f1,
    token_counts,
    token_f1,
)
from calibrant.metrics.tags import TagSet, is_bio
from calibrant.metrics.top_bins import TopBins
from calibrant.metrics.without_bins import ks_error, smooth_ece

__all__ = [
    "Bins",
    "CalibrationState",
    "Confidences",
    "MatchCounts",
    "RiskCoverage",
    "Scene",
    "Spans",
    "Steps",
    "TagSet",
    "TopBins",
    "accumulate",
    "accuracy",
    "adaptive_classwise_ece",
    "adaptive_ece",
    "apcr",
    "assign_blocks",
    "augrc",
    "aurc",
    "auroc",
    "bin_confidences",
    "brier",
    "chance_ece",
    "class_iou",
    "classwise_ece",
    "confidences",
    "coverage_at_risk",
    "debiased_ece",
    "e_aurc",
    "ece",
    "entity_confidences",
    "entity_counts",
    "entity_ece",
    "entity_f1",
    "entity_risk_coverage",
    "entity_state",
    "error",
    "f1",
    "find_spans",
    "interval",
    "is_bio",
    "ks_error",
    "mce",
    "mean_confidence",
    "mean_iou",
    "near_border",
    "nll",
    "overconfidence_error",
    "pixel_predictions",
    "replicate",
    "risk_at_coverage",
    "risk_coverage_curve",
    "smooth_ece",
    "steps",
    "token_counts",
    "token_f1",
    "top_label",
    "without_outside",
]
