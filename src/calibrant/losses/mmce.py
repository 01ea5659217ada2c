"""Maximum mean calibration error: a kernel distance between confidence and correctness."""

from jaxtyping import Float, Int
from torch import Tensor

from calibrant.losses.masking import keep
from calibrant.losses.pairwise import kernel_calibration
from calibrant.losses.prediction import top_label

__all__ = ["mmce", "weighted_mmce"]


def mmce(
    logits: Float[Tensor, "*batch classes"],
    labels: Int[Tensor, "*batch"],
    bandwidth: float = 0.4,
) -> Float[Tensor, ""]:
    r"""Maximum mean calibration error (regulariser alone).

    .. math:: R = \sqrt{\frac1{n^2} \sum_{ij} (a_i - c_i)(a_j - c_j) \exp(-|c_i - c_j| / h)}

    c confidence, a 1 if right (a constant for the gradient), h (``bandwidth``) 0.4. The gradient is
    finite everywhere, 0 at R = 0. Exact in O(n log n) time and O(n) memory (:mod:`.pairwise`).
    Added to cross-entropy with weight λ = 2. Widely copied PyTorch code leaves out the square root.

    Reference: Kumar et al., Trainable Calibration Measures for Neural Networks from Kernel Mean
    Embeddings, ICML 2018.

    >>> import torch
    >>> mmce(torch.tensor([[0.0, 0.0]]), torch.tensor([1]))
    tensor(0.5000)
    """
    kept = keep(logits, labels)
    confidence, correct = top_label(kept)
    return kernel_calibration(confidence, correct, kept.weight / kept.total, bandwidth)


def weighted_mmce(
    logits: Float[Tensor, "*batch classes"],
    labels: Int[Tensor, "*batch"],
    bandwidth: float = 0.4,
) -> Float[Tensor, ""]:
    r"""MMCE in which right and wrong examples weigh the same (MMCE_w, regulariser alone).

    .. math:: R^2 = \sum_{\text{wrong } i,j} \frac{c_i c_j k_{ij}}{m^2}
        + \sum_{\text{right } i,j} \frac{(1-c_i)(1-c_j) k_{ij}}{(n-m)^2}
        - 2 \sum_{\text{right } i, \text{ wrong } j} \frac{(1-c_i) c_j k_{ij}}{(n-m)\,m}

    with m wrong examples among n and the kernel of :func:`mmce`. If all are right or all are wrong,
    the one sum that there is.

    Reference: Kumar et al., ICML 2018, section 4.

    >>> import torch
    >>> logits = torch.tensor([[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    >>> weighted_mmce(logits, torch.tensor([0, 0, 1]))  # ½ from the right, −½ from the wrong
    tensor(0.)
    """
    kept = keep(logits, labels)
    confidence, correct = top_label(kept)
    wrong = kept.weight - correct
    share = correct / correct.sum().clamp(min=1) + wrong / wrong.sum().clamp(min=1)
    return kernel_calibration(confidence, correct, share, bandwidth)
