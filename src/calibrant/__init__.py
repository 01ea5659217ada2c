"""calibrant: honest confidence for neural classifiers."""

from calibrant.errors import CalibrantError, InputError, MissingExtraError, NotFittedError
from calibrant.predictions import Predictions

__version__ = "0.1.0"

__all__ = [
    "CalibrantError",
    "InputError",
    "MissingExtraError",
    "NotFittedError",
    "Predictions",
    "__version__",
]
