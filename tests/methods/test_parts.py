"""What is particular to one method: thresholds, histories, mixing, composing."""

import pytest
import torch
from torch import nn

from calibrant import losses
from calibrant.errors import InputError
from calibrant.methods import (
    Avuc,
    CrossEntropy,
    ErrorRegularization,
    FeatureMixup,
    Focal,
    HeadNoise,
    InputMixup,
    Mmce,
    create,
)
from calibrant.training import Step, attach

LOGITS = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
LABELS = torch.tensor([0, 1, 2, 0, 1, -100])
STEP = Step(LOGITS, LABELS)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("cross_entropy", {}),
        ("mse", {}),
        ("label_smoothing", {"alpha": 0.2, "others_only": True}),
        ("focal", {"gamma": 1.5}),
        ("flsd", {}),
        ("entropy_penalty", {"weight": 0.3}),
        ("margin_smoothing", {"weight": 0.3, "margin": 0.5, "class_mean": True}),
    ],
)
def test_a_task_loss_is_the_loss_function(name, options):
    expected = getattr(losses, name)(LOGITS, LABELS, **options)
    torch.testing.assert_close(create(name, **options).loss(STEP), expected)
    counted = create(name, **options).loss(Step(LOGITS, LABELS, num_items=20))
    torch.testing.assert_close(counted, expected * 5 / 20)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mmce", {"bandwidth": 0.2}),
        ("weighted_mmce", {"bandwidth": 0.2}),
        ("dece", {"bins": 5, "bin_temperature": 0.1, "rank_sharpness": 10.0}),
        ("sece", {"bandwidth": 0.2}),
        ("avuc", {"threshold": 0.5, "measure": "confidence"}),
        ("error_regularization", {"error": "wrong", "normalize": False}),
        ("mdca", {}),
        ("dca", {}),
    ],
)
def test_a_regularizer_adds_the_weighted_loss_function(name, options):
    term = getattr(losses, name)(LOGITS, LABELS, **options)
    assert term > 0
    method = create(name, task=Focal(gamma=2.0), weight=0.7, **options)
    expected = losses.focal(LOGITS, LABELS, 2.0) + 0.7 * term
    torch.testing.assert_close(method.loss(STEP), expected)


@pytest.mark.parametrize("name", ["avuc", "error_regularization"])
def test_count_ignored_reproduces_the_published_code(name):
    options = {"avuc": {"threshold": 0.9}, "error_regularization": {"error": "wrong"}}[name]
    masked = create(name, **options).loss(STEP)
    counted = create(name, count_ignored=True, **options).loss(STEP)
    term = getattr(losses, name)(LOGITS, LABELS, count_ignored=True, **options)
    weight = create(name).weight
    torch.testing.assert_close(counted, losses.cross_entropy(LOGITS, LABELS) + weight * term)
    assert counted != masked


def test_avuc_threshold_from_the_warm_up():
    method = Avuc(warm_up=2)
    halves = [Step(LOGITS[:3], LABELS[:3]), Step(LOGITS[3:], LABELS[3:])]
    for half in halves:
        expected = losses.cross_entropy(half.logits, half.labels)
        torch.testing.assert_close(method.loss(half), expected)  # The task alone.
    kept = LABELS != -100
    p = LOGITS.softmax(-1)
    entropy = -(p * p.log()).sum(-1)
    right = LOGITS.argmax(-1) == LABELS
    assert 0 < int((right & kept).sum()) < 5
    threshold = (entropy[right & kept].mean() + entropy[~right & kept].mean()) / 2
    expected = losses.avuc(LOGITS, LABELS, threshold)
    torch.testing.assert_close(method.term(STEP), expected)
    with pytest.raises(InputError, match="warm-up"):
        Avuc(threshold="never")


def test_history_counts_how_often_an_example_was_right():
    method = ErrorRegularization(error="history", examples=10)
    logits = torch.tensor([[2.0, 0.0], [1.0, 0.0], [3.0, 0.0]])
    examples = torch.tensor([7, 2, 4])
    method.term(Step(logits, torch.tensor([0, 0, -100]), examples=examples))
    # Example 7 was right, then wrong: error ½. Example 2 right twice: error 0. One pair.
    found = method.term(Step(logits, torch.tensor([1, 0, -100]), examples=examples))
    confidence = logits.softmax(-1)[:, 0]
    torch.testing.assert_close(found, (confidence[0] - confidence[1]) ** 2)
    assert method.seen.tolist() == [0, 0, 2, 0, 0, 0, 0, 2, 0, 0]
    with pytest.raises(InputError, match="size of the data set"):
        ErrorRegularization(error="history").term(Step(logits, torch.tensor([1, 0, 0])))
    with pytest.raises(InputError, match="across_ranks"):
        ErrorRegularization(error="history", examples=10, across_ranks=True)
    with pytest.raises(InputError, match=r"step\.examples"):
        method.term(Step(logits, torch.tensor([1, 0, -100])))


def test_history_of_what_has_no_label_is_an_error():
    """Under count_ignored, which would otherwise look up whichever example has number 0."""
    method = ErrorRegularization(error="history", examples=3, count_ignored=True)
    logits, examples = torch.tensor([[2.0, 0.0], [1.0, 0.0]]), torch.tensor([0, 1])
    found = method.term(Step(logits, torch.tensor([-100, 0]), examples=examples))
    found = method.term(Step(logits.flip(0), torch.tensor([0, -100]), examples=examples))
    confidence = logits.softmax(-1)[:, 0]
    torch.testing.assert_close(found, (confidence[0] - confidence[1]) ** 2)


def test_input_mixup_mixes_pixels_and_labels_in_the_same_shares():
    inputs, labels = torch.eye(6, 8), torch.tensor([0, 1, 2, 0, 1, 2])
    method = InputMixup(alpha=1.0, seed=2)
    mixed, same = method.prepare((inputs, labels))
    share, partner, partner_labels = method._drawn
    assert torch.equal(same, labels)
    assert torch.equal(partner_labels, labels[partner])
    torch.testing.assert_close(mixed, share * inputs + (1 - share) * inputs[partner])
    logits = LOGITS
    expected = share * losses.cross_entropy(logits, labels) + (1 - share) * losses.cross_entropy(
        logits, labels[partner]
    )
    torch.testing.assert_close(method.loss(Step(logits, labels)), expected)
    as_mapping = InputMixup(alpha=1.0, seed=2).prepare({"pixel_values": inputs, "labels": labels})
    assert torch.equal(as_mapping["pixel_values"], mixed)


@pytest.mark.parametrize("mixup", [InputMixup, FeatureMixup])
def test_mixup_counts_the_label_of_a_partner_in_the_history_of_the_partner(mixup):
    history = ErrorRegularization(error="history", examples=9)
    method = mixup(history, alpha=1.0, seed=2)
    labels = torch.tensor([0, 1, 2, -100, 1, 2])
    examples = torch.tensor([8, 3, 5, 1, 0, 2])
    method.prepare((torch.zeros(6, 4), labels))
    partner, both = method._drawn[1], method._both
    assert 0 < int(both.sum()) < 5
    assert (partner[both] != torch.arange(6)[both]).any()
    logits = torch.eye(3)[[0, 2, 1, 0, 1, 0]]
    method.loss(Step(logits, labels, examples=examples))
    right, seen = torch.zeros(9), torch.zeros(9)
    for row in range(6):
        for other in (row, int(partner[row]) if both[row] else row):
            if labels[other] != -100:
                seen[examples[other]] += 1
                right[examples[other]] += logits[row].argmax() == labels[other]
    assert torch.equal(history.seen, seen)
    assert torch.equal(history.right, right)


def test_mixup_says_what_it_cannot_mix():
    with pytest.raises(InputError, match="FeatureMixup"):
        InputMixup().prepare((torch.ones(2, 3, dtype=torch.long), torch.tensor([0, 1])))
    with pytest.raises(InputError, match="pair"):
        InputMixup().prepare(torch.ones(2))
    with pytest.raises(InputError, match="prepare"):
        FeatureMixup().loss(STEP)
    with pytest.raises(InputError, match="alpha"):
        FeatureMixup(alpha=0.0)
    for wrapped in (InputMixup(), Mmce(FeatureMixup(Focal()))):
        with pytest.raises(InputError, match=r"another mixup, .* one is enough"):
            FeatureMixup(wrapped)


def test_feature_mixup_mixes_in_training_alone():
    model = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3))
    inputs = torch.randn(6, 4)
    method = FeatureMixup(alpha=1.0, seed=1)
    with attach(model, method) as hook:
        method.prepare((inputs, LABELS))
        share, partner, _ = method._drawn
        logits = model(inputs)
        step = hook.step(logits, LABELS)
        with torch.no_grad():
            plain = model(inputs)
    features = model[0](inputs)
    both = ((LABELS != -100) & (LABELS[partner] != -100)).unsqueeze(-1)
    mixed = torch.where(both, share * features + (1 - share) * features[partner], features)
    torch.testing.assert_close(logits, model[1](mixed))
    torch.testing.assert_close(plain, model[1](features))
    torch.testing.assert_close(step.features, features)  # Recorded unmixed.


def test_parts_compose():
    model = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3))
    method = HeadNoise(FeatureMixup(Mmce(Focal())), with_=[ErrorRegularization(), Mmce()])
    assert method.passes == 4
    with attach(model, method) as hook:
        inputs, labels = method.prepare((torch.randn(6, 4), LABELS))
        method.loss(hook.step(model(inputs), labels)).backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())


def test_head_noise_is_the_outermost_part():
    for outer in (Mmce, FeatureMixup):
        with pytest.raises(InputError, match=rf"HeadNoise\({outer.__name__}"):
            outer(HeadNoise())
    with pytest.raises(InputError, match="one is enough"):
        HeadNoise(HeadNoise())
    with pytest.raises(InputError, match="with a task"):
        HeadNoise(with_=Mmce(CrossEntropy()))
    with pytest.raises(InputError, match="CrossEntropy"):
        HeadNoise(with_=CrossEntropy())
    with pytest.raises(InputError, match="got the class Mmce"):
        HeadNoise(with_=Mmce)
    with pytest.raises(InputError, match="reduction"):
        HeadNoise(reduction="none")
