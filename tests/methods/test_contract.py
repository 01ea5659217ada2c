"""What every registered method keeps: one suite over the whole table."""

import copy

import pytest
import torch
from torch import nn

from calibrant.methods import METHODS, create
from calibrant.training import attach

CLASSES = 3
# A warm-up would leave AvUC's own term out of the suite.
OPTIONS = {"avuc": {"threshold": "median"}, "input_mixup": {"alpha": 1.0}}

every_method = pytest.mark.parametrize("name", METHODS)
both_shapes = pytest.mark.parametrize("tokens", [None, 5], ids=["(b,K)", "(b,t,K)"])


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.encoder = nn.Sequential(nn.Linear(4, 6), nn.Tanh())
        self.classifier = nn.Linear(6, CLASSES)

    def forward(self, inputs):
        return self.classifier(self.encoder(inputs))


def make(name, **options):
    return create(name, **OPTIONS.get(name, {}), **options)


def batch(tokens, count=8, seed=1):
    generator = torch.Generator().manual_seed(seed)
    shape = (count,) if tokens is None else (count, tokens)
    inputs = torch.randn(*shape, 4, generator=generator)
    labels = torch.randint(CLASSES, shape, generator=generator)
    labels[torch.rand(shape, generator=generator) < 0.3] = -100
    return inputs, labels


def run(method, model, data, tokens, steps=1):
    """Loss of the last of ``steps`` training steps, its gradients left in the model."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with attach(model, method) as hook:
        for index in range(steps):
            model.zero_grad()
            held_out, held_out_labels = batch(tokens, seed=9)
            with torch.no_grad():
                holdout = hook.step(model(held_out), held_out_labels)
            inputs, labels = method.prepare(data)
            step = hook.step(model(inputs), labels, holdout=holdout)
            loss = method.loss(step)
            loss.backward()
            method.outer_step(step)
            if index < steps - 1:
                optimizer.step()
    return loss.detach()


def gradients(model):
    return [parameter.grad.clone() for parameter in model.parameters()]


@every_method
@both_shapes
def test_loss_and_gradients_are_finite_and_reach_every_parameter(name, tokens):
    model = Classifier()
    loss = run(make(name), model, batch(tokens), tokens)
    assert loss.shape == ()
    assert torch.isfinite(loss)
    for parameter, gradient in zip(model.parameters(), gradients(model), strict=True):
        assert gradient.shape == parameter.shape
        assert torch.isfinite(gradient).all()
        assert gradient.abs().sum() > 0


@every_method
@both_shapes
def test_what_stands_at_ignored_positions_does_not_matter(name, tokens):
    inputs, labels = batch(tokens)
    other = torch.where((labels == -100).unsqueeze(-1), 7.0, inputs)
    first, second = Classifier(), Classifier()
    loss = run(make(name), first, (inputs, labels), tokens)
    assert torch.equal(loss, run(make(name), second, (other, labels), tokens))
    for a, b in zip(gradients(first), gradients(second), strict=True):
        torch.testing.assert_close(a, b)


@every_method
@both_shapes
def test_all_ignored_gives_zero(name, tokens):
    inputs, labels = batch(tokens)
    model = Classifier()
    loss = run(make(name), model, (inputs, torch.full_like(labels, -100)), tokens)
    assert loss == 0
    assert all((gradient == 0).all() for gradient in gradients(model))


@every_method
@both_shapes
def test_an_empty_batch_gives_zero(name, tokens):
    inputs, labels = batch(tokens)
    model = Classifier()
    assert run(make(name), model, (inputs[:0], labels[:0]), tokens) == 0
    assert all((gradient == 0).all() for gradient in gradients(model))


@every_method
def test_the_model_is_as_before(name):
    model = Classifier()
    before = copy.deepcopy(model.state_dict())
    logits = model(batch(None)[0])
    hooks = [dict(part._forward_pre_hooks) for part in model.modules()]
    run(make(name), model, batch(None), None)
    assert [dict(part._forward_pre_hooks) for part in model.modules()] == hooks
    assert model.state_dict().keys() == before.keys()
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert torch.equal(model(batch(None)[0]), logits)


@every_method
def test_the_global_random_stream_is_left_alone(name):
    """Dropout and shuffling of the user's run are those of a run without the method."""
    model, method = Classifier(), make(name)
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    run(method, model, batch(None), None)
    assert torch.equal(torch.rand(3), expected)


@every_method
@both_shapes
def test_the_same_seed_gives_the_same_training(name, tokens):
    first, second = Classifier(), Classifier()
    assert torch.equal(
        run(make(name), first, batch(tokens), tokens, steps=3),
        run(make(name), second, batch(tokens), tokens, steps=3),
    )
    assert all(torch.equal(a, b) for a, b in zip(gradients(first), gradients(second), strict=True))


@every_method
def test_state_dict_continues_where_it_was(name, tmp_path):
    method, model = make(name), Classifier()
    run(method, model, batch(None), None, steps=2)
    torch.save(method.state_dict(), tmp_path / "method.pt")
    other = make(name)
    other.load_state_dict(torch.load(tmp_path / "method.pt", weights_only=True))
    twin = copy.deepcopy(model)
    assert torch.equal(
        run(method, model, batch(None), None, steps=2), run(other, twin, batch(None), None, steps=2)
    )
    assert all(torch.equal(a, b) for a, b in zip(gradients(model), gradients(twin), strict=True))


@every_method
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_precisions(name, dtype):
    model = Classifier().to(dtype)
    inputs, labels = batch(5)
    method = make(name)
    with attach(model, method) as hook:
        inputs, labels = method.prepare((inputs.to(dtype), labels))
        step = hook.step(model(inputs), labels)
        loss = method.loss(step)
        loss.backward()
    assert loss.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert torch.isfinite(loss)
    assert all(torch.isfinite(gradient).all() for gradient in gradients(model))
    assert all(p.grad.dtype == dtype for p in model.parameters())


@every_method
def test_one_example_and_saturated_logits(name):
    model = Classifier()
    with torch.no_grad():
        model.classifier.weight *= 1e4
    for labels in ([0], [1], [2]):
        model.zero_grad()
        loss = run(make(name), model, (torch.ones(1, 4), torch.tensor(labels)), None)
        assert torch.isfinite(loss)
        assert all(torch.isfinite(gradient).all() for gradient in gradients(model))


@every_method
def test_micro_batches_with_a_count_add_up_in_the_task_gradient_of_the_encoder(name):
    """Σ over micro-batches of kept_m / N is 1: no method counts a batch twice."""
    inputs, labels = torch.zeros(8, 4), torch.zeros(8, dtype=torch.long)  # All examples alike.
    whole, parts = Classifier(), Classifier()
    method = make(name)
    with attach(whole, method) as hook:
        x, y = method.prepare((inputs, labels))
        method.loss(hook.step(whole(x), y, num_items=8, last=True)).backward()
    method = make(name)
    with attach(parts, method) as hook:
        for rows in ((0, 3), (3, 8)):
            x, y = method.prepare((inputs[slice(*rows)], labels[slice(*rows)]))
            last = rows[1] == 8
            method.loss(hook.step(parts(x), y, num_items=8, last=last)).backward()
    # The noise itself differs between the two splits, and reaches the head alone.
    for a, b in zip(parts.encoder.parameters(), whole.encoder.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)


def accumulated(method, hook, model, data, parts, last=True, processes=1):
    """The losses of the micro-batches of one optimizer step, its gradients left in the model.

    Several ``processes`` count their examples together, and this is one of them.
    """
    inputs, labels = data
    items, losses = processes * int((labels != -100).sum()), []
    model.zero_grad()
    for number, rows in enumerate(torch.arange(len(inputs)).chunk(parts)):
        x, y = method.prepare((inputs[rows], labels[rows]))
        whole = last and number == parts - 1
        loss = method.loss(hook.step(model(x), y, num_items=items, last=whole))
        loss.backward()
        losses.append(loss.detach())
    return [*losses, *(gradient.clone() for gradient in gradients(model))]


@every_method
@pytest.mark.parametrize(
    ("noticed", "processes"),
    [  # The counts of other processes hide which micro-batches are left over.
        ("attached anew", 1),
        ("abandoned", 1),
        ("by num_items", 1),
        ("attached anew", 2),
        ("abandoned", 2),
    ],
)
def test_an_optimizer_step_that_was_broken_off_leaves_nothing_behind(name, noticed, processes):
    """The next one gives what it gives to a method that never saw the micro-batches before."""
    broken_off, model = make(name), Classifier()
    hook = attach(model, broken_off)
    accumulated(broken_off, hook, model, batch(None, count=3, seed=4), parts=1, last=False)
    if noticed == "attached anew":
        hook.remove()
        hook = attach(model, broken_off)
    if noticed == "abandoned":
        broken_off.abandon()
    twin = make(name)
    twin.load_state_dict(copy.deepcopy(broken_off.state_dict()))
    found = accumulated(broken_off, hook, model, batch(None, seed=5), 2, processes=processes)
    hook.remove()
    with attach(model, twin) as hook:
        expected = accumulated(twin, hook, model, batch(None, seed=5), 2, processes=processes)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)
