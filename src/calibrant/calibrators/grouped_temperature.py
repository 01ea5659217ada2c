"""Temperatures per class, entity type or position in the sentence, near a common one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calibrant.arrays import Array
from calibrant.calibrators.backend import constant, namespace
from calibrant.calibrators.base import Calibrator, Fit
from calibrant.calibrators.moments import Moments, Sweep
from calibrant.calibrators.newton import solve
from calibrant.calibrators.temperature import best_temperature
from calibrant.calibrators.transformation import ABOUT
from calibrant.errors import InputError
from calibrant.predictions import Predictions

__all__ = [
    "ClassTemperature",
    "PositionTemperature",
    "TypeTemperature",
    "entity_types",
    "group_temperatures",
]


class _PulledSweep(Sweep):
    """The moments of n examples plus (1 / 2nσ²) (β/β₀ − 1)²: still convex in β."""

    def __init__(self, part: Predictions, common: float, spread: float) -> None:
        super().__init__(part.scores, part.labels, part.weights)
        self.common = common
        self.strength = 1 / (part.size * spread**2)

    def __call__(self, beta: float) -> Moments:
        """Return the moments at ``beta``, by one more pass."""
        here, away = super().__call__(beta), beta / self.common - 1
        return replace(
            here,
            nll=here.nll + self.strength * away**2 / 2,
            first=here.first + self.strength * away / self.common,
            second=here.second + self.strength / self.common**2,
            wrong=1,  # The pull gives every group an optimum, even if all its examples are right.
        )


def group_temperatures(
    predictions: Predictions,
    group: np.ndarray,
    groups: int,
    *,
    spread: float,
    fewest: int,
    claims: bool = False,
) -> tuple[float, np.ndarray]:
    """Return the common temperature, and one for each of ``groups`` groups.

    Group g minimises n_g f_g(β) + ½ ((β/β₀ − 1) / spread)², f_g its mean NLL and β₀ the common
    inverse temperature: a Gaussian prior of relative width ``spread``, which few examples barely
    move and many overrule. Groups of fewer than ``fewest`` examples take the common one. The
    NLL of each group is at most that of the common temperature.
    """
    best = best_temperature(predictions, claims=claims)
    common = 1.0 if best.at.spread == 0 else best.beta
    betas = np.full(groups, common)
    # Groups of a faultless sample have nothing to differ by.
    for g in range(groups if best.at.wrong else 0):
        part = predictions[np.flatnonzero(group == g)]
        if len(part) and part.size >= fewest:
            betas[g] = solve(_PulledSweep(part, common, spread), common).beta
    return 1 / common, 1 / betas


class ClassTemperature(Calibrator):
    """p = softmax(l / T_k), k the predicted class; of claims, log-odds divided by that of a label.

    One temperature follows the frequent classes; here each class that is predicted for at least
    ``fewest`` examples has its own, pulled towards the common one (:func:`group_temperatures`).
    Keeps the argmax. Of top labels the class is the predicted label, and a label that the fit did
    not see takes the common temperature.

    >>> logits = [[4.0, 0.0]] * 60 + [[0.0, 4.0]] * 40
    >>> p = Predictions.from_logits(logits, [0] * 59 + [1] + [1] * 30 + [0] * 10)
    >>> ClassTemperature().fit(p).temperatures_.round(2)  # Class 0, class 1, and the common one.
    array([1.21, 3.31, 1.91])
    """

    name = "class-temperature"
    keeps_argmax = True
    takes_claims = True
    reads_about = True
    takes_weights = True

    temperature_: float
    temperatures_: np.ndarray

    def __init__(self, spread: float = 0.5, fewest: int = 20) -> None:
        self.spread = spread
        self.fewest = fewest

    def _fit(self, predictions: Predictions) -> Fit:
        group = predictions.scores.argmax(axis=1)
        if self.claims_:
            group = predictions.groups.get(ABOUT, np.zeros(len(predictions), np.int64))
        classes = int(group.max(initial=0)) + 1 if self.claims_ else predictions.classes
        common, temperatures = group_temperatures(
            predictions,
            group,
            classes,
            spread=self.spread,
            fewest=self.fewest,
            claims=bool(self.claims_),
        )
        # The place −1 is that of an unknown label.
        return Fit({"temperature_": common, "temperatures_": np.append(temperatures, common)})

    def _apply(self, scores: Array, values: Mapping[str, Any]) -> Array:
        table = values["temperatures_"]
        if not self.claims_:
            return scores / table[namespace(scores).argmax(scores, axis=-1)][..., None]
        return scores / (table[values[ABOUT]][..., None] if ABOUT in values else table[:1])


class TypeTemperature(Calibrator):
    """p = softmax(l / T_t), t the entity type of the predicted tag (O is one of the types).

    NER models are often right about O and overconfident about rare types; one temperature for all
    follows O, which is most tokens. The type is that of the largest logit: "PER" for B-PER and
    I-PER. Types are pulled towards the common temperature, and those predicted for fewer than
    ``fewest`` tokens take it; see :func:`group_temperatures`. Needs ``label_names``; keeps the
    argmax.

    >>> names = ["O", "B-PER", "I-PER"]
    >>> logits = [[4.0, 0.0, 0.0]] * 60 + [[0.0, 4.0, 0.0]] * 40
    >>> p = Predictions.from_logits(logits, [0] * 59 + [1] + [1] * 30 + [0] * 10, label_names=names)
    >>> by_type = TypeTemperature().fit(p)
    >>> {name: round(t, 2) for name, t in by_type.by_type().items()}
    {'O': 0.95, 'PER': 2.15}
    """

    name = "type-temperature"
    keeps_argmax = True
    takes_weights = True

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
            predictions,
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


class PositionTemperature(Calibrator):
    """p = softmax(l / T_b), b the bucket of the token's position in its sentence.

    Positions count from 0 and come from ``groups["position"]``. Bucket b holds the positions from
    ``starts[b]`` up to the next start; by default 0, 1, 2–3, 4–7, 8–15, 16–31, 32–63, 64 and
    more. Buckets are pulled towards the common temperature as in :func:`group_temperatures`.
    Keeps the argmax.

    >>> logits, labels = [[3.0, 0.0]] * 80, [0] * 30 + [1] * 10 + [0] * 38 + [1] * 2
    >>> p = Predictions.from_logits(logits, labels, groups={"position": [0] * 40 + [5] * 40})
    >>> PositionTemperature().fit(p).temperatures_[[0, 3]].round(2)
    array([2.51, 1.2 ])
    """

    name = "position-temperature"
    keeps_argmax = True
    takes_weights = True
    needs_groups = ("position",)

    temperature_: float
    temperatures_: np.ndarray

    def __init__(
        self,
        starts: tuple[int, ...] = (0, 1, 2, 4, 8, 16, 32, 64),
        spread: float = 0.5,
        fewest: int = 20,
    ) -> None:
        self.starts = starts
        self.spread = spread
        self.fewest = fewest

    def _fit(self, predictions: Predictions) -> Fit:
        if list(self.starts) != sorted(set(self.starts)) or self.starts[:1] != (0,):
            raise InputError(
                f"PositionTemperature expects ascending starts from 0, got {self.starts}."
            )
        position = predictions.groups["position"]
        if position.dtype.kind not in "iu" or position.min() < 0:
            raise InputError(
                "PositionTemperature expects groups['position'] as whole numbers from 0, got "
                f"{position.dtype} from {position.min()}."
            )
        common, temperatures = group_temperatures(
            predictions,
            self._bucket(position),
            len(self.starts),
            spread=self.spread,
            fewest=self.fewest,
        )
        return Fit({"temperature_": common, "temperatures_": temperatures})

    def _apply(self, scores: Array, values: Mapping[str, Any]) -> Array:
        return scores / values["temperatures_"][self._bucket(values["position"])][..., None]

    def _bucket(self, position: Array) -> Array:
        starts = constant(np.array(self.starts[1:], np.int64), position)
        return namespace(position).searchsorted(starts, position, side="right")
