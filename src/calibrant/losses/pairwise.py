"""Sums over all pairs of examples in O(n log n) time and O(n) memory, with exact gradients.

Three losses compare every example with every other: error regularisation, MMCE and SECE. Written as
n × n matrices they need 16 GB at 65,536 tokens. Here each is a function of confidences that
computes value and analytic gradient at once, in float64, by one module each: :mod:`.dominance`,
:mod:`.laplace_sums` and :mod:`.gauss_sums`. Below a few hundred examples the matrix is faster and
is used; both agree to rounding. On a GPU with Triton, :mod:`.fused` computes all pairs on chip, in
two to four launches, up to tens of thousands of examples.

These forms take confidences, in [0, 1], in place of logits, so they also serve as metrics:
``smooth_gap(torch.from_numpy(confidence), torch.from_numpy(correct))``. They have no second
derivative: differentiating a gradient made with ``create_graph=True`` raises NotImplementedError.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from calibrant.losses import dominance, fused, gauss_sums, laplace_sums
from calibrant.losses.masking import widest

__all__ = ["kernel_calibration", "order_violation", "smooth_gap"]


def order_violation(
    confidence: Float[Tensor, " n"],
    error: Float[Tensor, " n"],
    counted: Bool[Tensor, " n"] | None = None,
    *,
    normalize: bool = True,
) -> Float[Tensor, ""]:
    r"""Return how much examples with the larger error have the larger confidence.

    .. math:: \frac1P \sum_{ij} \max(0, c_i - c_j)^2 \, 1[e_i > e_j], \qquad
        P = \sum_{ij} 1[e_i > e_j]

    over the examples ``counted`` (all, by default); the sum alone with ``normalize=False``. The
    gradient flows to c alone: e only orders.

    >>> confidence, error = torch.tensor([0.9, 0.6, 0.8]), torch.tensor([1.0, 0.0, 0.0])
    >>> order_violation(confidence, error)  # 0.3² and 0.1², two pairs
    tensor(0.0500)
    """
    with torch.no_grad():
        if fused.serves("violation", confidence, error, counted):
            value, gradient = fused.violation(confidence, error, counted, normalize=normalize)
        else:
            value, gradient, pairs = dominance.violation(widest(confidence), error, counted)
            if normalize:
                pairs = pairs.clamp(min=1)
                value, gradient = value / pairs, gradient / pairs
    return _attach(confidence, value, gradient)


def kernel_calibration(
    confidence: Float[Tensor, " n"],
    correct: Float[Tensor, " n"],
    share: Float[Tensor, " n"],
    bandwidth: float = 0.4,
) -> Float[Tensor, ""]:
    r"""Return the square root of the quadratic form of residuals under a Laplacian kernel.

    .. math:: \sqrt{\sum_{ij} r_i r_j \exp(-|c_i - c_j| / h)}, \qquad r_i = s_i (a_i - c_i)

    with ``share`` s_i (1/n for MMCE, 0 for ignored examples). The gradient flows through the
    residuals and through the kernel; it is 0 if the value is 0.

    >>> confidence, correct = torch.tensor([0.75, 0.75]), torch.tensor([1.0, 0.0])
    >>> kernel_calibration(confidence, correct, torch.tensor([0.5, 0.5]))
    tensor(0.2500)
    """
    with torch.no_grad():
        steep = not bandwidth * fused.STEEPEST >= 1
        if not steep and fused.serves("quadratic_form", confidence, correct, share):
            value, gradient = fused.quadratic_form(confidence, correct, share, bandwidth)
        else:
            square, gradient, size = laplace_sums.quadratic_form(
                widest(confidence), widest(correct), widest(share), bandwidth
            )
            value = square.clamp(min=0).sqrt()
            # A square below 1e-16 Σ|r|² is rounding; its root must not blow up the gradient.
            gradient = gradient / (2 * torch.maximum(value, 1e-8 * size).clamp(min=1e-150))
    return _attach(confidence, value, gradient)


def smooth_gap(
    confidence: Float[Tensor, " n"],
    correct: Float[Tensor, " n"],
    counted: Bool[Tensor, " n"] | None = None,
    bandwidth: float = 0.01,
) -> Float[Tensor, ""]:
    r"""Return the mean distance between each confidence and the accuracy smoothed around it.

    .. math:: \frac1n \sum_i \Bigl| \frac{\sum_j k_{ij} a_j}{\sum_j k_{ij}} - c_i \Bigr|, \qquad
        k_{ij} = \exp(-(c_i - c_j)^2 / 2h^2)

    over the examples ``counted`` (all, by default). The gradient is that of the whole formula,
    through c_i as the target and through all kernel weights; a is a constant.

    >>> smooth_gap(torch.tensor([0.75, 0.75]), torch.tensor([1.0, 0.0]))
    tensor(0.2500)
    """
    with torch.no_grad():
        reaches = gauss_sums.NARROWEST <= bandwidth <= fused.WIDEST
        if reaches and fused.serves("smooth_gap", confidence, correct, counted):
            value, gradient = fused.smooth_gap(confidence, correct, counted, bandwidth)
        else:
            value, gradient = gauss_sums.smooth_gap(
                widest(confidence), widest(correct), counted, bandwidth
            )
    return _attach(confidence, value, gradient)


class _Known(torch.autograd.Function):
    """A value whose gradient with respect to ``confidence`` is already computed."""

    @staticmethod
    def forward(ctx: Any, confidence: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
        ctx.save_for_backward(confidence, gradient.to(confidence.dtype))
        return value.to(confidence.dtype)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        confidence, gradient = ctx.saved_tensors
        slope = upstream * gradient
        if torch.is_grad_enabled():  # The caller set create_graph=True.
            slope = _LastDerivative.apply(slope, confidence)  # type: ignore[no-untyped-call]
        return slope, None, None


class _LastDerivative(torch.autograd.Function):
    """A gradient that depends on ``confidence`` in a way that cannot be differentiated.

    PyTorch's ``once_differentiable`` is not enough: it treats the gradient of a bare loss as a
    constant, because nothing upstream needs a gradient.
    """

    @staticmethod
    def forward(ctx: Any, slope: Tensor, confidence: Tensor) -> Tensor:  # noqa: ARG004
        return slope.clone()

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor]:
        raise NotImplementedError(
            "Error regularisation, MMCE and SECE have no second derivative: their gradient is "
            "computed in closed form. Leave them out of the term that is differentiated twice."
        )


def _attach(confidence: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
    attached: Tensor = _Known.apply(confidence, value, gradient)  # type: ignore[no-untyped-call]
    return attached
