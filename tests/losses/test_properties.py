"""What holds for any logits and labels."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant import losses

LOSSES = [
    losses.cross_entropy,
    losses.mse,
    losses.label_smoothing,
    losses.focal,
    losses.flsd,
    losses.entropy_penalty,
    losses.margin_smoothing,
    losses.mmce,
    losses.weighted_mmce,
    losses.dece,
    losses.sece,
    losses.avuc,
    losses.error_regularization,
    losses.mdca,
    losses.dca,
]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.__name__)


@st.composite
def batches(draw):
    # Quarters give ties in logits, confidences and errors.
    n, classes = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    cells = st.integers(-200, 200).map(lambda x: x / 4)
    flat = draw(st.lists(cells, min_size=n * classes, max_size=n * classes))
    labels = draw(st.lists(st.integers(-1, classes - 1), min_size=n, max_size=n))
    logits = torch.tensor(flat, dtype=torch.float64).view(n, classes)
    return logits, torch.tensor([-100 if y < 0 else y for y in labels])


def value_and_gradient(loss, logits, labels):
    leaf = logits.clone().requires_grad_()
    value = loss(leaf, labels)
    value.backward()
    return value.detach(), leaf.grad


@every_loss
@settings(max_examples=25)
@given(batch=batches(), data=st.data())
def test_order_does_not_matter(loss, batch, data):
    logits, labels = batch
    order = torch.tensor(data.draw(st.permutations(range(len(labels)))))
    expected = loss(logits, labels)
    torch.testing.assert_close(loss(logits[order], labels[order]), expected, rtol=1e-9, atol=2e-8)


@every_loss
@settings(max_examples=25)
@given(batch=batches(), shift=st.integers(-40, 40))
def test_only_differences_of_logits_matter(loss, batch, shift):
    logits, labels = batch
    torch.testing.assert_close(
        loss(logits + shift, labels), loss(logits, labels), rtol=1e-9, atol=2e-8
    )


@every_loss
@settings(max_examples=25)
@given(batch=batches())
def test_ignored_examples_add_nothing(loss, batch):
    logits, labels = batch
    more = torch.cat([torch.full_like(logits, 7.0), logits, torch.zeros_like(logits)])
    ignored = torch.full_like(labels, -100)
    value, gradient = value_and_gradient(loss, more, torch.cat([ignored, labels, ignored]))
    expected, _ = value_and_gradient(loss, logits, labels)
    torch.testing.assert_close(value, expected, rtol=1e-9, atol=2e-8)
    assert torch.isfinite(gradient).all()
    assert torch.equal(gradient[: len(labels)], torch.zeros_like(logits))


@every_loss
@settings(max_examples=25)
@given(batch=batches())
def test_never_negative_except_for_the_entropy(loss, batch):
    logits, labels = batch
    lowest = -0.1 * torch.log(torch.tensor(4.0)) if loss is losses.entropy_penalty else 0
    assert loss(logits, labels) >= lowest


@settings(max_examples=50)
@given(batch=batches())
def test_focal_lies_below_cross_entropy(batch):
    logits, labels = batch
    assert losses.focal(logits, labels) <= losses.cross_entropy(logits, labels) + 1e-12
