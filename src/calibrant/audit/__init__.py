"""The audit: everything that one look at a file of predictions should tell."""

from calibrant.audit.entities import learned_entities
from calibrant.audit.record import (
    Audit,
    ClassRow,
    EntityView,
    Finding,
    ImageRow,
    Measure,
    Mistake,
    PixelView,
    RegionRow,
)
from calibrant.audit.run import audit

__all__ = [
    "Audit",
    "ClassRow",
    "EntityView",
    "Finding",
    "ImageRow",
    "Measure",
    "Mistake",
    "PixelView",
    "RegionRow",
    "audit",
    "learned_entities",
]
