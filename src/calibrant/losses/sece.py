"""Smooth expected calibration error: the accuracy around each confidence, without bins."""

from jaxtyping import Float, Int
from torch import Tensor

from calibrant.losses.masking import keep
from calibrant.losses.pairwise import smooth_gap
from calibrant.losses.prediction import top_label

__all__ = ["sece"]


def sece(
    logits: Float[Tensor, "*batch classes"],
    labels: Int[Tensor, "*batch"],
    bandwidth: float = 0.01,
) -> Float[Tensor, ""]:
    r"""Smooth expected calibration error (regulariser alone).

    .. math:: R = \frac1n \sum_i |sACC_i - c_i|, \qquad sACC_i = \sum_j w_{ij} a_j, \qquad
        w_{ij} = \frac{\exp(-(c_i - c_j)^2 / 2h^2)}{\sum_m \exp(-(c_i - c_m)^2 / 2h^2)}

    c confidence, a 1 if right (a constant for the gradient). The gradient is that of the whole
    formula: through c_i as the target and through every weight w. With one example, or one far from
    all others, sACC_i = a_i.

    h (``bandwidth``) is 0.01 by default, about a seventh of one of ECE's 15 bins: the slides give
    none, and a kernel of ±2h then spans a little over half a bin, fine enough for the crowd near
    confidence 1. It is a choice, not a fit: with few examples per 0.01 of confidence, take it
    wider. Computed in O(n) time and memory, to float64 rounding (:mod:`.gauss_sums` has the bound).

    Not the SmoothECE of Błasiok & Nakkiran (2024), which smooths the residual and picks h itself.

    Reference: Wang & Golebiowski, Towards Unbiased Calibration using Meta-Regularization, TMLR
    2024.

    >>> import torch
    >>> sece(torch.tensor([[0.0, 0.0], [0.0, 0.0]]), torch.tensor([0, 0]))
    tensor(0.5000)
    """
    kept = keep(logits, labels)
    confidence, correct = top_label(kept)
    return smooth_gap(confidence, correct, kept.counted, bandwidth)
