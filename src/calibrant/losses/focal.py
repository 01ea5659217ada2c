"""Focal loss: less weight on examples that are already right."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from calibrant.errors import InputError
from calibrant.losses.masking import Kept, Reduction, flatten, keep, reduce

__all__ = ["flsd", "focal"]


def focal(
    logits: Float[Tensor, "*batch classes"],
    labels: Int[Tensor, "*batch"],
    gamma: float | Float[Tensor, "..."] = 3.0,
    *,
    reduction: Reduction = "mean",
) -> Float[Tensor, "..."]:
    r"""Cross-entropy weighted by how wrong the example still is.

    .. math:: L = \frac1n \sum_i -(1 - p_{i,y_i})^{\gamma_i} \log p_{i,y_i}

    γ = 3 by default, 0 is cross-entropy. ``gamma`` may be a tensor, one value or one for each
    label, and receives a gradient: γ-Net (Wang & Golebiowski, TMLR 2024) predicts it for each
    example.

    1 − p_y is taken from the logits of the other classes, not by subtraction, so value and gradient
    stay exact and finite when p_y rounds to 1, for any γ ≥ 0. Several public versions sum over the
    batch by default; this is the mean.

    Reference: Lin et al., ICCV 2017; Mukhoti et al., NeurIPS 2020.

    >>> focal(torch.tensor([[0.0, 0.0]]), torch.tensor([1]), gamma=2.0)  # 0.25 · log 2
    tensor(0.1733)
    """
    kept = keep(logits, labels)
    if isinstance(gamma, Tensor):
        if gamma.dim() > 0:
            gamma = flatten(gamma, labels, kept, "focal's gamma")
        gamma = gamma.to(kept.logits.dtype)
    elif gamma < 0:
        raise InputError(f"focal takes gamma of 0 or more; got {gamma}.")
    return reduce(_focal(kept, gamma), kept, labels, reduction)


def flsd(
    logits: Float[Tensor, "*batch classes"],
    labels: Int[Tensor, "*batch"],
    *,
    reduction: Reduction = "mean",
) -> Float[Tensor, "..."]:
    r"""Focal loss whose γ depends on the example (FLSD-53).

    .. math:: L = \frac1n \sum_i -(1 - p_{i,y_i})^{\gamma_i} \log p_{i,y_i}, \qquad
        \gamma_i = 5 \text{ if } p_{i,y_i} < 0.2 \text{ else } 3

    γ is a constant for the gradient.

    Reference: Mukhoti et al., Calibrating Deep Neural Networks using Focal Loss, NeurIPS 2020.

    >>> flsd(torch.tensor([[0.0, 0.0]]), torch.tensor([1]))  # p = 0.5, so γ = 3
    tensor(0.0866)
    """
    kept = keep(logits, labels)
    with torch.no_grad():
        at_label = kept.logits.softmax(-1).gather(-1, kept.labels.unsqueeze(-1)).squeeze(-1)
        gamma = torch.where(at_label < 0.2, 5.0, 3.0).to(kept.logits.dtype)
    return reduce(_focal(kept, gamma), kept, labels, reduction)


def _focal(kept: Kept, gamma: float | Tensor) -> Float[Tensor, " n"]:
    log_probabilities = kept.logits.log_softmax(-1)
    at_label = log_probabilities.gather(-1, kept.labels.unsqueeze(-1)).squeeze(-1)
    is_label = one_hot(kept.labels, kept.logits.shape[-1]).bool()
    # log(1 − p_y). Finite, not −inf, where there is no other class: 0 · inf would be NaN.
    nothing = torch.finfo(log_probabilities.dtype).min / 1e6
    log_rest = log_probabilities.masked_fill(is_label, nothing).logsumexp(-1)
    return -(gamma * log_rest).exp() * at_label
