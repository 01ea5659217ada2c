"""calibrant: honest confidence for neural classifiers."""

__version__ = "0.1.0"
