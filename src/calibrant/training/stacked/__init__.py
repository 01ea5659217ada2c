"""Several runs trained as one model, their encoders along a new first axis: :class:`Stack`."""

from calibrant.training.stacked.stack import NotStackableError, Stack

__all__ = ["NotStackableError", "Stack"]
