"""For NER: a temperature per entity type."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calibrant.arrays import Array
from calibrant.calibrators.backend import namespace
from calibrant.calibrators.base import Calibrator, Fit
from calibrant.calibrators.grouped import group_temperatures
from calibrant.errors import InputError
from calibrant.predictions import Predictions

__all__ = ["TypeTemperature", "entity_types"]


class TypeTemperature(Calibrator):
    """p = softmax(l / T_t), t the entity type of the predicted tag (O is one of the types).

    NER models are often right about O and overconfident about rare types; one temperature for all
    follows O, which is most tokens. The type is that of the largest logit: "PER" for B-PER and
    I-PER. Types are pulled towards the common temperature, and those predicted for fewer than
    ``fewest`` tokens take it; see :func:`calibrant.calibrators.grouped.group_temperatures`.
    Needs ``label_names``; keeps the argmax.

    >>> names = ["O", "B-PER", "I-PER"]
    >>> logits = [[4.0, 0.0, 0.0]] * 60 + [[0.0, 4.0, 0.0]] * 40
    >>> p = Predictions.from_logits(logits, [0] * 59 + [1] + [1] * 30 + [0] * 10, label_names=names)
    >>> by_type = TypeTemperature().fit(p)
    >>> {name: round(t, 2) for name, t in by_type.by_type().items()}
    {'O': 0.95, 'PER': 2.15}
    """

    name = "type-temperature"
    keeps_argmax = True

    temperature_: float
    temperatures_: np.ndarray
    type_of_class_: np.ndarray

    def __init__(self, spread: float = 0.5, fewest: int = 20) -> None:
        self.spread = spread
        self.fewest = fewest

    def _fit(self, predictions: Predictions) -> Fit:
        types, type_of_class = entity_types(predictions.label_names)
        logits = predictions.scores
        common, temperatures = group_temperatures(
            logits,
            predictions.labels,
            type_of_class[logits.argmax(axis=1)],
            len(types),
            spread=self.spread,
            fewest=self.fewest,
        )
        return Fit(
            {
                "temperature_": common,
                "temperatures_": temperatures,
                "type_of_class_": type_of_class,
            }
        )

    def _apply(self, scores: Array, values: Mapping[str, Any]) -> Array:
        predicted = namespace(scores).argmax(scores, axis=-1)
        by_class = values["temperatures_"][values["type_of_class_"]]
        return scores / by_class[predicted][..., None]

    def by_type(self) -> dict[str, float]:
        """Return the temperature of each entity type."""
        self._check_fitted()
        types, _ = entity_types(self.label_names_)
        return dict(zip(types, self.temperatures_.tolist(), strict=True))


def entity_types(label_names: Sequence[str] | None) -> tuple[list[str], np.ndarray]:
    """Return the entity types in order of first appearance, and the type number of each class.

    >>> entity_types(["O", "B-PER", "I-PER", "B-LOC"])
    (['O', 'PER', 'LOC'], array([0, 1, 1, 2]))
    """
    if label_names is None:
        raise InputError(
            "TypeTemperature needs label_names such as ('O', 'B-PER', 'I-PER'); got none."
        )
    tags = [re.fullmatch(r"[BIESLU]-(.+)", name) for name in label_names]
    for name, tag in zip(label_names, tags, strict=True):
        if tag is None and name != "O":
            raise InputError(
                f"TypeTemperature expects BIO tags ('O', 'B-PER', 'I-PER', …), got {name!r}."
            )
    types = [tag[1] if tag else "O" for tag in tags]
    order = list(dict.fromkeys(types))
    return order, np.array([order.index(t) for t in types])
