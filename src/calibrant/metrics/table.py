"""The table of metrics: everything that is shown of a metric comes from its row.

A new metric is a function in a file of this folder and a row here, with its name in ``__all__``. It
is then a function of :mod:`calibrant.metrics`, and part of audits, records, JSON documents,
reports, comparisons, studies and ``calibrant list metrics``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import numpy as np

from calibrant.metrics.adaptive import adaptive_classwise_ece, adaptive_ece
from calibrant.metrics.binned import (
    classwise_ece,
    debiased_rms_ece,
    ece,
    mce,
    overconfidence_error,
)
from calibrant.metrics.entities import entity_ece
from calibrant.metrics.metric import Metric, percent, plain_function, points
from calibrant.metrics.scores import (
    accuracy,
    apcr,
    brier,
    class_iou,
    error_rate,
    mean_confidence,
    mean_iou,
    nll,
)
from calibrant.metrics.selective import (
    augrc,
    aurc,
    auroc,
    coverage_at_risk,
    e_aurc,
    risk_at_coverage,
)
from calibrant.metrics.state import CalibrationState
from calibrant.metrics.tag_f1 import MatchCounts, entity_f1, f1_of_counts, token_f1
from calibrant.metrics.without_bins import ks_error, smooth_ece

__all__ = [
    "METRICS",
    "Metric",
    "accuracy",
    "adaptive_classwise_ece",
    "adaptive_ece",
    "apcr",
    "augrc",
    "aurc",
    "auroc",
    "brier",
    "class_iou",
    "classwise_ece",
    "coverage_at_risk",
    "debiased_rms_ece",
    "e_aurc",
    "ece",
    "entity_ece",
    "entity_f1",
    "error_rate",
    "f1_of_counts",
    "ks_error",
    "mce",
    "mean_confidence",
    "mean_iou",
    "nll",
    "overconfidence_error",
    "risk_at_coverage",
    "smooth_ece",
    "token_f1",
]

T = TypeVar("T")
_STATE, _CLASSWISE, _CONFIDENCES = ("state",), ("classwise",), ("confidences",)
_COVERAGE, _RISK = 0.8, 0.05


def _apcr(counts: MatchCounts, tokens: CalibrationState) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.asarray(f1_of_counts(counts))
        return np.where(found == 0, np.nan, np.divide(np.square(found), ece(tokens)))


_ROWS = (
    Metric(
        "accuracy", "Accuracy", "accuracy", accuracy, _STATE,
        lambda v: f"{percent(v)} of the predictions are right.",
        better=1, spread="counted", quality=True,
    ),
    Metric(
        "error_rate", "Error rate", "error", error_rate, _STATE,
        lambda v: f"{percent(v)} of the predictions are wrong.",
        spread="counted", audited=False, former=("error",),
    ),
    Metric(
        "mean_confidence", "Mean confidence", "mean confidence", mean_confidence, _STATE,
        lambda v: f"On average the model claims to be right {percent(v)} of the time.",
        better=0, spread="proportion",
    ),
    Metric(
        "ece", "ECE", "ECE", ece, _STATE,
        lambda v: f"Confidence misses accuracy by {points(v)} on average, bin by bin.",
        spread="biased upwards", compared=True, paper="Naeini et al. 2015",
    ),
    Metric(
        "debiased_rms_ece", "Debiased RMS ECE", "debiased RMS ECE", debiased_rms_ece, _STATE,
        lambda v: (
            f"Root-mean-square gap of {points(v)}, without the part that chance explains."
        ),
        spread="biased upwards", weighted=False, former=("debiased_ece",),
        paper="Kumar, Liang & Ma 2019",
    ),
    # Measured: see docs/decisions/0005 and 0012.
    Metric(
        "mce", "Maximum CE", "MCE", mce, _STATE,
        lambda v: (
            f"In the worst bin the gap is {points(v)}; small bins exaggerate, so it has no "
            "dependable interval."
        ),
        spread="maximum", paper="Naeini et al. 2015",
    ),
    Metric(
        "overconfidence_error", "Overconfidence error", "overconfidence error",
        overconfidence_error, _STATE,
        lambda v: (
            "Nowhere more confident than right."
            if v == 0
            else f"The part of the gap where confidence exceeds accuracy, weighted: {points(v)}."
        ),
        spread="biased upwards", paper="Thulasidasan et al. 2019",
    ),
    Metric(
        "classwise_ece", "Classwise ECE", "classwise ECE", classwise_ece, _CLASSWISE,
        lambda v: f"Averaged over all classes, each against the rest: {points(v)}.",
        spread="biased upwards", paper="Kull et al. 2019",
    ),
    Metric(
        "nll", "NLL", "NLL", nll, _STATE,
        lambda v: (
            "Infinite: some true class was given probability 0."
            if np.isinf(v)
            else f"{v:.3f} nats of surprise per example; lower is better, a proper score."
        ),
        spread="positive", most=math.inf, compared=True,
    ),
    Metric(
        "brier", "Brier score", "Brier", brier, _STATE,
        lambda v: f"Squared error of all probabilities, 0 to 2: {v:.3f}; a proper score.",
        spread="positive", most=2.0, compared=True, paper="Brier 1950",
    ),
    Metric(
        "adaptive_ece", "Adaptive ECE", "adaptive ECE", adaptive_ece, _CONFIDENCES,
        lambda v: f"Like the ECE, with bins of equal mass: {points(v)}.",
        spread="biased upwards", compared=True, takes_bins=True, paper="Nguyen & O'Connor 2015",
    ),
    Metric(
        "smooth_ece", "Smooth ECE", "smooth ECE", smooth_ece, _CONFIDENCES,
        lambda v: f"Like the ECE, with a smoothing kernel in place of bins: {points(v)}.",
        spread="biased upwards", paper="Błasiok & Nakkiran 2023",
    ),
    Metric(
        "ks_error", "KS calibration error", "KS error", ks_error, _CONFIDENCES,
        lambda v: f"Largest gap of the running sums of confidence and accuracy: {points(v)}.",
        spread="biased upwards", paper="Gupta et al. 2021",
    ),
    Metric(
        "auroc", "AUROC, right against wrong", "AUROC", auroc, _CONFIDENCES,
        lambda v: (
            f"A right prediction is more confident than a wrong one {percent(v)} of the time."
        ),
        better=1, digits=3, spread="ranked",
    ),
    Metric(
        "aurc", "AURC", "AURC", aurc, _CONFIDENCES,
        lambda v: f"Error rate of {percent(v, 2)}, averaged over all shares of examples to keep.",
        spread="ranked", paper="Geifman, Uziel & El-Yaniv 2019",
    ),
    Metric(
        "e_aurc", "Excess AURC", "excess AURC", e_aurc, _CONFIDENCES,
        lambda v: f"Ranking the same errors last would lower the AURC by {points(v)}.",
        spread="ranked", weighted=False, paper="Geifman, Uziel & El-Yaniv 2019",
    ),
    Metric(
        "augrc", "AUGRC", "AUGRC", augrc, _CONFIDENCES,
        lambda v: f"Undetected errors, averaged over all thresholds: {percent(v, 2)}.",
        spread="ranked", paper="Traub et al. 2024",
    ),
    Metric(
        "risk_at_coverage", "Risk at 80 % coverage", "risk at 80 %",
        partial(risk_at_coverage, coverage=_COVERAGE), _CONFIDENCES,
        lambda v: f"Keeping at least the most confident 80 %, {percent(v)} are wrong.",
        spread="counted", paper="El-Yaniv & Wiener 2010",
    ),
    Metric(
        "coverage_at_risk", "Coverage at 5 % risk", "coverage at 5 %",
        partial(coverage_at_risk, risk=_RISK), _CONFIDENCES,
        lambda v: f"{percent(v)} can be kept with at most 5 % of them wrong.",
        better=1, spread="kept", paper="El-Yaniv & Wiener 2010",
    ),
    Metric(
        "adaptive_classwise_ece", "Adaptive classwise ECE", "adaptive classwise ECE",
        adaptive_classwise_ece, ("scores",),
        lambda v: f"The classwise error with bins of equal mass: {points(v)}.",
        takes_bins=True, paper="Nixon et al. 2019",
    ),
    # Predictions with BIO tags
    Metric(
        "entity_f1", "Entity F1", "F1", entity_f1, ("entity_counts",),
        lambda v: f"Exact spans and types found: F1 {percent(v)}.",
        "tags", 1, 3, "counted", quality=True, like=(f1_of_counts,), weighted=False,
    ),
    Metric(
        "token_f1", "Token F1", "token F1", token_f1, ("token_counts",),
        lambda v: f"Micro F1 over tags other than O: {percent(v)}.",
        "tags", 1, 3, "counted", weighted=False,
    ),
    Metric(
        "entity_precision", "Entity precision", "entity precision", accuracy, ("entities",),
        lambda v: f"{percent(v)} of the predicted entities are right (precision).",
        "tags", 1, spread="counted", former=("entity_accuracy",), weighted=False,
    ),
    Metric(
        "entity_confidence", "Mean entity confidence", "entity confidence",
        mean_confidence, ("entities",),
        lambda v: f"The model claims that {percent(v)} of its entities are right.",
        "tags", 0, spread="proportion", weighted=False,
    ),
    Metric(
        "entity_ece", "Entity ECE", "entity ECE", entity_ece, ("entities",),
        lambda v: (
            f"The confidence of an entity misses its accuracy by {points(v)} on average."
        ),
        "tags", spread="biased upwards", weighted=False,
    ),
    Metric(
        "entity_auroc", "Entity AUROC", "entity AUROC", auroc, ("entity_confidences",),
        lambda v: f"A right entity is more confident than a wrong one {percent(v)} of the time.",
        "tags", 1, 3, "ranked", weighted=False,
    ),
    Metric(
        "ece_without_o", "ECE without O", "ECE without O", ece, ("without_o",),
        lambda v: f"Where gold or prediction is not O, confidence misses accuracy by {points(v)}.",
        "tags", spread="biased upwards", weighted=False,
    ),
    Metric(
        "apcr", "APCR (entity F1² / ECE)", "APCR", _apcr, ("entity_counts", "state"),
        lambda v: (
            "Infinite: the ECE is 0."
            if np.isinf(v)
            else f"F1² / ECE = {v:.1f}; higher is a better trade of performance and trust."
        ),
        "tags", 1, 1, most=math.inf, paper="Jouet et al. 2022", weighted=False,
    ),
    # Binary predictions
    Metric(
        "positive_rate", "Share of positives", "positives", accuracy, ("positive",),
        lambda v: f"{percent(v)} of the examples are of the positive class.",
        "binary", 0, spread="counted",
    ),
    Metric(
        "positive_score", "Mean score of the positive class", "mean score", mean_confidence,
        ("positive",),
        lambda v: f"The model expects {percent(v)} of the examples to be positive.",
        "binary", 0, spread="proportion",
    ),
    Metric(
        "positive_ece", "Positive-class ECE", "positive ECE", ece, ("positive",),
        lambda v: f"The score misses the share of positives by {points(v)}, bin by bin.",
        "binary", spread="biased upwards",
    ),
    Metric(
        "positive_auroc", "AUROC, positive against negative", "AUROC of positives", auroc,
        ("positive_confidences",),
        lambda v: f"A positive example scores higher than a negative one {percent(v)} of the time.",
        "binary", 1, 3, "ranked",
    ),
    # Multi-label predictions
    Metric(
        "top_accuracy", "Top label right", "top label right", accuracy, ("top",),
        lambda v: f"The most probable label applies to {percent(v)} of the examples.",
        "labels", 1, spread="counted",
    ),
    Metric(
        "top_confidence", "Top-label confidence", "top-label confidence", mean_confidence, ("top",),
        lambda v: f"The most probable label has a probability of {percent(v)} on average.",
        "labels", 0, spread="proportion",
    ),
    Metric(
        "top_ece", "Top-label ECE", "top-label ECE", ece, ("top",),
        lambda v: f"The largest probability misses how often it is right by {points(v)}.",
        "labels", spread="biased upwards",
    ),
    # Pixels of images
    Metric(
        "mean_iou", "Mean IoU", "mIoU", mean_iou, _CLASSWISE,
        lambda v: (
            f"Regions found and true ones share {percent(v)} of their pixels, "
            "averaged over classes."
        ),
        "pixels", 1, 3, "proportion", quality=True, like=(class_iou,),
        paper="Everingham et al. 2010",
    ),
    Metric(
        "inside_accuracy", "Accuracy away from borders", "accuracy inside", accuracy, ("inside",),
        lambda v: f"{percent(v)} of the pixels away from borders are right.",
        "pixels", 1, spread="counted",
    ),
    Metric(
        "inside_ece", "ECE away from borders", "ECE inside", ece, ("inside",),
        lambda v: f"Away from borders, confidence misses accuracy by {points(v)}.",
        "pixels", spread="biased upwards",
    ),
    Metric(
        "border_accuracy", "Accuracy near borders", "accuracy near borders", accuracy, ("border",),
        lambda v: f"{percent(v)} of the pixels near borders are right.",
        "pixels", 1, spread="counted",
    ),
    Metric(
        "border_ece", "ECE near borders", "ECE near borders", ece, ("border",),
        lambda v: f"Near borders, confidence misses accuracy by {points(v)}.",
        "pixels", spread="biased upwards",
    ),
    Metric(
        "image_ece_median", "Median ECE of an image", "median ECE of an image",
        np.median, ("image_errors",),
        lambda v: f"Half of the images are, taken separately, further off than {points(v)}.",
        "pixels",
    ),
    Metric(
        "image_ece_high", "ECE of an image, 90th percentile", "ECE of an image, 90th percentile",
        partial(np.quantile, q=0.9), ("image_errors",),
        lambda v: f"One image in ten is further off than {points(v)}.",
        "pixels",
    ),
)  # fmt: skip

METRICS: dict[str, Metric] = {row.name: row for row in _ROWS}


def metric_of(function: Callable[..., Any]) -> Metric | None:
    """Return the first row about a function or a partial of it, if there is any."""
    plain = plain_function(function)
    return next((metric for metric in METRICS.values() if metric.computes(plain)), None)


def quality_metrics() -> list[str]:
    """Return the metrics of predictive quality: of tags and pixels first, as all have classes.

    >>> quality_metrics()
    ['entity_f1', 'mean_iou', 'accuracy']
    """
    found = [metric for metric in METRICS.values() if metric.quality]
    return [metric.name for metric in sorted(found, key=lambda metric: metric.kind == "classes")]


def with_former_names(numbers: Mapping[str, T]) -> dict[str, T]:
    """Return values by metric, those of renamed metrics under their earlier names as well."""
    again = {
        former: numbers[metric.name]
        for metric in METRICS.values()
        for former in metric.former
        if metric.name in numbers
    }
    return {**again, **numbers}


def with_new_names(numbers: Mapping[str, T]) -> dict[str, T]:
    """Return values by metric, as an older file has them, under the names of today."""
    new = {former: metric.name for metric in METRICS.values() for former in metric.former}
    return {new.get(name, name): value for name, value in numbers.items()}
