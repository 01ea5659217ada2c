"""Cross-entropy against a class, and against a distribution over classes."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from calibrant.errors import InputError
from calibrant.losses.masking import Reduction, keep, reduce
from calibrant.losses.prediction import finite_log

__all__ = ["cross_entropy", "soft_cross_entropy"]


def cross_entropy(
    logits: Float[Tensor, "*batch classes"],
    labels: Int[Tensor, "*batch"],
    *,
    reduction: Reduction = "mean",
) -> Float[Tensor, "..."]:
    r"""Return the negative log-likelihood of the label.

    .. math:: L = \frac1n \sum_i -\log p_{i,y_i}

    with p = softmax(l) and n the number of kept examples (label not −100). Equal to
    ``torch.nn.functional.cross_entropy``, except that a batch with nothing to keep gives 0, not
    NaN.

    Reference: I. J. Good, Rational decisions, 1952 (the logarithmic score).

    >>> cross_entropy(torch.tensor([[0.0, 0.0], [9.0, 0.0]]), torch.tensor([1, -100]))
    tensor(0.6931)
    """
    kept = keep(logits, labels)
    log_probabilities = kept.logits.log_softmax(-1)
    values = -log_probabilities.gather(-1, kept.labels.unsqueeze(-1)).squeeze(-1)
    return reduce(values, kept, labels, reduction)


def soft_cross_entropy(
    logits: Float[Tensor, "*batch classes"],
    targets: Float[Tensor, "*batch classes"],
    labels: Int[Tensor, "*batch"],
    *,
    reduction: Reduction = "mean",
) -> Float[Tensor, "..."]:
    r"""Return the cross-entropy against a target distribution, as mixup makes it.

    .. math:: L = \frac1n \sum_i \sum_k -t_{ik} \log p_{ik}

    ``labels`` only says which examples are kept: those whose label is not −100.

    Reference: Zhang et al., mixup: Beyond Empirical Risk Minimization, ICLR 2018.

    >>> targets = torch.tensor([[0.5, 0.5]])
    >>> soft_cross_entropy(torch.tensor([[0.0, 0.0]]), targets, torch.tensor([0]))
    tensor(0.6931)
    """
    if targets.shape != logits.shape:
        raise InputError(
            "soft_cross_entropy takes one target for each logit, shape "
            f"{tuple(logits.shape)}; got {tuple(targets.shape)}."
        )
    kept = keep(logits, labels)
    flat = targets.reshape(kept.logits.shape).to(kept.logits.dtype)
    flat = torch.where(kept.counted.unsqueeze(-1), flat, 0.0)
    values = -(flat * finite_log(kept.logits.log_softmax(-1))).sum(-1)
    return reduce(values, kept, labels, reduction)
