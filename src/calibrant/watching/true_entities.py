"""How many true entities the probabilities of words stand for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from calibrant.metrics.tags import BEGIN, SINGLE, TagSet

__all__ = ["OpeningRates", "learn_rates", "opening_parts"]

# Words that a rate of one is worth, so that a small reference does not decide alone.
_PRIOR = 4.0


class OpeningRates(NamedTuple):
    """True entities per probability that a word opens one, by part of :func:`opening_parts`.

    ``variance`` is that of each rate: a reference has few words of some parts.
    """

    rate: np.ndarray
    variance: np.ndarray


def opening_parts(probabilities: np.ndarray, predicted: np.ndarray, tags: TagSet) -> np.ndarray:
    """Return the probability that each word opens an entity, in four parts.

    Where an opening tag is predicted: that of this tag, and that of other opening tags; that of
    any where the inside of an entity is predicted, and where no entity is. Without tags that open
    an entity, those of any entity take their place. A calibrator makes the first part honest. The
    rest shares what it leaves over as the model does, who takes a misread word for a part of an
    entity of some type: on damaged text there is often none.

    >>> tags = TagSet.of(["O", "B-X", "I-X", "B-Y"])
    >>> p = np.array([[0.1, 0.6, 0.1, 0.2], [0.1, 0.2, 0.6, 0.1], [0.9, 0.1, 0.0, 0.0]])
    >>> opening_parts(p, p.argmax(axis=1), tags).round(2)
    array([[0.6, 0.2, 0. , 0. ],
           [0. , 0. , 0.3, 0. ],
           [0. , 0. , 0. , 0.1]])
    """
    opens = _opening(tags)
    mass = np.clip(probabilities[:, opens].sum(axis=1), 0, 1)
    shown = np.clip(probabilities[np.arange(len(predicted)), predicted], 0, mass)
    return _by_part(shown, mass, predicted, tags)


def learn_rates(
    probabilities: np.ndarray, predicted: np.ndarray, labels: np.ndarray, tags: TagSet, true: int
) -> OpeningRates:
    """Learn the rates from a labelled reference with this many true entities.

    Their estimate for the reference itself is ``true``.
    """
    mass = opening_parts(probabilities, predicted, tags).sum(axis=0)
    opens, right = _opening(tags)[labels], labels == predicted
    found = _by_part((opens & right) * 1.0, opens * 1.0, predicted, tags).sum(axis=0)
    rate = (found + _PRIOR) / (mass + _PRIOR)
    variance = rate / (mass + _PRIOR)
    rate[0], variance[0] = 1.0, 0.0  # It is honest.
    expected = float(rate @ mass)
    scale = true / expected if expected else 1.0
    return OpeningRates(scale * rate, scale**2 * variance)


def _opening(tags: TagSet) -> np.ndarray:
    opens = np.isin(tags.prefix, (BEGIN, SINGLE))
    return np.asarray(opens if opens.any() else tags.type >= 0)


def _by_part(
    shown: np.ndarray, whole: np.ndarray, predicted: np.ndarray, tags: TagSet
) -> np.ndarray:
    """Return columns: the shown tag and the rest of an opening word, inside words, others."""
    opening, entity = _opening(tags)[predicted], tags.type[predicted] >= 0
    parts = (opening * shown, opening * (whole - shown), ~opening & entity, ~entity)
    return np.stack([*parts[:2], *(where * whole for where in parts[2:])], axis=1)
