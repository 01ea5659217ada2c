"""The audit: everything that one look at a file of predictions should tell."""

from calibrant.auditing.entities import learned_entities
from calibrant.auditing.record import (
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
from calibrant.auditing.run import audit

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
