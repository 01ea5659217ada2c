"""Cross-entropy with a penalty on confidence."""

from jaxtyping import Float, Int
from torch import Tensor

from calibrant.losses.masking import Reduction, keep, reduce
from calibrant.losses.prediction import finite_log

__all__ = ["entropy_penalty"]


def entropy_penalty(
    logits: Float[Tensor, "*batch classes"],
    labels: Int[Tensor, "*batch"],
    weight: float = 0.1,
    *,
    reduction: Reduction = "mean",
) -> Float[Tensor, "..."]:
    r"""Cross-entropy plus λ times the negative entropy (explicit confidence penalty, ECP; ERL).

    .. math:: L = \frac1n \sum_i \Bigl(-\log p_{i,y_i} + \lambda \sum_k p_{ik} \log p_{ik}\Bigr)

    λ (``weight``) 0.1 by default; the entropy is in nats, summed over the classes. The loss can be
    negative. One public version has the sign wrong (it rewards confidence) and one divides
    the entropy by K.

    Reference: Pereyra et al., Regularizing Neural Networks by Penalizing Confident Output
    Distributions, 2017.

    >>> import torch
    >>> entropy_penalty(torch.tensor([[0.0, 0.0]]), torch.tensor([1]))  # 0.9 · log 2
    tensor(0.6238)
    """
    kept = keep(logits, labels)
    log_probabilities = kept.logits.log_softmax(-1)
    at_label = log_probabilities.gather(-1, kept.labels.unsqueeze(-1)).squeeze(-1)
    finite = finite_log(log_probabilities)
    values = -at_label + weight * (finite.exp() * finite).sum(-1)
    return reduce(values, kept, labels, reduction)
