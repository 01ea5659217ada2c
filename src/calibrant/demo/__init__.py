"""The demo: eight ways to train a small tagger on the embedded corpus, compared over seeds.

:func:`digit_predictions` is the quickest overconfident network, for pictures and trials.
"""

from calibrant.demo.digits import digit_predictions

__all__ = ["digit_predictions"]
