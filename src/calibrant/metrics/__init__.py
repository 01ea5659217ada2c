"""Calibration metrics: additive states and pure functions of them."""

from calibrant.metrics.accumulate import accumulate
from calibrant.metrics.adaptive import adaptive_classwise_ece, adaptive_ece
from calibrant.metrics.apcr import apcr
from calibrant.metrics.bin_confidences import bin_confidences
from calibrant.metrics.binned import classwise_ece, debiased_ece, ece, mce, overconfidence_error
from calibrant.metrics.bins import Bins
from calibrant.metrics.blocks import assign_blocks
from calibrant.metrics.bootstrap import interval, replicate
from calibrant.metrics.borders import near_border
from calibrant.metrics.confidences import Confidences, confidences, top_label
from calibrant.metrics.entities import entity_confidences, entity_ece, entity_state, without_outside
from calibrant.metrics.entity_selective import entity_risk_coverage
from calibrant.metrics.kolmogorov_smirnov import ks_error
from calibrant.metrics.match_counts import MatchCounts, f1
from calibrant.metrics.null_ece import chance_ece
from calibrant.metrics.overlap import class_iou, mean_iou
from calibrant.metrics.scores import accuracy, brier, error, mean_confidence, nll
from calibrant.metrics.segmentation_example import Scene, pixel_predictions
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
from calibrant.metrics.smooth import smooth_ece
from calibrant.metrics.sorted_confidences import Steps, steps
from calibrant.metrics.spans import Spans, find_spans
from calibrant.metrics.state import CalibrationState
from calibrant.metrics.tag_f1 import entity_counts, entity_f1, token_counts, token_f1
from calibrant.metrics.tags import TagSet, is_bio
from calibrant.metrics.top_bins import TopBins

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
