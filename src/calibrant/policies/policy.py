"""A policy: what was learned on validation data, and what it promises, as data in one JSON file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.arguments import check_kind
from calibrant.arrays import to_numpy
from calibrant.claims import Claims
from calibrant.errors import InputError, unknown_name
from calibrant.inputs import door, parse_json
from calibrant.json_values import json_values
from calibrant.metrics.confidences import top_label
from calibrant.metrics.entities import span_confidence
from calibrant.metrics.spans import Tagging
from calibrant.metrics.tags import TagSet, is_bio
from calibrant.outputs import new_file
from calibrant.policies.conformal import prediction_sets
from calibrant.predictions import Predictions

__all__ = ["ALL", "COVERAGE", "FORMAT", "MAX_MISSED", "TARGET_RISK", "Policy", "load_policy"]

FORMAT = 1  # Readers know every format up to this one.
ALL = "*"  # The key of a threshold that holds for every type.
TARGET_RISK, MAX_MISSED, COVERAGE = "target-risk", "max-missed", "coverage"
_SIGNATURE = "calibrant policy"


@dataclass(frozen=True, eq=False)
class Policy:
    """A rule with a promise: which predictions to accept, to review, or which set to return.

    ``kind`` is ``"target-risk"`` (accept from a confidence on), ``"max-missed"`` (send words to
    review) or ``"coverage"`` (prediction sets). ``thresholds`` has one number for each type, or one
    under ``"*"``; infinity accepts nothing. ``items`` says what is decided about, "rows",
    "labels" (of many for each row) or "entities", and ``reduction`` how the words of an entity make
    its confidence (None where the caller has the confidence of entities). ``unit`` names the group
    that is drawn independently; ``average`` "groups" means that a target risk is averaged over
    these groups, not over rows. ``target`` and ``level`` are the promise in numbers and ``promise``
    is the same in words; a level of None means that it holds on average. ``n``, ``units`` and
    ``kept`` describe the validation data; ``kept`` is the share that is accepted, of
    ``"max-missed"`` the share that is reviewed, of ``"coverage"`` the share of sets with one class.
    ``label_names`` and the fingerprints ``calibrator`` and ``model`` say what the policy was
    learned for; :meth:`check` compares them. ``classes`` is 0 where predictions had one confidence
    each.

    >>> policy = Policy("target-risk", 0.05, {"*": 0.8}, classes=2, n=100, kept=0.9)
    >>> policy.decide([0.7, 0.8])
    array([False,  True])
    """

    kind: str
    target: float
    thresholds: Mapping[str, float]
    classes: int
    n: int
    kept: float
    level: float | None = None
    items: str = "rows"
    reduction: str | None = None
    label_names: tuple[str, ...] | None = None
    unit: str | None = None
    units: int = 0
    average: str = "rows"
    calibrator: str | None = None
    model: str | None = None
    review: Mapping[str, Any] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    promise: str = ""

    def __str__(self) -> str:
        return self.promise

    def decide(self, source: Predictions | Claims | Any, labels: Any = None) -> np.ndarray:
        """Return which items to accept, as an array of truth values.

        ``source`` is predictions, or an array of confidences with ``labels``: for each item the
        name of its predicted class or entity type, or the number of its class. Labels are needed
        only where every type has its own threshold. With predictions of BIO tags and a policy
        of entities, there is one answer for each predicted entity, in reading order.
        """
        if self.kind != TARGET_RISK:
            way = "sets" if self.kind == COVERAGE else "to_review"
            raise InputError(
                f"This policy was made with --{self.kind} and does not accept rows: call "
                f"policy.{way}(predictions), or make one with --target-risk."
            )
        if isinstance(source, Claims):
            confidence, labels = top_label(source)[0], source.text("about")
            self._check_occurring(labels)
        elif isinstance(source, Predictions):
            confidence, labels = self._of_predictions(source)
        else:
            confidence = _confidences(source)
        return np.asarray(confidence >= self._least(len(confidence), labels))

    def sets(self, predictions: Predictions) -> np.ndarray:
        """Return the prediction set of each row, as truth values of shape (n, classes).

        The set of a row does not depend on the others, also where sets are randomised.
        """
        if self.kind != COVERAGE:
            raise InputError(
                f"This policy was made with --{self.kind}: prediction sets need one that "
                "'calibrant guarantee --coverage' made."
            )
        self.check_predictions(predictions)
        per_class = [self.thresholds.get(n, self.thresholds.get(ALL)) for n in predictions.names]
        return prediction_sets(predictions, np.array(per_class, np.float64), **self.settings)

    def to_review(self, predictions: Predictions, accepted: np.ndarray | None = None) -> np.ndarray:
        """Return which words to send to review, (n,): P(not O) reaches the threshold of review.

        Words of an accepted entity are not reviewed. ``accepted`` says which of the predicted
        entities are, in reading order, for a policy that needs the confidences of a run.
        """
        if self.review is None:
            raise InputError(
                "This policy sends nothing to review: make one with 'calibrant guarantee "
                "--max-missed'."
            )
        self.check_predictions(predictions)
        flagged = entity_mass(predictions) >= float(self.review["threshold"])
        if self.kind == TARGET_RISK:
            spans = Tagging(predictions).predicted
            accepted = self.decide(predictions) if accepted is None else accepted
            for start, end in zip(spans.start[accepted], spans.end[accepted], strict=True):
                flagged[start:end] = False
        return flagged

    def check(
        self,
        *,
        label_names: Sequence[str] | None = None,
        calibrator: str | None = None,
        model: str | None = None,
    ) -> None:
        """Raise an error if the policy was learned for other labels, calibrator or model.

        Pass what is known of the predictor; ``calibrator`` and ``model`` are fingerprints. What the
        policy or the caller does not know is not compared.
        """
        if label_names and self.label_names and not self._same_labels(tuple(label_names)):
            raise InputError(
                f"This policy was made for the labels {_listed(self.label_names)}, got "
                f"{_listed(label_names)}: {_AGAIN}"
            )
        for what, own, given in (
            ("calibrator", self.calibrator, calibrator),
            ("model", self.model, model),
        ):
            if own is not None and given is not None and own != given:
                raise InputError(f"This policy was made for another {what}: {_AGAIN}")

    def _same_labels(self, names: tuple[str, ...]) -> bool:
        """Return whether the label set is the same; of claims, all that occurred must be in it."""
        known = self.label_names or ()
        return names == known or (not self.classes and set(known) <= set(names))

    def _check_occurring(self, labels: np.ndarray | None) -> None:
        """Refuse predicted labels that validation never had: they are of another label set."""
        if labels is None or not self.label_names:
            return
        if strange := sorted(set(labels.tolist()) - set(self.label_names)):
            raise InputError(
                f"Unknown type of this policy: '{strange[0]}'; it was made for the labels "
                f"{_listed(self.label_names)}: {_AGAIN}"
            )

    def check_predictions(self, predictions: Predictions) -> None:
        """Raise an error where the policy was made for other classes than ``predictions`` has."""
        check_kind("This policy", predictions, Predictions)
        if self.classes and predictions.classes != self.classes:
            raise InputError(
                f"This policy was made for {self.classes} classes, got {predictions.classes}: "
                f"{_AGAIN}"
            )
        self.check(label_names=predictions.label_names)

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the policy as JSON, atomically; an existing file is kept unless ``overwrite``."""
        if Path(path).suffix != ".json":
            raise InputError(f"{path}: a policy is saved as .json, got '{Path(path).suffix}'.")
        with new_file(path, overwrite=overwrite) as unfinished:
            unfinished.write_text(json.dumps(self.to_dict(), indent=1) + "\n", encoding="utf-8")

    def to_dict(self) -> dict[str, Any]:
        """Return the policy as data for JSON."""
        from calibrant import __version__

        header = {"signature": _SIGNATURE, "format": FORMAT, "version": __version__}
        return {**header, **json_values(asdict(self))}

    def _of_predictions(self, predictions: Predictions) -> tuple[np.ndarray, np.ndarray]:
        """Return the confidence and the number of the type of each item."""
        self.check_predictions(predictions)
        if self.items != "entities":
            confidence, predicted, _ = top_label(predictions)
            return confidence, predicted
        if self.reduction is None:
            raise InputError(
                "This policy is about entities whose confidence a run has learned: apply it with "
                "'calibrant predict --policy', or pass their confidences to policy.decide."
            )
        tagging = Tagging(predictions)
        spans, reduction = tagging.predicted, self.reduction
        return span_confidence(spans, tagging.top[0], reduction), spans.type  # type: ignore[arg-type]

    @property
    def types(self) -> tuple[str, ...]:
        """The names that labels may have: classes, or types of entities."""
        if self.items == "entities" and is_bio(self.label_names):
            return TagSet.of(self.label_names).types
        return self.label_names or tuple(str(k) for k in range(self.classes))

    def _least(self, n: int, labels: Any) -> np.ndarray | float:
        """Return the threshold of each item."""
        if ALL in self.thresholds:
            return float(self.thresholds[ALL])
        if labels is None:
            raise InputError(
                "This policy has a threshold for each type: pass the predicted label of each item, "
                "policy.decide(confidence, labels)."
            )
        each = labels.tolist() if hasattr(labels, "tolist") else list(labels)
        names = [self._name(label) for label in each]
        if len(names) != n:
            raise InputError(f"Expected one label for each of {n} items, got {len(names)}.")
        # A type without validation examples has no promise: nothing of it is accepted.
        return np.array([self.thresholds.get(name, math.inf) for name in names], np.float64)

    def _name(self, label: Any) -> str:
        if isinstance(label, int) and 0 <= label < len(self.types):
            return self.types[label]
        if label not in self.types:
            raise unknown_name("type of this policy:", str(label), self.types)
        return str(label)


_AGAIN = "run 'calibrant guarantee' on validation predictions of the one in use."


def entity_mass(predictions: Predictions) -> np.ndarray:
    """Return 1 − P(O) of each word.

    >>> p = Predictions.from_probabilities([[0.7, 0.2, 0.1]], [0], label_names=["O", "B-X", "I-X"])
    >>> entity_mass(p).round(3)
    array([0.3])
    """
    outside = TagSet.of(predictions.label_names).type < 0
    scores = np.asarray(to_numpy(predictions.probabilities()), np.float64)
    return np.asarray(scores[:, ~outside].sum(axis=1))


def load_policy(path: str | Path) -> Policy:
    """Read a policy that :meth:`Policy.save` wrote, in this or an earlier version.

    >>> from tempfile import TemporaryDirectory
    >>> policy = Policy("target-risk", 0.05, {"*": 0.8}, classes=2, n=100, kept=0.9)
    >>> with TemporaryDirectory() as folder:
    ...     policy.save(f"{folder}/policy.json")
    ...     load_policy(f"{folder}/policy.json").thresholds
    {'*': 0.8}
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"There is no policy at {path}: 'calibrant guarantee -o FILE' makes one.")
    with door(path, "this is not a policy saved by calibrant"):
        content = parse_json(path.read_text(encoding="utf-8"))
        return _rebuilt(content, path)


def _rebuilt(content: Any, path: Path) -> Policy:
    if not isinstance(content, dict) or content.get("signature") != _SIGNATURE:
        raise InputError(
            f"{path} is not a policy saved by calibrant: 'calibrant guarantee -o FILE' makes one."
        )
    if not 1 <= int(content["format"]) <= FORMAT:
        raise InputError(
            f"{path} has format {content['format']}, written by calibrant {content['version']}; "
            f"this version reads up to format {FORMAT}: upgrade calibrant."
        )
    known = {f.name for f in fields(Policy)}
    values = {name: value for name, value in content.items() if name in known}
    values["thresholds"] = {k: float(v) for k, v in values["thresholds"].items()}
    if values["kind"] not in (TARGET_RISK, MAX_MISSED, COVERAGE):
        raise ValueError(f"unknown kind {values['kind']!r}")
    if any(math.isnan(value) for value in values["thresholds"].values()):
        raise ValueError("a threshold is not a number")
    names = values.get("label_names")
    values["label_names"] = None if names is None else tuple(map(str, names))
    return Policy(**values)


def _confidences(source: Any) -> np.ndarray:
    array = np.asarray(to_numpy(source))
    if array.dtype.kind not in "fiub":
        raise InputError(
            f"A policy decides about predictions or confidences (n,), got {array.dtype} values."
        )
    confidence = array.astype(np.float64)
    if confidence.ndim != 1:
        raise InputError(f"A policy decides about confidences (n,), got {confidence.shape}.")
    if not (abs(confidence - 0.5) <= 0.5 + 1e-6).all():  # Also false for NaN.
        row = int(np.flatnonzero(~(abs(confidence - 0.5) <= 0.5 + 1e-6))[0])
        raise InputError(
            f"Confidences must be in [0, 1]; item {row} has {confidence[row]}: pass probabilities."
        )
    return confidence


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(list(names)[:5])
    return f"{shown}, … ({len(names)})" if len(names) > 5 else shown
