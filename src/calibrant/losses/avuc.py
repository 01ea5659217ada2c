"""Accuracy versus uncertainty: be certain where right, uncertain where wrong."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from calibrant.losses.masking import Kept, keep
from calibrant.losses.prediction import Uncertainty, top_label, uncertainty

__all__ = ["avuc", "threshold_from", "uncertainty_sums"]


def avuc(
    logits: Float[Tensor, "*batch classes"],
    labels: Int[Tensor, "*batch"],
    threshold: float | Float[Tensor, ""] | None = None,
    *,
    measure: Uncertainty = "entropy",
    eps: float = 1e-10,
    count_ignored: bool = False,
) -> Float[Tensor, ""]:
    r"""Return the soft share of certain but wrong and uncertain but right (regulariser only).

    .. math:: R = \log\Bigl(1 + \frac{n_{AU} + n_{IC}}{n_{AC} + n_{IU} + \epsilon}\Bigr)

    with u the uncertainty, th the threshold, and sums over kept examples

    ====  =====================  ====================
    n_AC  right, u ≤ th          c · (1 − tanh u)
    n_AU  right, u > th          c · tanh u
    n_IC  wrong, u ≤ th          (1 − c)(1 − tanh u)
    n_IU  wrong, u > th          (1 − c) · tanh u
    ====  =====================  ====================

    u is the entropy in nats, or 1 − c (``measure="confidence"``). ``threshold=None`` takes the
    (lower) median of u in the batch; the paper takes it from a warm-up: :func:`threshold_from`.
    Threshold and comparison are constants for the gradient. In the code of Jouet et al. (IJCNN
    2022) positions labelled −100 count as errors; ``count_ignored=True`` exists only to reproduce
    it.

    Reference: Krishnan & Tickoo, Improving model calibration with accuracy versus uncertainty
    optimization, NeurIPS 2020.

    >>> logits = torch.tensor([[4.0, 0.0], [0.5, 0.0]])
    >>> avuc(logits, torch.tensor([0, 0]), threshold=0.3)
    tensor(0.3394)
    """
    kept = keep(logits, labels, count_ignored=count_ignored)
    confidence, right = top_label(kept)
    doubt = uncertainty(kept, measure)
    if threshold is None:
        threshold = _median(doubt.detach(), kept)
    certain = (doubt.detach() <= threshold).to(doubt.dtype)
    soft_doubt = doubt.tanh()
    weight_right, weight_wrong = confidence * right, (1 - confidence) * (1 - right)
    matched = weight_right * certain * (1 - soft_doubt) + weight_wrong * (1 - certain) * soft_doubt
    missed = weight_right * (1 - certain) * soft_doubt + weight_wrong * certain * (1 - soft_doubt)
    good, bad = (kept.weight * matched).sum(), (kept.weight * missed).sum()
    return torch.log1p(bad / (good + eps))


@torch.no_grad()
def uncertainty_sums(
    logits: Float[Tensor, "*batch classes"],
    labels: Int[Tensor, "*batch"],
    *,
    measure: Uncertainty = "entropy",
) -> Float[Tensor, " 4"]:
    """Return the sum of u over right and over wrong examples, and their counts, on the device.

    Adds up: the sums of batches, of epochs or of processes are the sums of the joined data.

    >>> uncertainty_sums(torch.zeros(2, 2), torch.tensor([0, 1]))
    tensor([0.6931, 0.6931, 1.0000, 1.0000], dtype=torch.float64)
    """
    kept = keep(logits, labels)
    doubt = uncertainty(kept, measure).double()
    right, weight = top_label(kept).correct.double(), kept.weight.double()
    wrong = weight - right
    return torch.stack([(doubt * right).sum(), (doubt * wrong).sum(), right.sum(), wrong.sum()])


def threshold_from(sums: Float[Tensor, " 4"]) -> Float[Tensor, ""]:
    """Return the paper's threshold, (mean u of right + mean u of wrong) / 2, from a warm-up.

    ``sums`` are those of :func:`uncertainty_sums`, added up. If all were right or all wrong, it
    is the one mean; 0 if nothing was kept.

    >>> threshold_from(torch.tensor([1.0, 6.0, 10.0, 10.0]))
    tensor(0.3500)
    """
    means, there = sums[:2] / sums[2:].clamp(min=1), sums[2:] > 0
    return means.sum() / there.sum().clamp(min=1)


def _median(values: Float[Tensor, " n"], kept: Kept) -> Float[Tensor, ""]:
    """Return the lower median of the kept values, like ``torch.median``, without a GPU wait."""
    if values.numel() == 0:
        return values.sum()
    ordered = torch.where(kept.counted, values, torch.inf).sort().values
    middle = (kept.counted.sum() - 1).clamp(min=0) // 2
    return ordered.gather(0, middle.unsqueeze(0)).squeeze(0)
