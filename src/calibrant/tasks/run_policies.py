"""The policy of a finished run: learned on its validation split, for the confidences it predicts.

The calibrator of the run was fitted on the same split. Calibrators of entities never decrease, so
they accept the same entities in any case; one that reads signals is judged on entities
that it was fitted without. Calibrators of words and rows have few parameters, and what they learned
is not covered by the promise.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from calibrant.calibrators import load_calibrator
from calibrant.comparison.span_calibrator import new_entity_words
from calibrant.errors import InputError
from calibrant.metrics.entities import span_confidence
from calibrant.metrics.spans import Tagging
from calibrant.metrics.tags import is_bio
from calibrant.policies import (
    Items,
    Policy,
    calibrator_fingerprint,
    guarantee,
    guarantee_items,
    model_fingerprint,
)
from calibrant.policies.learning import (
    check_average,
    check_promises,
    floored_scores,
    with_floor,
)
from calibrant.policies.missed import add_review
from calibrant.predictions import Predictions
from calibrant.tasks.run_files import find_file, read_labels

__all__ = ["run_policy"]


def run_policy(
    folder: Path, *, tokens: bool = False, reduction: str = "auto", **options: Any
) -> Policy:
    """Learn the policy of a run; ``options`` are those of :func:`calibrant.guarantee`."""
    names = ("target_risk", "max_missed", "coverage")
    check_promises({n: options[n] for n in names}, options["per"], options["level"])
    about: dict[str, Any] = {"model": model_fingerprint(folder / "model")}
    labels = read_labels(folder) if (folder / "labels.json").exists() else None
    entities = options["items"] != "rows" and options["coverage"] is None
    if is_bio(labels) and entities:
        return _of_entities(folder, tokens, reduction, options, about)
    if reduction != "auto" or (tokens and not is_bio(labels)):
        given = "--tokens" if reduction == "auto" else "--reduction"
        raise InputError(f"{given} is for policies of entities, got one of rows: leave it out.")
    calibrator = load_calibrator(find_file(folder, "calibrator.json", "temperature.json"))
    valid = Predictions.read(find_file(folder, "valid.parquet", "valid.npz"))
    about["calibrator"] = calibrator_fingerprint(calibrator)
    return guarantee(calibrator.transform(valid), **options, **about)


def _of_entities(
    folder: Path, tokens: bool, reduction: str, options: dict[str, Any], about: dict[str, Any]
) -> Policy:
    from calibrant.tasks.ner.finished_run import entity_judge

    if options["keep_together"] not in ("auto", "sentence"):
        raise InputError("Entities of a run are drawn by sentences: leave --keep-together out.")
    judge, valid, kind = entity_judge(folder, raw=not tokens)
    about |= {"calibrator": calibrator_fingerprint(judge.calibrator), "classes": valid.classes}
    about["label_names"] = valid.label_names
    target, missed = options["target_risk"], options["max_missed"]
    level = None if options["on_average"] else options["level"]
    words = new_entity_words(judge.calibrator, valid)
    # A calibrator that changes tags is judged as on new sentences; another one changes no entity.
    calibrated = judge.calibrator.transform(valid) if words is valid else words
    if target is None:
        check_average(options.get("average", "rows"), "sentence", target)
        settings = {"words": kind}
        return add_review(calibrated, missed, level, "sentence", {**about, "settings": settings})
    together = judge.span_calibrator(reduction)
    tagging = Tagging(words)
    spans = tagging.predicted
    values = span_confidence(spans, tagging.top[0], together.reduction_)
    sentence = np.asarray(valid.groups["sentence"])[spans.start]
    known, thresholds = judge.judged(reduction)
    items = Items(
        known.confidence, tagging.right, spans.type, tagging.tags.types, sentence,
        "sentence", "entities", thresholds,
    )  # fmt: skip
    settings = {
        "words": kind,
        "reduction": together.reduction_,
        "entity_calibrator": calibrator_fingerprint(together.calibrator_),
    }
    made = {
        "per": options["per"],
        "average": options.get("average", "rows"),
        "settings": settings,
        **about,
    }
    if missed is None:
        return guarantee_items(items, target, options["level"], **made)
    policy = guarantee_items(with_floor(items), target, options["level"], **made)
    scores = floored_scores(items, values)
    return add_review(
        calibrated, missed, level, "sentence", about, policy=policy, confidence=scores
    )
