"""What a finished run is tested on."""

from __future__ import annotations

from typing import NamedTuple

from calibrant.experiments.recipe import Recipe
from calibrant.experiments.run_folder import RunFolder

__all__ = ["Tested"]


class Tested(NamedTuple):
    """A run with the data that its model is asked about."""

    run: RunFolder
    recipe: Recipe  # The run's.
    data: str
    directory: str | None  # Where data sets are found by name.
    device: str
    own: bool  # The run was trained on a part of the data: only their test split is new to it.
