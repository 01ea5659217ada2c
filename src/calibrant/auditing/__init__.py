"""The audit: how far the confidences of some predictions can be trusted."""

from calibrant.auditing.entities import learned_entities
from calibrant.auditing.record import (
    Audit,
    ClassRow,
    EntityView,
    Finding,
    GroupRow,
    GroupTable,
    ImageRow,
    Measure,
    Mistake,
    PixelView,
    PositiveView,
    RegionRow,
    TopView,
)
from calibrant.auditing.run import audit

__all__ = [
    "Audit",
    "ClassRow",
    "EntityView",
    "Finding",
    "GroupRow",
    "GroupTable",
    "ImageRow",
    "Measure",
    "Mistake",
    "PixelView",
    "PositiveView",
    "RegionRow",
    "TopView",
    "audit",
    "learned_entities",
]
