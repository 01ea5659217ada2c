"""Entities of any tool: predicted spans with scores against gold spans, without logits."""

from calibrant.entities.audit import EntityAudit, audit_entities
from calibrant.entities.calibrator import EntityCalibrator, load_entity_calibrator
from calibrant.entities.document import Document, Entity
from calibrant.entities.matching import MatchedEntities, match_entities
from calibrant.entities.reading import EntityFile, read_entities, write_entities

__all__ = [
    "Document",
    "Entity",
    "EntityAudit",
    "EntityCalibrator",
    "EntityFile",
    "MatchedEntities",
    "audit_entities",
    "load_entity_calibrator",
    "match_entities",
    "read_entities",
    "write_entities",
]
