"""Predictions that are made when they are asked for, so that no two need to be held."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from calibrant.predictions import Predictions

__all__ = ["Predicted"]


class Predicted(Mapping[str, Predictions]):
    """The predictions of each part by its name, made anew each time.

    >>> made = Predicted({"one": 1}, lambda part: f"predictions of {part}")
    >>> list(made.items())
    [('one', 'predictions of 1')]
    """

    def __init__(self, parts: Mapping[str, Any], predict: Callable[[Any], Predictions]) -> None:
        self.parts, self.predict = parts, predict

    def __len__(self) -> int:
        return len(self.parts)

    def __iter__(self) -> Iterator[str]:
        return iter(self.parts)

    def __getitem__(self, name: str) -> Predictions:
        """The predictions of one part."""
        return self.predict(self.parts[name])
