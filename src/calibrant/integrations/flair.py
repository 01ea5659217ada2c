"""Learned confidences on the spans that a flair tagger predicts."""

from __future__ import annotations

from typing import Any

from calibrant.entities import Entity, EntityCalibrator

__all__ = ["CalibratedTagger", "set_confidences"]


class CalibratedTagger:
    """A flair ``SequenceTagger`` whose spans have learned confidences as scores::

    tagger.predict(sentences)
    write_entities([sentence.to_dict(tag_type="ner") for sentence in sentences], "found.jsonl")
    # calibrant fit --entities found.jsonl gold.jsonl -o entities.json
    honest = CalibratedTagger(tagger, load_entity_calibrator("entities.json"))
    honest.predict(sentence)
    """

    def __init__(self, tagger: Any, calibrator: EntityCalibrator) -> None:
        self.tagger, self.calibrator = tagger, calibrator

    def predict(self, sentences: Any, **options: Any) -> Any:
        """Predict as the tagger does, then set the confidences of all spans."""
        result = self.tagger.predict(sentences, **options)
        label_type = options.get("label_name") or self.tagger.label_type
        set_confidences(sentences, self.calibrator, label_type)
        return result

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # What copying needs before there is a tagger.
            raise AttributeError(name)
        return getattr(self.tagger, name)


def set_confidences(sentences: Any, calibrator: EntityCalibrator, label_type: str = "ner") -> None:
    """Replace the scores of predicted spans by learned confidences, of a sentence or several."""
    several = sentences if isinstance(sentences, (list, tuple)) else [sentences]
    labels = [span.get_label(label_type) for each in several for span in each.get_spans(label_type)]
    entities = [
        Entity(
            label.data_point.start_position,
            label.data_point.end_position,
            label.value,
            float(label.score),
        )
        for label in labels
    ]
    for label, confidence in zip(labels, calibrator.confidence(entities).tolist(), strict=True):
        label.set_value(label.value, confidence)
