"""The confidence of an entity, learned from what any tool says of it: score, type and length."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.calibrators import Calibrator
from calibrant.calibrators.logistic import logistic_regression
from calibrant.calibrators.saving import from_dict, to_dict
from calibrant.entities.dialects import parse_document
from calibrant.entities.document import Document
from calibrant.entities.entity_claims import claims_of, unjudged_claims
from calibrant.entities.matching import EntityColumns, Match, MatchedEntities, columns_of
from calibrant.errors import InputError, NotFittedError
from calibrant.inputs import read_json, read_signed
from calibrant.json_values import json_values
from calibrant.outputs import new_file

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["EntityCalibrator", "is_entity_calibrator", "load_entity_calibrator"]

FORMAT, _OWN = 2, 1  # With another calibrator of scores, and without, as before.
_SIGNATURE = "calibrant entity calibrator"
_FLOOR = 1e-7  # Scores of 0 and 1 count as this far from them: the least step of float32 below 1.
_FOLDS = 5
_SHRINKAGE = (1.0, 4.0, 16.0, 64.0, 1e6)  # Strengths to choose from; the last switches types off.
_WEAK = 1.0  # The weight of the start, identity, against the data: one entity.
_SHARED = 5  # log s, −log(1 − s), 1, length, length²
_IDENTITY = np.array([1.0, 1.0, 0.0, 0.0, 0.0])
_LARGEST = 1e6  # No learned number is so large.


class EntityCalibrator:
    """P(an entity is right) = σ(a log s − b log(1 − s) + c + d₁ l + d₂ l² + u_type).

    s is the tool's score and l the logarithm of the number of characters, standardised and not
    beyond what was seen. With a, b ≥ 0 the confidence never decreases with the score, as in beta
    calibration (Kull, Silva Filho & Flach 2017), from which the first terms come. The effects of
    types are shrunk towards 0, ½ λ Σ u², so that a rare type stays near all others; λ has the
    least log-loss in cross-validation over documents. A type that was not seen has u = 0. Targets
    are Platt's, so that no confidence is 0 or 1. Where a tool gives no scores, type and length
    alone are used.

    ``of_scores`` is another calibrator to use instead, such as ``Isotonic``: it learns from the
    claims "this entity is right", each with its score.

    >>> from calibrant.entities import Entity, match_entities
    >>> predicted = [Document((Entity(0, 4, "PER", 0.99),)) for _ in range(40)]
    >>> gold = [Document((Entity(0, 4 + i % 2, "PER"),)) for i in range(40)]
    >>> fitted = EntityCalibrator().fit(match_entities(predicted, gold))
    >>> fitted.confidence(predicted[0].entities).round(1)
    array([0.5])
    """

    weights_: np.ndarray  # a, b, c, d₁, d₂
    types_: dict[str, float]
    shrinkage_: float
    length_: tuple[float, float, float, float]  # mean, deviation, least and most of log length
    scored_: bool
    match_: Match
    renamed_: dict[str, str | None]  # types of the tool that gold calls otherwise, or leaves out
    fitted_on_: dict[str, Any]

    def __init__(self, shrinkage: float | None = None, of_scores: Calibrator | None = None) -> None:
        if shrinkage is not None and not (np.isfinite(shrinkage) and shrinkage > 0):
            raise InputError(f"The shrinkage of types is a number above 0, got {shrinkage}.")
        self.shrinkage, self.of_scores = shrinkage, of_scores

    def fit(self, matched: MatchedEntities, match: Match = "strict") -> Self:
        """Learn from predicted entities and which of them are right, strictly or overlapping."""
        right, columns = matched.right[match], matched.predicted
        documents = matched.predicted_document
        if len(np.unique(documents)) < 2:
            raise InputError(
                f"Confidences are learned from entities of at least 2 documents, got "
                f"{len(columns)} of {len(np.unique(documents))}."
            )
        self.scored_, self.match_, self.renamed_ = matched.scored, match, dict(matched.renamed)
        self.length_ = _length_scale(columns.length)
        self.types_ = dict.fromkeys(sorted(set(columns.type.tolist())), 0.0)
        if self.of_scores is None:
            features = self._features(columns)
            self.shrinkage_ = self.shrinkage or self._choose(features, right, documents)
            self._set(_solve(features, right, self.shrinkage_, self.scored_))
        else:
            self.of_scores.fit(claims_of(matched, match))
            self.weights_, self.shrinkage_ = _IDENTITY, _SHRINKAGE[-1]
        self.fitted_on_ = {
            "documents": matched.documents,
            "entities": len(columns),
            "right": int(right.sum()),
            "types": {name: int((columns.type == name).sum()) for name in self.types_},
            "nll_before": _nll(columns.score, right) if self.scored_ else None,
            "nll_after": _nll(self._mapped(columns), right),
        }
        return self

    def confidence(self, entities: Sequence[Any] | EntityColumns) -> np.ndarray:
        """Return the confidence of each entity."""
        if not hasattr(self, "weights_"):
            raise NotFittedError("EntityCalibrator is not fitted: call fit(matched) first.")
        columns = entities if isinstance(entities, EntityColumns) else columns_of(entities)
        if self.scored_ and np.isnan(columns.score).any():
            raise InputError("This calibrator was fitted with scores, and an entity has none.")
        return self._mapped(columns)

    def transform(self, matched: MatchedEntities) -> MatchedEntities:
        """Return the same entities with the learned confidences as their scores."""
        score = self.confidence(matched.predicted)
        return replace(matched, predicted=replace(matched.predicted, score=score))

    def rescore(self, output: Any) -> Any:
        """Return a copy of a tool's output, as it is, with the learned confidences as scores.

        ``output`` is that of one text or a list with that of each text. A type that was not seen
        in ``fit`` gets the confidence of all types together.
        """
        new = copy.deepcopy(output)
        several = isinstance(new, list) and bool(new) and isinstance(new[0], list)
        for number, each in enumerate(new if several else [new], start=1):
            parsed = parse_document(each, f"output {number}")
            parsed.write(self.confidence(parsed.document.entities).tolist())
        return new

    def unknown_types(self, documents: Sequence[Document]) -> list[str]:
        """Return the types of the documents that were not seen in ``fit``."""
        found = {entity.type for document in documents for entity in document.entities}
        return sorted(found - self.types_.keys() - self.renamed_.keys())

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the calibrator as one small JSON file."""
        if Path(path).suffix != ".json":
            raise InputError(f"{path}: an entity calibrator is saved as .json.")
        from calibrant import __version__

        content = {
            "signature": _SIGNATURE,
            "format": _OWN,
            "version": __version__,
            "match": self.match_,
            "scored": self.scored_,
            "shrinkage": self.shrinkage_,
            "weights": self.weights_.tolist(),
            "length": list(self.length_),
            "types": self.types_,
            "renamed": self.renamed_,
            "fitted_on": json_values(
                self.fitted_on_
            ),  # A wrong entity of score 1: an infinite NLL.
        }
        if self.of_scores is not None:
            content |= {"format": FORMAT, "of_scores": to_dict(self.of_scores)}
        with new_file(path, overwrite=overwrite) as unfinished:
            unfinished.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")

    def __repr__(self) -> str:
        if not hasattr(self, "weights_"):
            return "EntityCalibrator(not fitted)"
        if self.of_scores is not None:
            return f"<EntityCalibrator by the score alone: {self.of_scores!r}>"
        a, b, c = self.weights_[:3]
        return (
            f"<EntityCalibrator of {len(self.types_)} types, fitted on "
            f"{self.fitted_on_['entities']:,} entities: {a:.2f} log s − {b:.2f} log(1 − s) "
            f"{c:+.2f}>"
        )

    def _mapped(self, columns: EntityColumns) -> np.ndarray:
        if self.of_scores is not None:
            kinds = [str(self.renamed_.get(name, name)) for name in columns.type]
            named = replace(columns, type=np.array(kinds, object))
            return np.asarray(self.of_scores.transform(unjudged_claims(named)).confidence)
        features, kind = self._features(columns)
        effects = np.array([*self.types_.values(), 0.0])  # The last one: types that are not known.
        linear = features @ self.weights_ + effects[kind]
        return np.asarray(1 / (1 + np.exp(-np.clip(linear, -700, 700))))

    def _features(self, columns: EntityColumns) -> tuple[np.ndarray, np.ndarray]:
        """Return the shared features, (n, 5), and the number of each entity's type."""
        mean, deviation, least, most = self.length_
        length = (np.clip(np.log(np.maximum(columns.length, 1)), least, most) - mean) / deviation
        score = np.clip(columns.score if self.scored_ else 0.5, _FLOOR, 1 - _FLOOR)
        shared = [np.log(score), -np.log1p(-score), 1.0, length, np.square(length)]
        place = {name: i for i, name in enumerate(self.types_)}
        names = [self.renamed_.get(name, name) for name in columns.type]
        kind = np.array([place.get(str(name), len(place)) for name in names], np.int64)
        return np.stack([np.broadcast_to(f, len(columns)) for f in shared], axis=1), kind

    def _choose(
        self, features: tuple[np.ndarray, np.ndarray], right: np.ndarray, documents: np.ndarray
    ) -> float:
        """Return the strength of shrinkage that predicts documents which were held out best."""
        order = np.random.default_rng(0).permutation(int(documents.max()) + 1)
        fold = order[documents] % _FOLDS
        losses = dict.fromkeys(_SHRINKAGE, 0.0)
        for held in np.unique(fold):
            out = fold == held
            if out.all() or not out.any():
                continue
            train = features[0][~out], features[1][~out]
            for strength in _SHRINKAGE:
                theta = _solve(train, right[~out], strength, self.scored_, len(self.types_))
                linear = features[0][out] @ theta[:_SHARED] + theta[_SHARED:][features[1][out]]
                losses[strength] += float((np.logaddexp(0, linear) - right[out] * linear).sum())
        return min(losses, key=losses.__getitem__)

    def _set(self, theta: np.ndarray) -> None:
        self.weights_ = theta[:_SHARED]
        self.types_ = dict(zip(self.types_, theta[_SHARED:].tolist(), strict=True))


def _solve(
    features: tuple[np.ndarray, np.ndarray],
    right: np.ndarray,
    shrinkage: float,
    scored: bool,
    types: int | None = None,
) -> np.ndarray:
    """Return the weights of the shared features, a and b not negative, and of each type."""
    shared, kind = features
    types = int(kind.max()) + 1 if types is None else types
    x = np.concatenate([shared, np.eye(types)[kind]], axis=1)
    n, positive = len(right), int(right.sum())
    target = np.where(right, (positive + 1) / (positive + 2), 1 / (n - positive + 2))
    prior = np.zeros(x.shape[1])
    prior[:2] = 1.0 if scored else 0.0
    ridge = np.array([_WEAK] * _SHARED + [shrinkage] * types) / n
    used = np.ones(x.shape[1], bool)
    used[:2] = scored
    theta = np.zeros(x.shape[1])
    while True:
        theta[:] = 0.0
        theta[used] = logistic_regression(x[:, used], target, prior[used], ridge[used])
        negative = used & (theta < 0) & (np.arange(len(theta)) < 2)
        if not negative.any():
            return theta
        used[np.argmin(np.where(negative, theta, 0.0))] = False


def _length_scale(length: np.ndarray) -> tuple[float, float, float, float]:
    """Return mean, deviation, least and most of the logarithm of the lengths."""
    logs = np.log(length)
    return float(logs.mean()), float(logs.std()) or 1.0, float(logs.min()), float(logs.max())


def _nll(confidence: np.ndarray, right: np.ndarray) -> float:
    with np.errstate(divide="ignore"):
        return float(-np.log(np.where(right, confidence, 1 - confidence)).mean())


def is_entity_calibrator(path: str | Path) -> bool:
    """Return whether a file is a saved :class:`EntityCalibrator`."""
    path = Path(path)
    if path.suffix != ".json" or not path.is_file():
        return False
    try:
        content = read_json(path, "")
    except InputError:
        return False
    return isinstance(content, dict) and content.get("signature") == _SIGNATURE


def load_entity_calibrator(path: str | Path) -> EntityCalibrator:
    """Read what :meth:`EntityCalibrator.save` wrote.

    >>> from tempfile import TemporaryDirectory
    >>> from calibrant.entities import Entity, match_entities
    >>> predicted = [Document((Entity(0, 4, "PER", 0.99),)) for _ in range(40)]
    >>> gold = [Document((Entity(0, 4 + i % 2, "PER"),)) for i in range(40)]
    >>> with TemporaryDirectory() as folder:
    ...     EntityCalibrator().fit(match_entities(predicted, gold)).save(f"{folder}/c.json")
    ...     load_entity_calibrator(f"{folder}/c.json").confidence(predicted[0].entities).round(1)
    array([0.5])
    """
    damage = "this is not an entity calibrator; 'calibrant fit --entities' saves one"
    content = read_signed(path, damage, _SIGNATURE, FORMAT, _OWN)
    try:
        return _rebuilt(content)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path} is damaged: {type(error).__name__} {error}.") from None


def _rebuilt(content: Mapping[str, Any]) -> EntityCalibrator:
    made = EntityCalibrator()
    made.weights_ = _numbers(content["weights"], _SHARED)
    length = _numbers(content["length"], 4)
    made.length_ = tuple(length.tolist())
    made.types_ = dict(
        zip(content["types"], _numbers(list(content["types"].values())), strict=True)
    )
    made.shrinkage_, made.scored_ = float(content["shrinkage"]), bool(content["scored"])
    if content["match"] not in ("strict", "overlapping"):
        raise ValueError(f"unknown match '{content['match']}'")
    made.match_, made.fitted_on_ = content["match"], dict(content["fitted_on"])
    if (before := made.fitted_on_.get("nll_before")) is not None:
        made.fitted_on_["nll_before"] = float(before)
    made.renamed_ = dict(content["renamed"])
    if "of_scores" in content:
        made.of_scores = from_dict(content["of_scores"], "its calibrator of scores")
    if made.length_[1] <= 0 or (made.weights_[:2] < 0).any():
        raise ValueError("its numbers cannot come from fit")
    return made


def _numbers(values: Any, count: int | None = None) -> np.ndarray:
    found = np.array(values, np.float64)
    if found.ndim != 1 or (count is not None and len(found) != count):
        raise ValueError(f"expected a list of {count} numbers")
    if not (np.abs(found) < _LARGEST).all():
        raise ValueError("a value is too large, or not a number")
    return found
