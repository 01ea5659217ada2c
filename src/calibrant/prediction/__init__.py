"""Deployment: a trained run as a predictor of entities with honest confidences.

>>> from calibrant.prediction import split_words
>>> [word.text for word in split_words("In 3.5 hours, U.S. time.")]
['In', '3.5', 'hours', ',', 'U.S.', 'time', '.']
"""

from __future__ import annotations

from calibrant.comparison.risk_control import Guarantee, guaranteed_threshold
from calibrant.tasks.language.words import Word, split_words

__all__ = ["Guarantee", "Word", "guaranteed_threshold", "split_words"]
