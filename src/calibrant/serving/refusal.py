"""The error that becomes an answer with an error status."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["Refusal"]


class Refusal(Exception):  # noqa: N818 — an answer, not a defect.
    """An answer with an error status and one line that explains what to do."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.headers = status, dict(headers or {})
