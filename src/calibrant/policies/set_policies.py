"""Policies of prediction sets, learned from validation predictions."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from calibrant.arrays import to_numpy
from calibrant.policies import wording
from calibrant.policies.conformal import conformal_quantile, true_scores
from calibrant.policies.policy import ALL, COVERAGE, Policy
from calibrant.predictions import Predictions

__all__ = ["learn_sets"]


def learn_sets(
    predictions: Predictions,
    coverage: float,
    per: str | None,
    unit: str | None,
    settings: dict[str, Any],
    about: dict[str, Any],
) -> Policy:
    """Learn the thresholds of prediction sets; ``settings`` are those of their score."""
    labels = np.asarray(to_numpy(predictions.labels))
    own = true_scores(predictions, **settings)
    groups = None if unit is None else predictions.groups[unit]

    def quantile(rows: Any) -> float:
        return conformal_quantile(own[rows], coverage, None if groups is None else groups[rows])

    thresholds = {ALL: quantile(slice(None))}
    if per == "type":
        thresholds = {name: quantile(labels == k) for k, name in enumerate(predictions.names)}
    counts = np.bincount(labels, minlength=predictions.classes)
    policy = Policy(
        COVERAGE,
        coverage,
        thresholds,
        n=len(labels),
        kept=math.nan,
        unit=unit,
        units=len(labels) if groups is None else len(np.unique(groups)),
        settings=settings,
        **about,
    )
    sizes = policy.sets(predictions).sum(axis=1)
    details: dict[str, Any] = {
        "mean_size": float(sizes.mean()),
        "empty": float((sizes == 0).mean()),
        "single": float((sizes == 1).mean()),
        "examples": dict(zip(predictions.names, counts.tolist(), strict=True)),
        "whole": [name for name, value in thresholds.items() if value == math.inf],
    }
    policy = replace(policy, kept=details["single"], details=details)
    return replace(policy, promise=wording.of_sets(policy))
