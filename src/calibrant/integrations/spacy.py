"""Confidences of entities in spaCy: a pipeline component that sets ``span._.confidence``.

First learn a calibrator from what the pipeline finds in texts whose entities are known::

    write_entities([document_record(doc, spans_key="sc") for doc in nlp.pipe(texts)], "found.jsonl")
    # calibrant fit --entities found.jsonl gold.jsonl -o entities.json

Then add it to the pipeline; it stays there when the pipeline is saved and loaded::

    nlp.add_pipe("calibrant_confidence", config={"path": "entities.json", "spans_key": "sc"})
    nlp("Rosa Lind moved to Paris.").spans["sc"][0]._.confidence

spaCy's ``ner`` gives no scores: ``spans_key`` None (the default) reads ``doc.ents``, and
``calibrant fit --entities --without-scores`` learns their confidence from type and length.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from calibrant.entities import Entity, EntityCalibrator, load_entity_calibrator
from calibrant.errors import InputError
from calibrant.extras import require

Language: Any = require("spacy.language", "spacy", "calibrant.integrations.spacy").Language
Span: Any = require("spacy.tokens", "spacy", "calibrant.integrations.spacy").Span

__all__ = ["ConfidenceSetter", "document_record", "make_confidence_setter"]

_FILE = "calibrator.json"

if not Span.has_extension("confidence"):
    Span.set_extension("confidence", default=None)


def document_record(doc: Any, spans_key: str | None = None) -> dict[str, Any]:
    """Return the entities of a document, or its spans with their scores, ready for JSON.

    The form is that of ``doc.to_json()``, which leaves the scores of spans out, without tokens.
    """
    entities = [
        {"start": e.start, "end": e.end, "label": e.type}
        | ({} if e.score is None else {"score": e.score})
        for e in _entities(doc, spans_key)
    ]
    found = {"ents": entities} if spans_key is None else {"spans": {spans_key: entities}}
    return {"text": doc.text, **found}


class ConfidenceSetter:
    """The component: sets ``span._.confidence`` of each entity of a document."""

    def __init__(
        self,
        calibrator: EntityCalibrator | None,
        spans_key: str | None = None,
        path: str | None = None,
    ) -> None:
        self.calibrator, self.spans_key, self.path = calibrator, spans_key, path

    def __call__(self, doc: Any) -> Any:
        """Set the confidences of one document."""
        if self.calibrator is None:
            what = "set 'path' in its config" if self.path is None else f"no file {self.path}"
            raise InputError(f"calibrant_confidence has no calibrator: {what}.")
        spans = _spans(doc, self.spans_key)
        learned = self.calibrator.confidence(_entities(doc, self.spans_key))
        for span, confidence in zip(spans, learned.tolist(), strict=True):
            span._.confidence = confidence
        return doc

    def to_disk(self, path: Path, *, exclude: Iterable[str] = ()) -> None:
        """Save the calibrator with the pipeline."""
        del exclude
        if self.calibrator is not None:
            Path(path).mkdir(parents=True, exist_ok=True)
            self.calibrator.save(Path(path) / _FILE, overwrite=True)

    def from_disk(self, path: Path, *, exclude: Iterable[str] = ()) -> ConfidenceSetter:
        """Load the calibrator that was saved with the pipeline."""
        del exclude
        if (Path(path) / _FILE).exists():
            self.calibrator = load_entity_calibrator(Path(path) / _FILE)
        return self


def _spans(doc: Any, spans_key: str | None) -> list[Any]:
    if spans_key is None:
        return list(doc.ents)
    if spans_key not in doc.spans:
        raise InputError(
            f"The document has no spans '{spans_key}'; it has {', '.join(doc.spans) or 'none'}."
        )
    return list(doc.spans[spans_key])


def _entities(doc: Any, spans_key: str | None) -> list[Entity]:
    spans = _spans(doc, spans_key)
    scores: Any = None if spans_key is None else doc.spans[spans_key].attrs.get("scores")
    return [
        Entity(
            span.start_char,
            span.end_char,
            span.label_,
            None if scores is None else float(scores[i]),
        )
        for i, span in enumerate(spans)
    ]


def make_confidence_setter(
    nlp: Any, name: str, path: str | None, spans_key: str | None
) -> ConfidenceSetter:
    """Return the component that ``nlp.add_pipe("calibrant_confidence", …)`` adds."""
    del nlp, name  # spaCy passes both to every factory.
    # A saved pipeline has its own copy of the calibrator, which spaCy loads after this.
    found = path is not None and Path(path).exists()
    return ConfidenceSetter(
        load_entity_calibrator(path) if found and path else None, spans_key, path
    )


Language.factory(
    "calibrant_confidence",
    default_config={"path": None, "spans_key": None},
    func=make_confidence_setter,
)
