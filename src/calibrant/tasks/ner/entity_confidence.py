"""Confidences of entities, and the threshold to accept them, both learned on validation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.calibrators import Calibrator
from calibrant.comparison.risk_control import THRESHOLDS, Guarantee, guaranteed_threshold
from calibrant.comparison.span_calibrator import AUTO, REDUCTIONS, SpanCalibrator, new_entity_words
from calibrant.errors import InputError, unknown_name
from calibrant.inputs import read_signed
from calibrant.metrics import Confidences, entity_confidences
from calibrant.metrics.entities import Reduction
from calibrant.outputs import new_file
from calibrant.predictions import Predictions
from calibrant.tasks.evidence import EVIDENCE, write_evidence
from calibrant.tasks.language.splitter_choice import Cutting

__all__ = [
    "CALIBRATORS",
    "ENTITIES",
    "WORDS",
    "EntityConfidence",
    "read_entities",
    "write_words",
]

WORDS, ENTITIES = "words.json", "entities.json"  # Files of a run.
# For the words of the corpus, and for the words of raw text if it is cut differently.
CALIBRATORS = {"corpus": "calibrator.json", "raw": "raw_calibrator.json"}
_SIGNATURE, _FORMAT = "calibrant entities", 1
_DAMAGE = "no calibrators of entities"


class EntityConfidence:
    """Calibrators of words and of entities, and the validation entities behind them.

    All are of words that were cut in one way: those of the corpus, or those of raw text. There is
    a :class:`~calibrant.comparison.SpanCalibrator` for each reduction; ``chosen`` is the one that
    cross-validation prefers. ``evidence`` has the raw confidence of each validation entity by
    reduction, and whether it is right; from it :meth:`threshold` is found. If the
    calibrator reads signals, it has the confidence from a calibrator that was fitted without the
    entity.
    """

    def __init__(
        self,
        calibrator: Calibrator,
        spans: Mapping[Reduction, SpanCalibrator],
        chosen: Reduction,
        evidence: Mapping[Reduction, Confidences],
    ) -> None:
        self.calibrator, self.spans, self.chosen = calibrator, spans, chosen
        self.evidence = evidence

    @classmethod
    def fit(
        cls, calibrator: Calibrator, valid: Predictions, best: SpanCalibrator | None = None
    ) -> EntityConfidence:
        """Learn from raw validation predictions, which ``calibrator`` was fitted on.

        ``best`` is the calibrator of the reduction that is preferred, if it is already fitted.
        """
        words = new_entity_words(calibrator, valid)
        best = SpanCalibrator().fit(words) if best is None else best
        others = {r: SpanCalibrator(r).fit(words) for r in REDUCTIONS if r != best.reduction_}
        block = _sentence_numbers(words)
        evidence = {r: entity_confidences(words, reduction=r, block=block) for r in REDUCTIONS}
        if best.held_out_ is not None:
            mapped = best.held_out_.confidence
            evidence[best.reduction_] = replace(evidence[best.reduction_], confidence=mapped)
        return cls(calibrator, {**others, best.reduction_: best}, best.reduction_, evidence)

    def span_calibrator(self, reduction: str = AUTO) -> SpanCalibrator:
        """Return the calibrator of entities, learned on validation words."""
        if reduction not in (AUTO, *REDUCTIONS):
            raise unknown_name("reduction", str(reduction), (AUTO, *REDUCTIONS))
        wanted = self.chosen if reduction == AUTO else reduction
        return next(made for name, made in self.spans.items() if name == wanted)

    def threshold(self, target_risk: float, level: float = 0.9, reduction: str = AUTO) -> Guarantee:
        """Find the lowest confidence above which at most ``target_risk`` of the entities are wrong.

        It holds with probability ``level``, for texts like those of the validation split: see
        :mod:`calibrant.comparison.risk_control`.
        """
        found, thresholds = self.judged(reduction)
        return guaranteed_threshold(
            found.confidence,
            found.correct,
            target_risk,
            level,
            groups=found.block,
            thresholds=thresholds,
        )

    def judged(self, reduction: str = AUTO) -> tuple[Confidences, np.ndarray]:
        """Return the validation entities as new ones are judged, and thresholds to try on them.

        A calibrator without signals never decreases: thresholds of its output are thresholds of
        its input, which were fixed before validation data was seen.
        """
        together = self.span_calibrator(reduction)
        found = self.evidence[together.reduction_]
        if together.reads_signals:
            return found, THRESHOLDS
        return replace(found, confidence=together.apply(found.confidence)), together.apply(
            THRESHOLDS
        )


def _sentence_numbers(words: Predictions) -> np.ndarray:
    """Return the number of each word's sentence: what is drawn independently."""
    if "sentence" not in words.groups:
        return np.arange(len(words))
    return np.unique(words.groups["sentence"], return_inverse=True)[1]


def write_words(folder: Path, judges: Mapping[str, EntityConfidence], cutting: Cutting) -> None:
    """Write splitter, calibrators of entities and evidence, by the kind of words they belong to."""
    for name, content in ((WORDS, cutting.to_dict()), (ENTITIES, entities_content(judges))):
        with new_file(folder / name, overwrite=True) as unfinished:
            text = json.dumps(content, indent=1, ensure_ascii=False)
            unfinished.write_text(text + "\n", encoding="utf-8")
    evidence = {f"{n}.{r}": found for n, j in judges.items() for r, found in j.evidence.items()}
    write_evidence(folder / EVIDENCE, evidence)


def entities_content(parts: Mapping[str, EntityConfidence]) -> dict[str, Any]:
    """Return the calibrators of entities as data for JSON, by the kind of words they belong to."""
    from calibrant import __version__

    return {
        "signature": _SIGNATURE,
        "format": _FORMAT,
        "version": __version__,
        "words": {
            name: {
                "chosen": part.chosen,
                "maps": {r: made.to_dict() for r, made in part.spans.items()},
            }
            for name, part in parts.items()
        },
    }


def read_entities(
    path: Path, calibrators: Mapping[str, Calibrator], evidence: Mapping[str, Confidences]
) -> dict[str, EntityConfidence]:
    """Read what :func:`entities_content` returned, for words of these calibrators.

    ``evidence`` is named ``WORDS.REDUCTION``.
    """
    content = read_signed(path, _DAMAGE, _SIGNATURE, _FORMAT)
    try:
        return {
            name: EntityConfidence(
                calibrator,
                {
                    r: SpanCalibrator.from_dict(content["words"][name]["maps"][r], path)
                    for r in REDUCTIONS
                },
                REDUCTIONS[REDUCTIONS.index(content["words"][name]["chosen"])],
                {r: evidence[f"{name}.{r}"] for r in REDUCTIONS},
            )
            for name, calibrator in calibrators.items()
        }
    except InputError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path} is damaged: {type(error).__name__} {error}.") from None
