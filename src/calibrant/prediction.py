"""The old name of :mod:`calibrant.loading`: works for one release and warns."""

from __future__ import annotations

from typing import Any

from calibrant.old_names import renamed


def __getattr__(name: str) -> Any:
    return renamed(__name__, name)
