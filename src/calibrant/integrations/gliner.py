"""Learned confidences in the output of a GLiNER model."""

from __future__ import annotations

from typing import Any

from calibrant.entities import EntityCalibrator

__all__ = ["CalibratedGLiNER"]


class CalibratedGLiNER:
    """A GLiNER model whose scores are learned confidences::

        found = [{"text": t, "entities": model.predict_entities(t, labels)} for t in texts]
        write_entities(found, "found.jsonl")
        # calibrant fit --entities found.jsonl gold.jsonl -o entities.json
        honest = CalibratedGLiNER(model, load_entity_calibrator("entities.json"))
        honest.predict_entities("Rosa Lind moved to Paris.", labels)

    The model's own ``threshold`` still chooses spans by its own score: use the same one as in
    ``fit``. Everything else is passed to the model.
    """

    def __init__(self, model: Any, calibrator: EntityCalibrator) -> None:
        self.model, self.calibrator = model, calibrator

    def predict_entities(self, text: str, labels: list[str], **options: Any) -> Any:
        """Return the entities of a text."""
        return self.calibrator.rescore(self.model.predict_entities(text, labels, **options))

    def inference(self, texts: Any, labels: list[str], **options: Any) -> Any:
        """Return the entities of each text."""
        return self.calibrator.rescore(self.model.inference(texts, labels, **options))

    def batch_predict_entities(self, texts: list[str], labels: list[str], **options: Any) -> Any:
        """Return the entities of each text, by GLiNER's earlier name of ``inference``."""
        return self.inference(texts, labels, **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # What copying needs before there is a model.
            raise AttributeError(name)
        return getattr(self.model, name)
