"""Differentiable expected calibration error."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from calibrant.errors import InputError
from calibrant.losses.masking import Kept, keep
from calibrant.losses.prediction import top_label

__all__ = ["dece"]


def dece(
    logits: Float[Tensor, "*batch classes"],
    labels: Int[Tensor, "*batch"],
    bins: int = 15,
    *,
    bin_temperature: float = 0.01,
    rank_sharpness: float = 100.0,
    accuracy_gradient: bool = True,
) -> Float[Tensor, ""]:
    r"""Return the ECE with soft bins and a soft accuracy (regulariser alone).

    .. math:: R = \sum_b \frac{n_b}{n} |acc_b - conf_b|
              = \frac1n \sum_b \Bigl| \sum_i o_{ib} (\tilde a_i - c_i) \Bigr|

    - membership o_i = softmax over the bins b = 1 … M of (b·c_i − b(b−1)/2M) / t_b, which turns
      into equal-width bins as t_b (``bin_temperature``, 0.01) goes to 0;
    - soft accuracy ã_i = max(0, 2 − r_i) with the soft rank of the label
      r_i = 1 + Σ_{k≠y} σ(t_a (p_ik − p_iy)), t_a (``rank_sharpness``) = 100.

    ``accuracy_gradient=False`` takes ã as a constant, as SECE does; the value is the same.
    Otherwise a bin that is right more often than it says (ã > c) is also led to be right less
    often, and near a tie that slope, up to t_a / 4 for each class, is far steeper than that of c.

    M (``bins``) is 15. The bin sizes cancel, so an empty bin needs no care; the reference code adds
    1e-6 to each membership instead, which moves the value by about as much.

    Reference: Bohdal et al., Meta-Calibration, TMLR 2023.

    >>> logits = torch.tensor([[4.0, 0.0], [0.0, 4.0]])
    >>> dece(logits, torch.tensor([0, 0]))
    tensor(0.4820)
    """
    if bins < 1 or not bin_temperature > 0:
        raise InputError(
            "dece takes 1 bin or more and a bin_temperature above 0; "
            f"got {bins} and {bin_temperature}."
        )
    kept = keep(logits, labels)
    confidence = top_label(kept).confidence
    number = torch.arange(1, bins + 1, dtype=confidence.dtype, device=confidence.device)
    scores = number * confidence.unsqueeze(-1) - number * (number - 1) / (2 * bins)
    membership = (scores / bin_temperature).softmax(-1)
    accuracy = _soft_accuracy(kept, rank_sharpness)
    gap = ((accuracy if accuracy_gradient else accuracy.detach()) - confidence) * kept.weight
    return (membership * gap.unsqueeze(-1)).sum(0).abs().sum() / kept.total


def _soft_accuracy(kept: Kept, sharpness: float) -> Float[Tensor, " n"]:
    probabilities = kept.logits.softmax(-1)
    at_label = probabilities.gather(-1, kept.labels.unsqueeze(-1))
    beaten_by = torch.sigmoid(sharpness * (probabilities - at_label)).sum(-1)
    return (1.5 - beaten_by).relu()  # The sum holds σ(0) = ½ for the label itself.
