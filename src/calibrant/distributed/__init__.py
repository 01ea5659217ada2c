"""Audits and fits of tables that one machine does not hold: on Ray, Spark, or part by part here."""

from __future__ import annotations

from calibrant.distributed.auditing import audit
from calibrant.distributed.engine import Dataset, Engine, LocalEngine, Part, Parts, Rows

__all__ = ["Dataset", "Engine", "LocalEngine", "Part", "Parts", "Rows", "audit"]
