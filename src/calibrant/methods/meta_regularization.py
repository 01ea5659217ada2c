"""Meta-regularisation: γ-Net learns, from held-out data, the focal γ that calibrates the model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.attention import SDPBackend, sdpa_kernel

from calibrant.errors import InputError
from calibrant.losses.focal import focal
from calibrant.methods.base import Method, evaluating
from calibrant.methods.dece import Dece
from calibrant.methods.gamma_net import GammaNet
from calibrant.methods.sece import Sece
from calibrant.methods.wrapper import Regularizer

if TYPE_CHECKING:
    from calibrant.training.step import Step

__all__ = ["MetaRegularization", "gamma_net_dece", "gamma_net_sece"]


class MetaRegularization(Method):
    """Focal loss with γ = γ-Net(features), and γ-Net trained through the model's update.

    With θ the model and φ γ-Net, one step is

        inner:  L(θ, φ) = mean_i −(1 − p_y)^γ_i log p_y,  γ = γ-Net_φ(features)
        outer:  θ'(φ) = θ − η ∇_θ L(θ, φ);   φ ← φ − Adam(∇_φ outer(θ'(φ); held-out batch))

    ``loss`` gives L for your optimizer, which updates θ; ``outer_step`` updates φ, on a step whose
    ``holdout`` is a batch from a part of the training split that nothing else sees. Call it after
    backward and before the optimizer's step, so that both start from the same θ.

    ``outer`` is SECE (FLγ-SECE) or DECE (FLγ-DECE), any regulariser. ``look_ahead="head"``
    restricts θ in the outer line to the head, ``"full"`` takes the whole model, at the cost of
    two more forward and backward passes. η is ``look_ahead_rate``, one step of plain gradient
    descent. Only its direction matters to Adam. Under gradient accumulation ``loss`` adds up over
    micro-batches, but the inner line of the look-ahead takes the last micro-batch alone. Rates, k
    and τ are our choice, made on digits; the slides print none. Not for models sharded by FSDP2,
    whose parameters have no full copy to look ahead with.

    Reference: Wang & Golebiowski, Towards Unbiased Calibration using Meta-Regularization,
    TMLR 2024.

    >>> from calibrant.training import attach
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> method, labels = MetaRegularization(), torch.tensor([0, 1])
    >>> with attach(model, method) as hook:
    ...     holdout = hook.step(model(torch.ones(2, 4)), labels)
    ...     step = hook.step(model(torch.zeros(2, 4)), labels, holdout=holdout)
    ...     method.loss(step).backward()
    ...     method.outer_step(step)
    """

    needs_holdout = True

    def __init__(
        self,
        outer: Regularizer | None = None,
        clusters: int = 16,
        temperature: float = 1.0,
        learning_rate: float = 1e-4,
        look_ahead: Literal["head", "full"] = "head",
        look_ahead_rate: float = 0.01,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if look_ahead not in ("head", "full"):
            raise InputError(
                f"MetaRegularization: look_ahead is 'head' or 'full', got {look_ahead!r}."
            )
        self.outer = Sece() if outer is None else outer
        self.gamma_net = GammaNet(clusters, temperature, seed)
        self.learning_rate = learning_rate
        self.look_ahead = look_ahead
        self.needs_model = look_ahead == "full"
        self.look_ahead_rate = look_ahead_rate
        self._optimizer: torch.optim.Adam | None = None
        self._optimizer_state: dict[str, Any] | None = None

    def loss(self, step: Step) -> Tensor:
        """Return the focal loss with γ-Net's γ, which is a constant here."""
        with torch.no_grad():
            gamma = self._gamma(step)
        return focal(step.logits, step.labels, gamma, reduction="sum") / step.normalizer

    def outer_step(self, step: Step) -> None:
        """Take one Adam step of γ-Net."""
        gradients = self.hypergradient(step)
        if dist.is_available() and dist.is_initialized():
            for gradient in gradients:
                dist.all_reduce(gradient)
                gradient /= dist.get_world_size()
        for parameter, gradient in zip(self.gamma_net.parameters(), gradients, strict=True):
            parameter.grad = gradient
        self._adam().step()
        self.gamma_net.zero_grad(set_to_none=True)

    def hypergradient(self, step: Step) -> list[Tensor]:
        """Return ∇_φ outer(θ'(φ)), differentiated through the inner update."""
        if step.holdout is None:
            raise InputError("MetaRegularization learns from held-out data: give step.holdout.")
        theta = _copies(_target(step, self.look_ahead))
        gamma = self._gamma(step)
        # Fused attention kernels have no second derivative.
        with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
            logits = _run(step, theta, self.look_ahead)
            inner = focal(logits, step.labels, gamma)
            # A parameter that the forward pass does not use has no gradient and stays as it is.
            slopes = torch.autograd.grad(
                inner, list(theta.values()), create_graph=True, allow_unused=True
            )
            ahead = {
                name: value if slope is None else value - self.look_ahead_rate * slope
                for (name, value), slope in zip(theta.items(), slopes, strict=True)
            }
            with evaluating(_target(step.holdout, self.look_ahead)):
                held_out = _run(step.holdout, ahead, self.look_ahead)
            outer = self.outer.term(replace(step.holdout, logits=held_out))
        return list(torch.autograd.grad(outer, list(self.gamma_net.parameters())))

    def get_extra_state(self) -> dict[str, Any]:
        """Return the state of γ-Net's optimizer."""
        made = self._optimizer
        return {"optimizer": self._optimizer_state if made is None else made.state_dict()}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Restore γ-Net's optimizer, in place if it has started, because a CUDA graph holds it."""
        saved = state["optimizer"]
        if self._optimizer is None or not saved or not self._optimizer.state:
            self._optimizer, self._optimizer_state = None, saved
            return
        for number, values in enumerate(self._optimizer.state.values()):
            for name, value in values.items():
                value.copy_(saved["state"][number][name])

    def rewind(self) -> None:
        """Reset γ-Net and its optimizer to their state before the first step."""
        self.gamma_net.rewind()
        if self._optimizer is not None:
            for values in self._optimizer.state.values():
                for value in values.values():
                    value.zero_()

    def _adam(self) -> torch.optim.Adam:
        if self._optimizer is None:
            parameters = list(self.gamma_net.parameters())
            on_cuda = parameters[0].is_cuda
            self._optimizer = torch.optim.Adam(
                parameters, lr=self.learning_rate, capturable=on_cuda
            )
            if self._optimizer_state is not None:
                self._optimizer.load_state_dict(self._optimizer_state)
        return self._optimizer

    def _gamma(self, step: Step) -> Tensor:
        if step.features is None:
            raise InputError(
                "MetaRegularization needs the features: attach(model, method).step(…)."
            )
        return cast(Tensor, self.gamma_net(_example_features(step)))


def gamma_net_sece(**options: Any) -> MetaRegularization:
    """Create FLγ-SECE.

    >>> type(gamma_net_sece(look_ahead="full").outer).__name__
    'Sece'
    """
    return MetaRegularization(outer=Sece(), **options)


def gamma_net_dece(accuracy_gradient: bool = False, **options: Any) -> MetaRegularization:
    """Create FLγ-DECE.

    The accuracy inside DECE is a constant to γ-Net, as it is inside SECE. The published method,
    ``accuracy_gradient=True``, may raise γ further for an underconfident network, because that
    makes it less accurate, and γ may diverge (``docs/decisions/0010-accuracy-inside-of-dece.md``).

    >>> type(gamma_net_dece().outer).__name__
    'Dece'
    """
    return MetaRegularization(outer=Dece(accuracy_gradient=accuracy_gradient), **options)


def _example_features(step: Step) -> Tensor:
    """Return one feature vector per label: the mean over positions if the head pools itself."""
    features = step.channels_last.detach()
    extra = features.ndim - 1 - step.labels.ndim
    return (
        features.mean(tuple(range(step.labels.ndim, step.labels.ndim + extra)))
        if extra
        else features
    )


def _target(step: Step, look_ahead: str) -> nn.Module:
    target = step.model if look_ahead == "full" else getattr(step.head, "module", None)
    if target is None or (look_ahead == "full" and step.inputs is None):
        raise InputError(
            f"MetaRegularization(look_ahead={look_ahead!r}) needs a step made by "
            "attach(model, method).step(…), with inputs=… for the full look-ahead."
        )
    return target


def _copies(module: nn.Module) -> dict[str, Tensor]:
    """Copy the trainable parameters to new leaves, so that the model's gradients stay untouched."""
    trained = {name: value for name, value in module.named_parameters() if value.requires_grad}
    if not trained:
        raise InputError(
            f"MetaRegularization looks ahead with {type(module).__name__}, whose parameters are "
            "all frozen: train it too, or take look_ahead='full'."
        )
    for name, value in trained.items():
        if hasattr(value, "full_tensor"):
            raise InputError(
                f"MetaRegularization cannot look ahead with a sharded parameter ('{name}'): "
                "use DDP, or leave the head unsharded."
            )
    return {name: value.detach().clone().requires_grad_() for name, value in trained.items()}


def _run(step: Step, parameters: dict[str, Tensor], look_ahead: str) -> Tensor:
    """Return the logits of ``step`` under other parameters."""
    head: Any = step.head
    if look_ahead == "full":
        return cast(Tensor, head.whole_model(step.inputs, parameters))
    assert step.features is not None
    return cast(Tensor, head(step.features.detach(), parameters))
