"""What every predictor offers: inputs go in, predictions with honest confidence come out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from calibrant.calibrators import Calibrator, Identity
from calibrant.comparison.risk_control import Guarantee, guaranteed_threshold
from calibrant.errors import InputError
from calibrant.metrics import Confidences
from calibrant.policies import Policy, calibrator_fingerprint, load_policy
from calibrant.predictions import Predictions
from calibrant.tasks.evidence import write_calibration
from calibrant.tasks.scoring import Scorer

__all__ = [
    "Acceptance",
    "ModelPredictor",
    "Predictor",
    "check_top_k",
    "ranked",
    "unlabelled",
]


@dataclass(frozen=True)
class Acceptance:
    """Which predictions are accepted: from a confidence on, and by a policy where there is one.

    ``guarantee`` describes the threshold of a target risk.
    """

    least: float = 0.0
    guarantee: Guarantee | None = None
    policy: Policy | None = None

    def decide(self, confidence: np.ndarray, labels: Sequence[str] | None = None) -> np.ndarray:
        """Return which items are accepted; ``labels`` are the names of what was predicted."""
        # In float64, as validation: beside float32 confidences the threshold would be rounded.
        confidence = np.asarray(confidence, np.float64)
        accepted = confidence >= self.least
        if self.policy is not None and self.policy.kind == "target-risk":
            accepted &= self.policy.decide(confidence, labels)
        return accepted

    @property
    def decides(self) -> bool:
        """Whether predictions are accepted or not; a policy with a coverage makes sets instead."""
        return self.policy is None or self.policy.kind != "coverage" or self.least > 0

    def meaning(self) -> dict[str, Any] | None:
        """Return the promise behind it as data for JSON, if there is one."""
        if self.guarantee is not None:
            return {**vars(self.guarantee), "meaning": str(self.guarantee)}
        if self.policy is not None:
            # Not the whole policy, which may have hundreds of types: each line repeats this.
            names = ("kind", "target", "level", "calibrator", "model")
            known = {name: getattr(self.policy, name) for name in names}
            return {**known, "meaning": str(self.policy)}
        return None

    def describe(self) -> str | None:
        """Return the promise behind it in words."""
        found = self.policy if self.guarantee is None else self.guarantee
        return None if found is None else str(found)


class Predictor(ABC):
    """A trained model with everything that predicting needs; ``calibrant.load(PATH)`` returns one.

    ``scorer`` makes logits by torch or onnxruntime, ``calibrator`` makes probabilities of them, and
    ``model`` is the fingerprint of the weights, which policies are compared with.
    """

    unit: ClassVar[str] = "texts"  # What it takes, "texts" or "images".
    block: ClassVar[int] = 1024  # Inputs that are read, sorted by length and run together.
    finds_entities: ClassVar[bool] = False
    makes_masks: ClassVar[bool] = False
    labels: tuple[str, ...]
    calibrator: Calibrator
    scorer: Scorer
    model: str | None = None
    policies: Mapping[str, Policy]

    @abstractmethod
    def stream(self, inputs: Iterable[Any], **options: Any) -> Iterator[Any]:
        """Predict inputs as they arrive, ``block`` at a time, in order.

        Predictions do not depend on the process that makes them, if it gets whole blocks.
        """

    @abstractmethod
    def threshold(self, target_risk: float, level: float = 0.9) -> Guarantee:
        """Find the lowest confidence from which at most ``target_risk`` of predictions are wrong.

        It holds with probability ``level``, for inputs like those of the validation split: see
        :mod:`calibrant.comparison.risk_control`.
        """

    @abstractmethod
    def columns(self, top_k: int, accept: Acceptance) -> list[str]:
        """Return the columns of a table of predictions."""

    @abstractmethod
    def example(self, size: int = 2) -> dict[str, tuple[np.ndarray, tuple[int, ...]]]:
        """Return some inputs of the model by name, each with the axes whose length is free."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return what an export needs in addition to the files of :meth:`write_parts`."""

    @abstractmethod
    def write_parts(self, folder: Path) -> None:
        """Write labels, calibrators, evidence and the like, as the folder of a run has them."""

    def raw_predictions(
        self,
        inputs: Iterable[Any],  # noqa: ARG002
        *,
        tokens: bool = False,  # noqa: ARG002
    ) -> Iterator[Predictions]:
        """Yield the predictions of inputs before the calibrator, for ``adapt`` and ``watch``.

        Their labels mean nothing, as the group ``labelled`` says. ``tokens`` is that of entities.
        """
        raise InputError(
            f"{self.unit.capitalize()} cannot be read here for this kind of run: name a file of "
            "predictions, with the logits of the model, such as the run's test.parquet."
        )

    def expected_confidence(self) -> float | None:
        """Return the mean calibrated confidence of validation, which drift is compared with."""
        return None

    def acceptance(
        self,
        *,
        min_confidence: float = 0.0,
        target_risk: float | None = None,
        level: float = 0.9,
        policy: Policy | str | Path | None = None,
        accept: Acceptance | None = None,
        **options: Any,
    ) -> Acceptance:
        """Return which predictions are accepted; ``options`` are those of :meth:`threshold`.

        ``accept`` is the answer itself, of a caller that has asked before.
        """
        if accept is not None:
            return accept
        if not 0 <= min_confidence <= 1:
            raise InputError(f"A confidence must be in [0, 1], got {min_confidence}.")
        if policy is not None and target_risk is not None:
            raise InputError("Give a policy or a target risk, not both: each sets the threshold.")
        found = Acceptance(min_confidence)
        if target_risk is not None:
            guarantee = self.threshold(target_risk, level, **options)
            least = max(min_confidence, guarantee.threshold)
            return replace(found, least=least, guarantee=guarantee)
        if policy is not None:
            return replace(found, policy=self.checked_policy(policy, **options))
        return found

    def checked_policy(self, policy: Policy | str | Path, **options: Any) -> Policy:
        """Return the policy, if it was made for this model, label set and calibrator."""
        if not isinstance(policy, Policy):
            named = self.policies.get(str(policy))
            policy = load_policy(policy) if named is None else named
        self._check_policy(policy, **options)
        return policy

    def fingerprints(self, **options: Any) -> dict[str, str | None]:
        """Return the fingerprints of the model and the calibrator, which predictions depend on."""
        calibrator = calibrator_fingerprint(self._calibrator_of(**options))
        return {"model": self.model, "calibrator": calibrator}

    def _check_policy(self, policy: Policy, **options: Any) -> None:
        calibrator = self._calibrator_of(**options)
        made_for = calibrator_fingerprint(calibrator)
        policy.check(label_names=self.labels, calibrator=made_for, model=self.model)
        if policy.calibrator is None and calibrator.name != Identity.name:
            raise InputError(
                "This policy was made for predictions without a calibrator, and those of this "
                f"model are calibrated by {calibrator.name}: make one with 'calibrant guarantee "
                "RUN', or with the run's calibrator ('--calibrator')."
            )

    def _calibrator_of(self, **options: Any) -> Calibrator:  # noqa: ARG002
        return self.calibrator


class ModelPredictor(Predictor):
    """Predicts classes by one model and one calibrator: of whole inputs, or of pixels.

    ``about`` is what the model needs to know about its inputs, such as the size of images.
    """

    items: ClassVar[str] = ""  # What has one class: inputs, unless a subclass says "pixels".

    def __init__(
        self,
        scorer: Scorer,
        labels: Sequence[str],
        calibrator: Calibrator,
        evidence: Confidences,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self.scorer, self.labels, self.calibrator = scorer, tuple(labels), calibrator
        self.evidence, self.about, self.policies = evidence, about or {}, {}

    def __repr__(self) -> str:
        count, name = len(self.labels), self.calibrator.name
        return f"<{type(self).__name__} of {count} classes: {self.scorer!r}, calibrated by {name}>"

    def predict(
        self,
        inputs: Any,
        *,
        top_k: int = 1,
        min_confidence: float = 0.0,
        target_risk: float | None = None,
        level: float = 0.9,
        policy: Policy | str | Path | None = None,
    ) -> list[Any]:
        """Predict each input.

        ``top_k`` is the number of classes that are returned, the predicted one included. What is
        below ``min_confidence``, below the :meth:`threshold` of a ``target_risk``, or refused by a
        ``policy`` is not ``accepted``: inputs, or pixels of a mask.
        """
        return list(
            self.stream(
                self.as_inputs(inputs),
                top_k=top_k,
                min_confidence=min_confidence,
                target_risk=target_risk,
                level=level,
                policy=policy,
            )
        )

    def as_inputs(self, inputs: Any) -> Iterable[Any]:
        """Return the inputs one by one; a single one counts as a list of one."""
        return [inputs] if isinstance(inputs, str) else inputs

    def expected_confidence(self) -> float | None:
        """Return the mean calibrated confidence of validation."""
        return float(self.evidence.confidence.mean()) if len(self.evidence.confidence) else None

    def threshold(self, target_risk: float, level: float = 0.9) -> Guarantee:
        """Find the lowest confidence from which at most ``target_risk`` of it is wrong."""
        evidence = self.evidence
        found = guaranteed_threshold(
            evidence.confidence, evidence.correct, target_risk, level, groups=evidence.block
        )
        return replace(found, items=self.items or self.unit)

    def write_parts(self, folder: Path) -> None:
        """Write labels, calibrator and evidence, as the folder of a run has them."""
        write_calibration(folder, self.labels, self.calibrator, self.evidence)


def check_top_k(top_k: int) -> None:
    """Raise an error for a number of classes that cannot be returned."""
    if isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 1:
        raise InputError(f"top_k must be a whole number of at least 1, got {top_k!r}.")


def ranked(probabilities: np.ndarray, top_k: int) -> np.ndarray:
    """Return the numbers of the ``top_k`` most probable classes, the first of equal ones first.

    >>> ranked(np.array([[0.2, 0.4, 0.4]]), 2)
    array([[1, 2]])
    """
    if top_k == 1:
        return np.asarray(probabilities.argmax(axis=1)[:, None])
    return np.asarray(np.argsort(-probabilities, axis=1, kind="stable")[:, :top_k])


def unlabelled(
    logits: np.ndarray,
    signals: Mapping[str, np.ndarray],
    labels: Sequence[str],
    groups: Mapping[str, np.ndarray] | None = None,
) -> Predictions:
    """Return predictions whose true labels are unknown; they are set to the first."""
    nothing = np.zeros(len(logits), np.int64)
    return Predictions.from_logits(
        logits, nothing, label_names=labels, groups=groups, signals=signals
    )
