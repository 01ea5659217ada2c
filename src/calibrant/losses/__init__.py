"""Losses: pure functions of logits and labels, the mean over kept examples.

Every one takes logits of shape ``(..., K)`` and integer labels of shape ``(...)``, leaves out label
−100, computes in float32 or better, and is 0 with a zero gradient when nothing is kept. None looks
at values on the host, so a step that uses them can be captured in a CUDA graph.

Task losses: :func:`cross_entropy`, :func:`soft_cross_entropy`, :func:`mse`,
:func:`label_smoothing`, :func:`focal`, :func:`flsd`, :func:`entropy_penalty`,
:func:`margin_smoothing`. They also take ``reduction="sum"`` and ``"none"``. Regularisers, to be
added to a task loss with a weight: :func:`mmce`, :func:`weighted_mmce`, :func:`dece`, :func:`sece`,
:func:`avuc`, :func:`error_regularization`, :func:`mdca`, :func:`dca`.
"""

from calibrant.extras import require

require("torch", "torch", "Training with a calibration loss")
require("jaxtyping", "torch", "Training with a calibration loss")

from calibrant.losses.avuc import avuc, threshold_from, uncertainty_sums  # noqa: E402
from calibrant.losses.brier import mse  # noqa: E402
from calibrant.losses.cross_entropy import cross_entropy, soft_cross_entropy  # noqa: E402
from calibrant.losses.dece import dece  # noqa: E402
from calibrant.losses.entropy_penalty import entropy_penalty  # noqa: E402
from calibrant.losses.error_regularization import error_regularization  # noqa: E402
from calibrant.losses.focal import flsd, focal  # noqa: E402
from calibrant.losses.label_smoothing import label_smoothing  # noqa: E402
from calibrant.losses.margin_smoothing import margin_smoothing  # noqa: E402
from calibrant.losses.masking import IGNORED  # noqa: E402
from calibrant.losses.mdca import dca, mdca  # noqa: E402
from calibrant.losses.mmce import mmce, weighted_mmce  # noqa: E402
from calibrant.losses.sece import sece  # noqa: E402

__all__ = [
    "IGNORED",
    "avuc",
    "cross_entropy",
    "dca",
    "dece",
    "entropy_penalty",
    "error_regularization",
    "flsd",
    "focal",
    "label_smoothing",
    "margin_smoothing",
    "mdca",
    "mmce",
    "mse",
    "sece",
    "soft_cross_entropy",
    "threshold_from",
    "uncertainty_sums",
    "weighted_mmce",
]
