"""Watching a stream of predictions: expected accuracy and F1 without labels, drift, alarms."""

from calibrant.watching.pieces import unlabelled
from calibrant.watching.record import Alarm, Watch, WatchedChunk
from calibrant.watching.run import watch

__all__ = ["Alarm", "Watch", "WatchedChunk", "unlabelled", "watch"]
