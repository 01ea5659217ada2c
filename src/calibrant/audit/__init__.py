"""The audit: everything that one look at a file of predictions should tell."""

from calibrant.audit.record import Audit, ClassRow, EntityView, Measure, Mistake

__all__ = ["Audit", "ClassRow", "EntityView", "Measure", "Mistake"]
