"""Adapting a map to a new data set without labels: other class frequencies, or harder examples."""

from calibrant.adapting.record import Adaptation, ClassShare
from calibrant.adapting.run import adapt

__all__ = ["Adaptation", "ClassShare", "adapt"]
