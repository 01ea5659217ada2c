"""The inputs of the calibration regularisers: confidence, correctness and uncertainty."""

from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from calibrant.errors import InputError
from calibrant.losses.masking import Kept

__all__ = ["TopLabel", "Uncertainty", "finite_log", "predicted", "top_label", "uncertainty"]

Uncertainty = Literal["entropy", "confidence"]


class TopLabel(NamedTuple):
    """The predicted class of each example."""

    confidence: Float[Tensor, " n"]
    """c = p of the predicted class; the gradient flows through it."""
    correct: Float[Tensor, " n"]
    """a = 1 if the prediction is the label, else 0; a constant; 0 without a label."""


def predicted(kept: Kept) -> tuple[Float[Tensor, " n"], Int[Tensor, " n"]]:
    """Return c = max_k p_k and ŷ = argmax_k l_k (of equal logits, the first)."""
    prediction = kept.logits.argmax(-1)
    probabilities = kept.logits.softmax(-1)
    return probabilities.gather(-1, prediction.unsqueeze(-1)).squeeze(-1), prediction


def top_label(kept: Kept) -> TopLabel:
    """Return c and a = 1[ŷ = y]."""
    confidence, prediction = predicted(kept)
    correct = (prediction == kept.labels) & kept.labelled
    return TopLabel(confidence, correct.to(confidence.dtype))


def finite_log(log_probabilities: Float[Tensor, "n classes"]) -> Float[Tensor, "n classes"]:
    """Make log-probabilities of −inf (classes masked by their logit) finite: 0·log 0 = 0."""
    return log_probabilities.clamp(min=torch.finfo(log_probabilities.dtype).min / 2)


def uncertainty(kept: Kept, kind: Uncertainty) -> Float[Tensor, " n"]:
    """Return the entropy −Σ_k p_k log p_k in nats, or 1 − c."""
    if kind == "entropy":
        log_probabilities = finite_log(kept.logits.log_softmax(-1))
        return -(log_probabilities.exp() * log_probabilities).sum(-1)
    if kind == "confidence":
        return 1 - top_label(kept).confidence
    raise InputError(f"uncertainty is 'entropy' or 'confidence' (1 − c); got {kind!r}.")
