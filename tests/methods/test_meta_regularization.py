"""γ-Net: the hypergradient against finite differences, and the formula of γ."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from calibrant.errors import InputError
from calibrant.methods import (
    Dece,
    MetaRegularization,
    Sece,
    gamma_net_dece,
    gamma_net_sece,
)
from calibrant.methods.gamma_net import GammaNet
from calibrant.training import Step, attach


def toy(look_ahead, outer, rate=0.5):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3)).double()
    method = MetaRegularization(
        outer, clusters=2, look_ahead=look_ahead, look_ahead_rate=rate, temperature=0.5
    )
    inputs, labels = torch.randn(12, 3).double(), torch.randint(3, (12,))
    held_out, held_out_labels = torch.randn(10, 3).double(), torch.randint(3, (10,))
    labels[3], held_out_labels[2] = -100, -100
    with attach(model, method) as hook:
        holdout = hook.step(model(held_out), held_out_labels, inputs=(held_out,))
        step = hook.step(model(inputs), labels, holdout=holdout, inputs=(inputs,))
    method.loss(step)  # Builds γ-Net for the width of the features.
    return model, method, step


def outer_by_hand(model, method, step, look_ahead):
    """The outer loss after one written-out gradient step, as a number."""
    trained = list(model[2].parameters() if look_ahead == "head" else model.parameters())
    before = [parameter.detach().clone() for parameter in trained]
    with torch.no_grad():
        gamma = method.gamma_net(step.features)
    kept = step.labels != -100
    logits = model(step.inputs[0])
    if look_ahead == "head":
        logits = model[2](step.features.detach())
    p = logits.softmax(-1)[kept].gather(-1, step.labels[kept].unsqueeze(-1)).squeeze(-1)
    inner = (-((1 - p) ** gamma[kept]) * p.log()).mean()
    slopes = torch.autograd.grad(inner, trained)
    with torch.no_grad():
        for parameter, slope in zip(trained, slopes, strict=True):
            parameter -= method.look_ahead_rate * slope
        held_out = model(step.holdout.inputs[0])
        value = method.outer.term(replace(step.holdout, logits=held_out))
        for parameter, value_before in zip(trained, before, strict=True):
            parameter.copy_(value_before)
    return value.item()


@pytest.mark.parametrize("look_ahead", ["head", "full"])
@pytest.mark.parametrize("outer", [Sece(bandwidth=0.1), Dece(bin_temperature=0.1)])
def test_hypergradient_equals_finite_differences(look_ahead, outer):
    model, method, step = toy(look_ahead, outer)
    found = method.hypergradient(step)
    width, largest = 1e-5, 0.0
    for parameter, gradient in zip(method.gamma_net.parameters(), found, strict=True):
        for index in range(parameter.numel()):
            flat = parameter.data.view(-1)
            flat[index] += width
            above = outer_by_hand(model, method, step, look_ahead)
            flat[index] -= 2 * width
            below = outer_by_hand(model, method, step, look_ahead)
            flat[index] += width
            slope = (above - below) / (2 * width)
            assert gradient.view(-1)[index].item() == pytest.approx(slope, rel=1e-5, abs=1e-9)
            largest = max(largest, abs(slope))
    assert largest > 1e-4  # The comparison is not one of zeros.


@pytest.mark.parametrize("look_ahead", ["head", "full"])
def test_outer_step_moves_gamma_net_alone(look_ahead):
    model, method, step = toy(look_ahead, Sece(bandwidth=0.1))
    method.loss(step).backward()
    weights = [p.detach().clone() for p in model.parameters()]
    gradients = [p.grad.clone() for p in model.parameters()]
    before = [p.detach().clone() for p in method.gamma_net.parameters()]
    method.outer_step(step)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), weights, strict=True))
    assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), gradients, strict=True))
    assert not any(
        torch.equal(a, b) for a, b in zip(method.gamma_net.parameters(), before, strict=True)
    )


def test_outer_steps_lower_the_outer_loss():
    model, method, step = toy("head", Sece(bandwidth=0.1), rate=2.0)
    method.learning_rate = 0.05
    first = outer_by_hand(model, method, step, "head")
    for _ in range(40):
        method.outer_step(step)
    assert outer_by_hand(model, method, step, "head") < first - 1e-3


def slope_of_sharpness(method):
    """d outer / d s for logits s · onehot(label): every image right, none of them sure."""
    labels = torch.arange(10)
    sharpness = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    logits = sharpness * torch.eye(10, dtype=torch.float64)
    (slope,) = torch.autograd.grad(method.outer.term(Step(logits, labels)), sharpness)
    return slope.item()


def test_what_is_too_modest_is_made_surer():
    assert slope_of_sharpness(gamma_net_sece()) < -0.05
    assert slope_of_sharpness(gamma_net_dece()) < -0.05
    # The soft accuracy of the published DECE turns it round: less right is less too modest.
    assert slope_of_sharpness(gamma_net_dece(accuracy_gradient=True)) > 0.05


def test_a_constant_accuracy_changes_the_gradient_of_dece_alone():
    torch.manual_seed(0)
    logits = (0.05 * torch.randn(50, 4, dtype=torch.float64)).requires_grad_()
    step = Step(logits, logits.detach().argsort(-1)[:, -2])  # The second place: wrong, but near.
    published, constant = Dece(bins=1), Dece(bins=1, accuracy_gradient=False)
    assert published.term(step).item() == constant.term(step).item()
    # All in one bin and too sure: R = mean (c − ã), of which c alone has a slope.
    (expected,) = torch.autograd.grad(logits.softmax(-1).amax(-1).mean(), logits)
    (found,) = torch.autograd.grad(constant.term(step), logits)
    assert torch.allclose(found, expected)
    assert not torch.allclose(torch.autograd.grad(published.term(step), logits)[0], expected)


def test_gamma_by_hand():
    net = GammaNet(clusters=2, temperature=0.5)
    net(torch.zeros(1, 3))
    with torch.no_grad():
        net.A.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]))
        net.W.copy_(torch.tensor([[2.0], [-4.0], [9.0]]))
    # x A = (0, 0) → q = (½, ½) → x̃ = (½, ½, 0) → x̃ W = −1 → γ = 1 / 0.5.
    assert net(torch.tensor([[0.0, 0.0, 5.0]])).item() == pytest.approx(2.0)


def test_gamma_net_loads_before_it_has_seen_features():
    net, other = GammaNet(seed=1), GammaNet(seed=2)
    features = torch.randn(3, 5)
    expected = net(features)
    other.load_state_dict(net.state_dict())
    assert torch.equal(other(features), expected)


def test_dropout_of_the_head_is_off_for_held_out_data_and_on_again_after():
    model = nn.Sequential(
        nn.Linear(3, 4), nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 2))
    )
    method = MetaRegularization()
    with attach(model, method, head="1") as hook:
        holdout = hook.step(model(torch.ones(4, 3)), torch.tensor([0, 1, 0, 1]))
        step = hook.step(model(torch.ones(4, 3)), torch.tensor([0, 1, 0, 1]), holdout=holdout)
        method.outer_step(step)
    assert all(part.training for part in model.modules())


def test_a_parameter_that_nothing_uses_stays():
    model, method, step = toy("full", Sece(bandwidth=0.1))
    expected = method.hypergradient(step)
    model[0].register_parameter("unused", nn.Parameter(torch.zeros(2)))
    for found, gradient in zip(method.hypergradient(step), expected, strict=True):
        assert torch.equal(found, gradient)


def test_the_channels_of_images_are_the_features():
    model = nn.Sequential(
        nn.Conv2d(1, 5, 3), nn.AdaptiveAvgPool2d(1), nn.Sequential(nn.Flatten(), nn.Linear(5, 2))
    )
    method = MetaRegularization()
    with attach(model, method) as hook:
        step = hook.step(model(torch.randn(4, 1, 6, 6)), torch.tensor([0, 1, 0, 1]))
        assert step.features.shape == (4, 5, 1, 1)
        method.loss(step)
    assert method.gamma_net.A.shape == (5, 16)
    flat = replace(step, features=step.features.flatten(1))
    assert torch.equal(method.loss(step), method.loss(flat))


def test_missing_parts_are_errors():
    _, method, step = toy("full", Sece())
    with pytest.raises(InputError, match="holdout"):
        method.outer_step(replace(step, holdout=None))
    with pytest.raises(InputError, match="inputs"):
        method.outer_step(replace(step, inputs=None))
    with pytest.raises(InputError, match="look_ahead"):
        MetaRegularization(look_ahead="none")


def test_a_loaded_gamma_net_moves_to_the_features():
    """A trainer loads it before any features show the device."""
    saved, loaded = GammaNet(), GammaNet(seed=1)
    saved(torch.zeros(2, 5))
    loaded.load_state_dict(saved.state_dict())
    assert loaded(torch.zeros(2, 5, device="meta")).device.type == "meta"
    assert {parameter.device.type for parameter in loaded.parameters()} == {"meta"}
