"""Losses on whole masks: classes last, void pixels out of value and gradient, n in the 100,000s."""

import time

import pytest
import torch

from calibrant.methods import create
from calibrant.training import Step

NAMES = (
    "cross_entropy", "label_smoothing", "focal", "margin_smoothing", "entropy_penalty", "mmce",
    "sece", "error_regularization", "dece", "mdca", "avuc", "mse",
)  # fmt: skip
PAIRWISE = ("mmce", "sece", "error_regularization")


def batch(images=2, side=12, classes=4, seed=0):
    """Logits as a convolution has them, classes second, and masks with void."""
    random = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(images, classes, side, side, generator=random, dtype=torch.float64)
    labels = torch.randint(0, classes, (images, side, side), generator=random)
    labels[torch.rand(labels.shape, generator=random) < 0.2] = -100
    return logits.requires_grad_(), labels


@pytest.mark.parametrize("name", NAMES)
def test_void_pixels_are_as_if_they_were_not_there(name):
    logits, labels = batch()
    kept = labels != -100
    whole = create(name).loss(Step(logits.movedim(1, -1), labels))
    (gradient,) = torch.autograd.grad(whole, logits)
    rows = logits.detach().movedim(1, -1)[kept].requires_grad_()
    alone = create(name).loss(Step(rows, labels[kept]))
    (of_rows,) = torch.autograd.grad(alone, rows)
    torch.testing.assert_close(whole, alone)
    torch.testing.assert_close(gradient.movedim(1, -1)[kept], of_rows)
    assert (gradient.movedim(1, -1)[~kept] == 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_nothing_leaks_from_void_pixels(name):
    logits, labels = batch()
    void = (labels == -100).unsqueeze(1)
    spoilt = logits.detach().masked_fill(void, float("nan")).requires_grad_()
    values = [create(name).loss(Step(x.movedim(1, -1), labels)) for x in (logits, spoilt)]
    torch.testing.assert_close(values[0], values[1])
    (gradient,) = torch.autograd.grad(values[1], spoilt)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_of_void_is_no_loss(name):
    logits, labels = batch()
    loss = create(name).loss(Step(logits.movedim(1, -1), torch.full_like(labels, -100)))
    (gradient,) = torch.autograd.grad(loss, logits)
    assert float(loss.detach()) == 0
    assert (gradient == 0).all()


@pytest.mark.parametrize("name", PAIRWISE)
def test_half_a_million_pixels(name):
    """8 images of 256 × 256: as a matrix of pairs this would be two terabytes in float64."""
    logits, labels = batch(8, 256, 3)
    logits = logits.detach().float().requires_grad_()
    began = time.process_time()
    create(name).loss(Step(logits.movedim(1, -1), labels)).backward()
    assert time.process_time() - began < 20  # About one second on an idle core.
    assert logits.grad.isfinite().all()
    assert (logits.grad.movedim(1, -1)[labels == -100] == 0).all()
    assert logits.grad.abs().sum() > 0
