"""Error regularisation: a larger error must not have a larger confidence."""

from typing import Literal

from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from calibrant.errors import InputError
from calibrant.losses.masking import Kept, flatten, keep
from calibrant.losses.pairwise import order_violation
from calibrant.losses.prediction import predicted

__all__ = ["error_regularization"]


def error_regularization(
    logits: Float[Tensor, "*batch classes"],
    labels: Int[Tensor, "*batch"],
    error: Literal["loss", "wrong"] | Float[Tensor, "*batch"] = "loss",
    *,
    normalize: bool = True,
    count_ignored: bool = False,
) -> Float[Tensor, ""]:
    r"""Return a penalty for pairs whose larger error has the larger confidence (Abstention, ABS).

    .. math:: R = \frac1P \sum_{ij} \max(0, c_i - c_j)^2 \, 1[e_i > e_j], \qquad
        P = \sum_{ij} 1[e_i > e_j]

    c is the confidence, e the error of an example, a constant for the gradient:

    - ``"loss"``: its cross-entropy, as in the paper's formula;
    - ``"wrong"``: 1 if the prediction is wrong, else 0, as in the original code;
    - a tensor in the shape of the labels: the history variant, 1 − the running share of times that
      the example was right.

    P counts the pairs in the sum, so R is a mean squared violation for any size of
    the batch and the share of errors; without any such pair R = 0. ``normalize=False`` gives the
    raw sum of the paper. Exact in O(n log n) time and O(n) memory (:mod:`.pairwise`). Added to the
    task loss with weight λ = 0.05. In the code of Jouet et al. (IJCNN 2022) positions labelled −100
    count as errors; ``count_ignored=True`` exists only to reproduce it (under ``"loss"`` they have
    loss 0).

    Reference: Xin et al., The Art of Abstention, ACL 2021.

    >>> import torch
    >>> logits = torch.tensor([[2.0, 0.0], [1.0, 0.0]])
    >>> error_regularization(logits, torch.tensor([1, 0]))  # (0.881 − 0.731)², one pair
    tensor(0.0224)
    >>> error_regularization(logits, torch.tensor([0, 1]))
    tensor(0.)
    """
    kept = keep(logits, labels, count_ignored=count_ignored)
    confidence, prediction = predicted(kept)
    if isinstance(error, Tensor):
        errors = flatten(error, labels, kept, "error_regularization's error").detach()
    else:
        errors = _errors(kept, prediction, error)
    return order_violation(confidence, errors, kept.counted, normalize=normalize)


def _errors(kept: Kept, prediction: Int[Tensor, " n"], kind: str) -> Float[Tensor, " n"]:
    if kind == "wrong":
        return ((prediction != kept.labels) | ~kept.labelled).to(kept.logits.dtype)
    if kind == "loss":
        values = cross_entropy(kept.logits.detach(), kept.labels, reduction="none")
        # Unlabelled positions count only under count_ignored; without it, skip one launch.
        return values if kept.labelled is kept.counted else values * kept.labelled
    raise InputError(f"error is 'loss', 'wrong' or one value for each label; got {kind!r}.")
