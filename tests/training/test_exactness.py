"""HeadNoise gives the gradients of the paper's Algorithm 1, however the step is run."""

import copy

import pytest
import torch
from algorithm_one import (
    CLASSES,
    REGULARIZATION,
    WEIGHT,
    Classifier,
    Mirror,
    algorithm_one,
    gradients,
    token_batch,
)

from calibrant.methods import ErrorRegularization, HeadNoise
from calibrant.training import attach

ROUNDING = {"rtol": 1e-12, "atol": 1e-15}


def head_noise(abstention=False, **options):
    parts = (ErrorRegularization(weight=REGULARIZATION),) if abstention else ()
    return HeadNoise(weight=WEIGHT, noise=Mirror(), with_=parts, **options)


def assert_same(actual, expected, **tolerance):
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(actual[name], value, **(tolerance or ROUNDING), msg=name)


@pytest.mark.parametrize("abstention", [False, True])
@pytest.mark.parametrize("shape", ["tokens", "sequences"])
def test_one_step(abstention, shape):
    model = Classifier()
    inputs, labels = token_batch()
    if shape == "sequences":
        inputs, labels = inputs[:, 0], labels[:, 0]
    expected = algorithm_one(model, inputs, labels, abstention)
    model.zero_grad()
    method = head_noise(abstention)
    with attach(model, method) as hook:
        loss = method.loss(hook.step(model(inputs), labels))
    loss.backward()
    assert_same(gradients(model), expected)
    assert method.passes == (3 if abstention else 2)


def test_the_loss_reads_as_the_undivided_task_loss():
    model = Classifier()
    inputs, labels = token_batch()
    method = head_noise(abstention=True)
    with attach(model, method) as hook:
        logits = model(inputs)
        loss = method.loss(hook.step(logits, labels))
    task = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    torch.testing.assert_close(loss, task)
    assert torch.equal(loss, method.terms["task"])
    assert method.terms["noise"] > 0
    assert method.terms["with"] > 0


@pytest.mark.parametrize("abstention", [False, True])
@pytest.mark.parametrize("micro_batches", [1, 2, 4])
def test_accumulation_equals_one_large_batch(abstention, micro_batches):
    """Token-averaged, with a different number of tokens in each micro-batch."""
    model = Classifier()
    inputs, labels = token_batch()
    expected = algorithm_one(model, inputs, labels, abstention)
    counts = [int((part != -100).sum()) for part in labels.chunk(micro_batches)]
    assert micro_batches == 1 or len(set(counts)) > 1
    model.zero_grad()
    method = head_noise(abstention)
    reported = 0.0
    with attach(model, method) as hook:
        for index, (x, y) in enumerate(
            zip(inputs.chunk(micro_batches), labels.chunk(micro_batches), strict=True)
        ):
            last = index == micro_batches - 1
            step = hook.step(model(x), y, num_items=sum(counts), last=last)
            loss = method.loss(step)
            loss.backward()
            reported += loss.item()
    assert_same(gradients(model), expected)
    task = torch.nn.functional.cross_entropy(model(inputs).flatten(0, 1), labels.flatten())
    assert reported == pytest.approx(task.item(), rel=1e-12)


@pytest.mark.parametrize("micro_batches", [1, 2, 4])
def test_accumulation_of_means(micro_batches):
    """The other habit: each micro-batch a mean, divided by their number; equal counts."""
    model = Classifier()
    inputs, labels = token_batch()
    labels = torch.full_like(labels, 1)
    labels[:, -1] = -100
    expected = algorithm_one(model, inputs, labels)
    model.zero_grad()
    method = head_noise()
    with attach(model, method) as hook:
        for x, y in zip(inputs.chunk(micro_batches), labels.chunk(micro_batches), strict=True):
            (method.loss(hook.step(model(x), y)) / micro_batches).backward()
    assert_same(gradients(model), expected)


@pytest.mark.parametrize("abstention", [False, True])
def test_loss_scaler(abstention):
    model = Classifier()
    inputs, labels = token_batch()
    expected = algorithm_one(model, inputs, labels, abstention)
    model.zero_grad()
    method = head_noise(abstention)
    scaler = torch.amp.GradScaler("cpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    with attach(model, method) as hook:
        scaler.scale(method.loss(hook.step(model(inputs), labels))).backward()
    scaler.unscale_(optimizer)
    assert_same(gradients(model), expected)


@pytest.mark.parametrize("abstention", [False, True])
@pytest.mark.parametrize("inside", [False, True], ids=["loss outside autocast", "loss inside"])
def test_autocast_with_loss_scaler(abstention, inside):
    """Against Algorithm 1 under the same autocast, to bfloat16 rounding."""
    model = Classifier().float()
    inputs, labels = token_batch()
    inputs = inputs.float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected = algorithm_one(model, inputs, labels, abstention, scale=1024.0)
    expected = {name: value / 1024 for name, value in expected.items()}
    model.zero_grad()
    method = head_noise(abstention)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    with attach(model, method) as hook:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            step = hook.step(model(inputs), labels)
            if inside:
                loss = method.loss(step)
        assert step.features.dtype == torch.bfloat16
        if not inside:
            loss = method.loss(step)
        scaler.scale(loss).backward()
    scaler.unscale_(torch.optim.SGD(model.parameters(), lr=1.0))
    for name, value in expected.items():
        error = (model.get_parameter(name).grad - value).norm() / value.norm()
        assert error < 0.02, name
    if not abstention:  # Dividing by 2 and multiplying by 2 rounds nowhere.
        encoder = {k: v for k, v in gradients(model).items() if k.startswith("encoder")}
        assert_same(encoder, {name: expected[name] for name in encoder}, rtol=1e-6, atol=0.0)


@pytest.mark.parametrize("abstention", [False, True])
def test_clipping(abstention):
    model = Classifier()
    inputs, labels = token_batch()
    algorithm_one(model, inputs, labels, abstention)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    expected = gradients(model)
    model.zero_grad()
    method = head_noise(abstention)
    with attach(model, method) as hook:
        method.loss(hook.step(model(inputs), labels)).backward()
    torch.testing.assert_close(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01), norm)
    assert norm > 0.01
    assert_same(gradients(model), expected)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # The compiler's own.
@pytest.mark.parametrize(
    ("abstention", "backend"), [(False, "aot_eager"), (True, "aot_eager"), (True, "inductor")]
)
def test_compile(abstention, backend):
    torch._dynamo.reset()
    model = Classifier()
    inputs, labels = token_batch()
    expected = algorithm_one(model, inputs, labels, abstention)
    model.zero_grad()
    method = head_noise(abstention)
    compiled = torch.compile(model, backend=backend)
    with attach(compiled, method) as hook:
        for _ in range(2):  # The second call runs what the first compiled.
            model.zero_grad()
            method.loss(hook.step(compiled(inputs), labels)).backward()
    assert_same(gradients(model), expected, rtol=1e-10, atol=1e-14)
    torch._dynamo.reset()


def test_published_code_quirks():
    """reduction="sum", weight=1, count_ignored: a sum over all positions, padding included."""
    model = Classifier()
    inputs, labels = token_batch()
    method = HeadNoise(reduction="sum", weight=1.0, count_ignored=True, noise=Mirror())
    with attach(model, method) as hook:
        method.loss(hook.step(model(inputs), labels))
    noise = Mirror()(model.encoder(inputs))
    confidence = model.classifier(noise).softmax(-1).max(-1).values
    assert confidence.shape == labels.shape
    torch.testing.assert_close(method.terms["noise"], ((1 / CLASSES - confidence) ** 2).sum())


def test_counting_ignored_positions_adds_up_over_micro_batches():
    inputs, labels = token_batch()
    labels[:, 0], labels[:, 1:] = 1, -100  # Each micro-batch has the same share.
    found = []
    for parts in (1, 4):
        method, total = head_noise(count_ignored=True), 0.0
        model = Classifier()
        with attach(model, method) as hook:
            for x, y in zip(inputs.chunk(parts), labels.chunk(parts), strict=True):
                method.loss(hook.step(model(x), y, num_items=len(labels)))
                total += method.terms["noise"].item()
        found.append(total)
    assert found[0] == pytest.approx(found[1], rel=1e-12)


def test_training_with_and_without_a_zero_weight_agree():
    """λ = 0 leaves half of the task gradient in the head, and all of it in the encoder."""
    model = Classifier()
    plain = copy.deepcopy(model)
    inputs, labels = token_batch()
    method = HeadNoise(weight=0.0)
    with attach(model, method) as hook:
        method.loss(hook.step(model(inputs), labels)).backward()
    torch.nn.functional.cross_entropy(plain(inputs).flatten(0, 1), labels.flatten()).backward()
    for name, value in gradients(plain).items():
        share = 1 if name.startswith("encoder") else 0.5
        torch.testing.assert_close(model.get_parameter(name).grad, share * value, **ROUNDING)
