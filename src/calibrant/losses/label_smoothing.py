"""Cross-entropy against softened labels."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from calibrant.errors import InputError
from calibrant.losses.masking import Reduction, keep, reduce

__all__ = ["label_smoothing"]


def label_smoothing(
    logits: Float[Tensor, "*batch classes"],
    labels: Int[Tensor, "*batch"],
    alpha: float = 0.05,
    *,
    others_only: bool = False,
    reduction: Reduction = "mean",
) -> Float[Tensor, "..."]:
    r"""Cross-entropy against a label that gives away the share α.

    .. math:: L = \frac1n \sum_i \sum_k -t_{ik} \log p_{ik}

    - default: t = (1 − α)·onehot + α/K, the label keeps 1 − α + α/K; equal to PyTorch's
      ``cross_entropy(label_smoothing=α)``;
    - ``others_only=True``: the label keeps 1 − α, each other class gets α/(K − 1) (the variant of
      the DMQA calibration seminar). With one class there is no other: the label keeps all.

    α 0.05 by default. Reference: Szegedy et al., CVPR 2016; Müller et al., NeurIPS 2019.

    >>> logits, labels = torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0])
    >>> label_smoothing(logits, labels, alpha=0.3)
    tensor(0.6395)
    >>> label_smoothing(logits, labels, alpha=0.3, others_only=True)
    tensor(0.8395)
    """
    if not 0 <= alpha <= 1:
        raise InputError(f"label_smoothing takes alpha from 0 to 1; got {alpha}.")
    kept = keep(logits, labels)
    classes = kept.logits.shape[-1]
    # The share that the default gives back to the label itself moves to the other classes.
    spread = alpha * classes / max(classes - 1, 1) if others_only and classes > 1 else alpha
    log_probabilities = kept.logits.log_softmax(-1)
    at_label = log_probabilities.gather(-1, kept.labels.unsqueeze(-1)).squeeze(-1)
    values = -at_label
    if spread > 0:  # 0 · inf is not 0: a class masked out by a logit of −inf must not matter here.
        values = -torch.lerp(at_label, log_probabilities.mean(-1), spread)
    return reduce(values, kept, labels, reduction)
