"""A calibrator that reads the confidence and signals of damage, for data unlike validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from calibrant.arrays import Array
from calibrant.calibrators.backend import line_sums, namespace, sigmoid, unmasked
from calibrant.calibrators.base import Calibrator, Fit
from calibrant.calibrators.scalar import with_confidence
from calibrant.calibrators.shift_fit import clean_temperature, fit_experts, fit_shares
from calibrant.calibrators.signals import (
    CORRUPTION,
    Top,
    claim_of,
    context_group,
    signal_columns,
    signal_names,
    top_of,
)
from calibrant.errors import InputError
from calibrant.predictions import Kind, Predictions

__all__ = ["ShiftAware"]

_BACKGROUND = "O"  # The tag of words outside of entities.
_NEAREST = 1e-6  # How near to 0 and 1 the confidence may come.


class ShiftAware(Calibrator):
    """log c' / (1 − c') = (1 − π(s)) (a₁(s) + g₁(z)) + π(s) (a₂(s) + g₂(z)).

    s are the *signals* of the example, and z is the log-odds of the confidence after a temperature
    T that is fitted on clean rows: with little evidence, the result stays near that temperature.
    Two curves describe examples like those of validation and damaged ones; π(s) in 0..1 says how
    damaged an example looks. g₁ and g₂ increase, so the result is monotone in the confidence where
    signals are equal. a₁, a₂ and the log-odds of π are sums of one piecewise linear function per
    signal, constant beyond the outer knots. The other classes share 1 − c' in
    proportion to powers of what they had, and the predicted class stays.

    Signals that follow from the scores are margin, entropy and whether the predicted tag is O.
    Others are the columns of ``Predictions.signals`` (``signals`` names some of them) and, with a
    group ``sentence``, ``image`` or ``batch``, means over it: of these columns, of the log-odds, of
    the share of confidences below 0.9; and its size. New predictions must have the same.

    Claims have one confidence each: z is its log-odds (T is 1, as no temperature moves it across
    one half), c' may be anything, and the signals are the given columns alone. So files of top
    labels and whole entities can use the calibrator.

    Fit it on validation predictions *and corrupted copies of them*: the group ``corruption`` holds
    the name of the corruption, an empty text for clean rows, and copies of a sentence keep its
    number. Without copies it learns nothing about damage. Clean rows count ``clean_weight``
    times as much as all copies together. Above ``rows`` examples, that many are drawn.

    >>> rng = np.random.default_rng(0)
    >>> hard = rng.integers(0, 2, 4000)  # A signal: half of the examples are harder than they look.
    >>> logits = np.stack([rng.uniform(0, 6, 4000), np.zeros(4000)], axis=1)
    >>> wrong = rng.random(4000) < np.where(hard, 0.4, 0.05)
    >>> p = Predictions.from_logits(logits, wrong.astype(int), signals={"hard": hard})
    >>> found = ShiftAware().fit(p).transform(p).scores[:, 0]
    >>> found[hard == 0].mean().round(2), found[hard == 1].mean().round(2)
    (np.float64(0.95), np.float64(0.6))
    """

    name = "shift-aware"
    takes: ClassVar[Kind] = "logits"
    gives: ClassVar[Kind] = "probabilities"
    keeps_argmax: ClassVar[bool] = True
    needs_copies: ClassVar[bool] = True
    takes_claims: ClassVar[bool] = True

    # Signal i is in segment j between its nodes; there, function k (a₁, a₂, π) is a line.
    nodes_: np.ndarray  # (signals, m)
    intercepts_: np.ndarray  # (3, signals, m + 1)
    slopes_: np.ndarray
    log_odds_nodes_: np.ndarray  # (1, m), and the lines of g₁ and g₂
    log_odds_intercepts_: np.ndarray
    log_odds_slopes_: np.ndarray
    share_exponents_: np.ndarray  # e₁ and e₂
    temperature_: float
    background_: int

    # Files of earlier versions have none: the other classes kept the shares of the raw scores, and
    # z was the log-odds of the raw confidence.
    added_later: ClassVar[Mapping[str, Any]] = {
        "share_exponents_": np.ones(2),
        "temperature_": np.ones(()),
    }

    def __init__(
        self,
        signals: Sequence[str] | None = None,
        clean_weight: float = 0.7,
        penalty: float = 8.0,
        rows: int = 1 << 17,
    ) -> None:
        if not clean_weight > 0 or not penalty > 0 or rows < 2:
            raise InputError(
                "ShiftAware expects clean_weight and penalty above 0 and rows of at least 2, got "
                f"{clean_weight}, {penalty} and {rows}."
            )
        self.signals = signals
        self.clean_weight = clean_weight
        self.penalty = penalty
        self.rows = rows

    @property
    def groups_(self) -> tuple[str, ...]:
        """The group of the context signals, if the calibrator reads any."""
        group = context_group(self.signals_)
        return () if group is None else (group,)

    def _fit(self, predictions: Predictions) -> Fit:
        names = signal_names(predictions, self.signals, context=not self.claims_)
        background = _background(predictions.label_names)
        beside = predictions.groups, predictions.signals
        columns = signal_columns("ShiftAware", names, predictions.scores, "logits", 0.0, *beside)
        is_clean = _is_clean(predictions)
        clean = predictions[is_clean] if is_clean.any() else predictions
        temperature = 1.0 if self.claims_ else clean_temperature(clean.scores, clean.labels)
        chosen = _sample(is_clean, self.rows)
        logits = unmasked(predictions.scores[chosen].astype(np.float64)) / temperature
        top, labels = self._top(logits), predictions.labels[chosen]
        signals = self._signals(top, [column[chosen] for column in columns.values()], background)
        right = (top.predicted == labels).astype(np.float64)
        weight = _weights(is_clean[chosen], self.clean_weight)
        learned = fit_experts(top.log_odds, np.stack(signals, 1), right, weight, self.penalty)
        gate = sigmoid(_evaluated("", learned, signals)[2])
        wrong = right < 1
        shares = self._shares(logits[wrong], labels[wrong], gate[wrong], weight[wrong])
        more = {"share_exponents_": shares, "temperature_": temperature, "background_": background}
        return Fit({**learned, **more}, signals=names)

    def _shares(
        self, logits: np.ndarray, labels: np.ndarray, gate: np.ndarray, weight: np.ndarray
    ) -> np.ndarray:
        """Return e₁ and e₂; of a claim, the other class has all that is left."""
        if self.claims_:
            return np.ones(2)
        return fit_shares(logits, labels, gate, weight, self.penalty)

    def _signal_columns(
        self, rows: Array, kind: Kind, groups: Mapping[str, Any], signals: Mapping[str, Any]
    ) -> dict[str, np.ndarray]:
        who = type(self).__name__
        return signal_columns(who, self.signals_, rows, kind, self.floor_, groups, signals)

    def _apply(self, scores: Array, values: Mapping[str, Any]) -> Array:
        xp = namespace(scores)
        top = self._top(scores / values["temperature_"])
        columns = [values[name] for name in self.signals_]
        signals = self._signals(top, columns, self.background_)
        first, second, damage = _evaluated("", values, signals)
        by_first, by_second = _evaluated("log_odds_", values, [top.log_odds])
        high, low, gate = first + by_first, second + by_second, sigmoid(damage)
        confidence = sigmoid(high + gate * (low - high))[..., None]
        confidence = xp.clip(confidence, _NEAREST, 1 - _NEAREST)
        if self.claims_:
            return xp.concatenate((1 - confidence, confidence), axis=-1)
        exponents = values["share_exponents_"]
        power = (exponents[0] + gate * (exponents[1] - exponents[0]))[..., None]
        before = xp.clip(xp.exp(power * top.below), values["floor_"], None)
        return with_confidence(before, top.predicted, confidence, keep=True)

    def _top(self, logits: Array) -> Top:
        return claim_of(logits) if self.claims_ else top_of(logits)

    def _signals(self, top: Top, columns: Sequence[Array], background: int) -> list[Array]:
        """Return all signals, each of shape (n,): there is at least one."""
        if self.claims_:  # Margin and entropy say no more than the confidence itself.
            return [*columns] or [0.0 * top.margin]
        is_background = namespace(top.margin).where(
            top.predicted == background, 1.0, 0.0 * top.margin
        )
        return [top.margin, top.entropy, is_background, *columns]


def _evaluated(prefix: str, values: Mapping[str, Any], columns: list[Array]) -> list[Array]:
    nodes, intercepts = values[f"{prefix}nodes_"], values[f"{prefix}intercepts_"]
    return line_sums(nodes, intercepts, values[f"{prefix}slopes_"], columns)


def _background(names: Sequence[str] | None) -> int:
    """Return the class of words outside of entities; −1 where there is none."""
    return list(names).index(_BACKGROUND) if names and _BACKGROUND in names else -1


def _is_clean(predictions: Predictions) -> np.ndarray:
    """Return whether each row is of validation itself, not of a corrupted copy."""
    if CORRUPTION not in predictions.groups:
        return np.ones(len(predictions), bool)
    return np.asarray(predictions.groups[CORRUPTION].astype(str) == "")


def _sample(is_clean: np.ndarray, most: int) -> np.ndarray | slice:
    """Draw rows where there are too many: half of them clean ones, if there are as many."""
    if len(is_clean) <= most:
        return slice(None)
    random = np.random.default_rng(0)
    clean, copies = (random.permutation(np.flatnonzero(part)) for part in (is_clean, ~is_clean))
    clean = clean[: max(most // 2, most - len(copies))]
    return np.sort(np.append(clean, copies[: most - len(clean)]))


def _weights(is_clean: np.ndarray, clean_weight: float) -> np.ndarray:
    """Weigh rows so that clean ones count ``clean_weight`` times as much as all copies."""
    count = int(is_clean.sum())
    copies = len(is_clean) - count
    if not count or not copies:
        return np.ones(len(is_clean))
    return np.where(is_clean, clean_weight * copies / count, 1.0)
