"""Differences between mean confidence and frequency in the batch."""

from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from calibrant.losses.masking import keep
from calibrant.losses.prediction import top_label

__all__ = ["dca", "mdca"]


def mdca(
    logits: Float[Tensor, "*batch classes"], labels: Int[Tensor, "*batch"]
) -> Float[Tensor, ""]:
    r"""Mean over classes of the gap between mean probability and frequency (regulariser alone).

    .. math:: R = \frac1K \sum_k \Bigl| \frac1n \sum_i p_{ik} - \frac1n \sum_i 1[y_i = k] \Bigr|

    Added to a task loss with weight λ, 1 by default in the method. Reference: Hebbalaguppe et al.,
    A Stitch in Time Saves Nine, CVPR 2022.

    >>> import torch
    >>> mdca(torch.zeros(2, 2), torch.tensor([1, 1]))
    tensor(0.5000)
    """
    kept = keep(logits, labels)
    occurs = one_hot(kept.labels, kept.logits.shape[-1]).to(kept.logits.dtype)
    gap = (kept.logits.softmax(-1) - occurs) * kept.weight.unsqueeze(-1)
    return (gap.sum(0) / kept.total).abs().mean()


def dca(
    logits: Float[Tensor, "*batch classes"], labels: Int[Tensor, "*batch"]
) -> Float[Tensor, ""]:
    r"""Gap between mean confidence and accuracy of the batch (regulariser alone).

    .. math:: R = \Bigl| \frac1n \sum_i c_i - \frac1n \sum_i a_i \Bigr|

    a is a constant for the gradient. Reference: Liang et al., Improved Trainable Calibration Method
    for Neural Networks on Medical Imaging Classification, BMVC 2020; its code uses the mean
    probability of the true class in place of the confidence.

    >>> import torch
    >>> dca(torch.zeros(2, 2), torch.tensor([1, 1]))
    tensor(0.5000)
    """
    kept = keep(logits, labels)
    confidence, correct = top_label(kept)
    return kept.mean(confidence - correct).abs()
