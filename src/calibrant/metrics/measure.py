"""Every metric of the table that suits some predictions, from sources that are computed once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calibrant.arguments import check_kind, takes_arrays
from calibrant.claims import Claims
from calibrant.metrics.accumulate import accumulate
from calibrant.metrics.binned import ece
from calibrant.metrics.bins import Bins
from calibrant.metrics.confidences import Confidences, TopLabel, top_label
from calibrant.metrics.entities import Reduction, entity_confidences, entity_state
from calibrant.metrics.metric import Kind
from calibrant.metrics.sorted_confidences import confidence_steps
from calibrant.metrics.spans import Tagging
from calibrant.metrics.table import METRICS
from calibrant.metrics.tag_f1 import entity_counts, token_counts
from calibrant.metrics.tags import is_bio
from calibrant.predictions import Predictions

__all__ = ["measure", "measure_sources", "tag_sources"]


@takes_arrays
def measure(
    predictions: Predictions | Claims, kinds: Sequence[Kind] | None = None
) -> dict[str, float]:
    """Return every metric of these ``kinds`` by name, except those that need all scores.

    The default is all kinds that apply: classes, tags if the label names are BIO tags, and pixels
    if there is a group ``image``. With sample weights, metrics that take none are left out.

    >>> p = Predictions.from_probabilities([[0.75, 0.25], [0.5, 0.5]], [0, 1])
    >>> measure(p)["error_rate"]
    0.5
    """
    check_kind("measure", predictions, Predictions, Claims)
    if isinstance(predictions, Claims):
        several: list[Kind] = ["classes", "labels"]
        return measure_sources(_claim_sources(predictions), several if kinds is None else kinds)
    wanted = _kinds(predictions) if kinds is None else kinds
    top = top_label(predictions)
    sources = _class_sources(predictions, top)
    if "tags" in wanted:
        sources |= tag_sources(predictions, Tagging(predictions, top=top))
    if "binary" in wanted:
        sources |= _positive_sources(predictions)
    if "pixels" in wanted:
        sources |= _pixel_sources(predictions)
    return measure_sources(sources, wanted)


def measure_sources(
    sources: Mapping[str, Any], kinds: Sequence[Kind], bins: int = 15
) -> dict[str, float]:
    """Return every metric of these kinds whose sources (:class:`Metric`) are all there."""
    return {
        metric.name: float(metric.with_bins(bins)(*(sources[name] for name in metric.source)))
        for metric in METRICS.values()
        if metric.kind in kinds and metric.applies(sources)
    }


def _kinds(predictions: Predictions) -> list[Kind]:
    kinds: list[Kind] = ["classes"]
    tags = is_bio(predictions.label_names) and not predictions.weighted
    kinds += ["tags"] if tags else []
    return [*kinds, "pixels"] if "image" in predictions.groups else kinds


def _class_sources(predictions: Predictions, top: TopLabel) -> dict[str, Any]:
    state, (confidence, _, correct) = accumulate(predictions), top
    steps = confidence_steps(Confidences(confidence, correct, weights=predictions.weights))
    return {"state": state, "classwise": state, "confidences": steps}


def _claim_sources(claims: Claims) -> dict[str, Any]:
    state = accumulate(claims)
    sources: dict[str, Any] = {"state": state, "confidences": confidence_steps(claims)}
    if claims.kind != "multi-label":
        return sources
    top = accumulate(claims.top_labels(), classwise=False)
    return {**sources, "classwise": state, "top": top}


def _positive_sources(predictions: Predictions) -> dict[str, Any]:
    claims = Claims.of_positive(predictions)
    return {"positive": accumulate(claims), "positive_confidences": confidence_steps(claims)}


def tag_sources(
    predictions: Predictions,
    tagging: Tagging,
    bins: Bins | None = None,
    reduction: Reduction = "product",
    block: np.ndarray | None = None,
    blocks: int = 0,
    *,
    by_type: bool = False,
) -> Mapping[str, Any]:
    """Return what the metrics of entities are computed from, by the names in :class:`Metric`.

    With ``block`` everything has a leading axis of ``blocks``; with ``by_type`` the state of the
    entities has an axis of types.
    """
    bins = bins or Bins()
    where: dict[str, Any] = {"block": block, "blocks": blocks, "tagging": tagging}
    rows = tagging.inside(tagging.tags.type >= 0)
    of_rows = None if block is None else block[rows]
    inside = accumulate(predictions[rows], bins, classwise=False, block=of_rows, blocks=blocks)
    state = entity_state(predictions, bins, reduction=reduction, by_type=by_type, **where)
    each = entity_confidences(predictions, reduction=reduction, block=block, tagging=tagging)
    return {
        "entities": state,
        "entity_counts": entity_counts(predictions, **where),
        "token_counts": token_counts(predictions, **where),
        "without_o": inside,
        "entity_confidences": each,
    }


def _pixel_sources(predictions: Predictions) -> dict[str, Any]:
    """Return the states by region, where the pixels have a group ``border``, and image errors."""
    names, image = np.unique(predictions.groups["image"], return_inverse=True)
    images = accumulate(predictions, classwise=False, block=image, blocks=len(names))
    errors = ece(images) if len(names) else np.array([np.nan])
    sources: dict[str, Any] = {"image_errors": errors}
    if "border" in predictions.groups:
        near = predictions.groups["border"].astype(np.int64)
        regions = accumulate(predictions, classwise=False, block=near, blocks=2)
        sources |= {"inside": regions[0], "border": regions[1]}
    return sources
