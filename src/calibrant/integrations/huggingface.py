"""Learned confidences in the output of a Hugging Face token-classification pipeline."""

from __future__ import annotations

from typing import Any

from calibrant.entities import EntityCalibrator

__all__ = ["CalibratedPipeline"]


class CalibratedPipeline:
    """A pipeline whose scores are learned confidences; all else is as the pipeline gives it::

        tagger = pipeline("ner", model=…, aggregation_strategy="simple")
        write_entities([{"text": t, "entities": tagger(t)} for t in texts], "found.jsonl")
        # calibrant fit --entities found.jsonl gold.jsonl -o entities.json
        honest = CalibratedPipeline(tagger, load_entity_calibrator("entities.json"))
        honest("Rosa Lind moved to Paris.")

    Any aggregation strategy will do, the same one as in ``fit``. With "none" the tokens of an
    entity are joined as "simple" joins them, and all get the confidence of their entity.
    """

    def __init__(self, pipeline: Any, calibrator: EntityCalibrator) -> None:
        self.pipeline, self.calibrator = pipeline, calibrator

    def __call__(self, inputs: Any, **options: Any) -> Any:
        """Return what the pipeline returns for a text, or a list of texts, with confidences."""
        return self.calibrator.rescore(self.pipeline(inputs, **options))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # What copying needs before there is a pipeline.
            raise AttributeError(name)
        return getattr(self.pipeline, name)
