"""Adapt a calibrator to new data without labels: other class frequencies, or harder examples."""

from calibrant.adapting.record import Adaptation, ClassShare
from calibrant.adapting.run import adapt

__all__ = ["Adaptation", "ClassShare", "adapt"]
