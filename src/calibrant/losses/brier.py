"""The Brier score as a loss (squared error of the probabilities)."""

from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from calibrant.losses.masking import Reduction, keep, reduce

__all__ = ["mse"]


def mse(
    logits: Float[Tensor, "*batch classes"],
    labels: Int[Tensor, "*batch"],
    *,
    reduction: Reduction = "mean",
) -> Float[Tensor, "..."]:
    r"""Squared error between the probabilities and the one-hot label (Brier score, range 0 … 2).

    .. math:: L = \frac1n \sum_i \sum_k (p_{ik} - 1[y_i = k])^2

    Summed over the classes, then the mean over kept examples. The gradient-accumulation paper
    (Jouet et al., IJCNN 2022) writes its task loss so; its code trains with :func:`cross_entropy`.
    ``torch.nn.MSELoss`` on probabilities also divides by K.

    Reference: G. Brier, Verification of forecasts expressed in terms of probability, 1950.

    >>> import torch
    >>> mse(torch.tensor([[0.0, 0.0]]), torch.tensor([1]))
    tensor(0.5000)
    """
    kept = keep(logits, labels)
    target = one_hot(kept.labels, kept.logits.shape[-1]).to(kept.logits.dtype)
    values = (kept.logits.softmax(-1) - target).square().sum(-1)
    return reduce(values, kept, labels, reduction)
