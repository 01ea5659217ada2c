"""Values computed by hand, by plain loops over numbers, and by other libraries."""

import math
import random

import numpy as np
import pytest
import torch
from netcal.metrics import MMCE
from torch.nn import functional
from torch.special import softmax

from calibrant import losses
from calibrant.errors import InputError

IGNORE = [3, 8]


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(5)
    logits = 3 * torch.randn(24, 4, generator=generator, dtype=torch.float64)
    labels = torch.randint(4, (24,), generator=generator)
    labels[IGNORE] = -100
    return logits, labels


def examples(logits, labels):
    """(p, y, logits) of each kept example, in plain numbers."""
    for row, label in zip(logits.tolist(), labels.tolist(), strict=True):
        if label != -100:
            exps = [math.exp(x - max(row)) for x in row]
            yield [e / sum(exps) for e in exps], label, row


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def entropy(p):
    return -sum(x * math.log(x) for x in p)


def is_right(p, y):
    return p.index(max(p)) == y


# Plain twins: one line of arithmetic for each loss of one example.
TWINS = {
    "cross_entropy": lambda p, y, z: -math.log(p[y]),
    "mse": lambda p, y, z: sum((x - (k == y)) ** 2 for k, x in enumerate(p)),
    "label_smoothing": lambda p, y, z: sum(
        -(0.95 * (k == y) + 0.05 / 4) * math.log(x) for k, x in enumerate(p)
    ),
    "focal": lambda p, y, z: -((1 - p[y]) ** 3) * math.log(p[y]),
    "flsd": lambda p, y, z: -((1 - p[y]) ** (5 if p[y] < 0.2 else 3)) * math.log(p[y]),
    "entropy_penalty": lambda p, y, z: -math.log(p[y]) - 0.1 * entropy(p),
    "margin_smoothing": lambda p, y, z: (
        -math.log(p[y]) + 0.1 * sum(max(0.0, max(z) - x - 10) for x in z)
    ),
}


@pytest.mark.parametrize("name", TWINS)
def test_task_losses_equal_plain_loops(batch, name):
    logits, labels = batch
    expected = mean(TWINS[name](*one) for one in examples(logits, labels))
    assert float(getattr(losses, name)(logits, labels)) == pytest.approx(expected, rel=1e-12)


def test_label_smoothing_over_the_other_classes(batch):
    logits, labels = batch
    expected = mean(
        sum(-(0.7 if k == y else 0.1) * math.log(x) for k, x in enumerate(p))
        for p, y, _ in examples(logits, labels)
    )
    value = losses.label_smoothing(logits, labels, 0.3, others_only=True)
    assert float(value) == pytest.approx(expected, rel=1e-12)


def test_label_smoothing_of_one_class_is_zero():
    for others_only in (False, True):
        value = losses.label_smoothing(
            torch.ones(2, 1), torch.zeros(2).long(), 0.3, others_only=others_only
        )
        assert value == 0


def test_margin_smoothing_with_the_mean_over_classes(batch):
    logits, labels = batch
    expected = mean(
        -math.log(p[y]) + 0.2 * mean(max(0.0, max(z) - x - 2) for x in z)
        for p, y, z in examples(logits, labels)
    )
    value = losses.margin_smoothing(logits, labels, 0.2, 2.0, class_mean=True)
    assert float(value) == pytest.approx(expected, rel=1e-12)


def test_torch_has_the_same_cross_entropy(batch):
    logits, labels = batch
    for smoothing in (0.0, 0.05, 0.4, 1.0):
        torch.testing.assert_close(
            losses.label_smoothing(logits, labels, smoothing),
            functional.cross_entropy(logits, labels, label_smoothing=smoothing),
        )
    for reduction in ("mean", "sum", "none"):
        torch.testing.assert_close(
            losses.cross_entropy(logits, labels, reduction=reduction),
            functional.cross_entropy(logits, labels, reduction=reduction),
        )
    targets = torch.rand_like(logits).softmax(-1)
    kept = labels != -100
    torch.testing.assert_close(
        losses.soft_cross_entropy(logits, targets, labels),
        functional.cross_entropy(logits[kept], targets[kept]),
    )


def test_torch_mse_is_brier_over_classes(batch):
    logits, labels = batch
    kept = labels != -100
    onehot = functional.one_hot(labels[kept], 4).double()
    expected = 4 * functional.mse_loss(softmax(logits[kept], -1), onehot)
    torch.testing.assert_close(losses.mse(logits, labels), expected)


def test_netcal_has_the_same_mmce(batch):
    logits, labels = batch
    kept = labels != -100
    expected = MMCE().measure(softmax(logits[kept], -1).numpy(), labels[kept].numpy())
    assert float(losses.mmce(logits, labels)) == pytest.approx(float(expected), rel=1e-12)


def test_focal_with_gamma_for_each_example(batch):
    logits, labels = batch
    gamma = torch.linspace(0, 5, 24, dtype=torch.float64).requires_grad_()
    value = losses.focal(logits, labels, gamma)
    value.backward()
    value = value.detach()
    kept = [g for g, y in zip(gamma.tolist(), labels.tolist(), strict=True) if y != -100]
    pairs = list(zip(kept, examples(logits, labels), strict=True))
    expected = mean(-((1 - p[y]) ** g) * math.log(p[y]) for g, (p, y, _) in pairs)
    assert float(value) == pytest.approx(expected, rel=1e-12)
    slopes = [
        -((1 - p[y]) ** g) * math.log(1 - p[y]) * math.log(p[y]) / len(pairs)
        for g, (p, y, _) in pairs
    ]
    got = [g for i, g in enumerate(gamma.grad.tolist()) if i not in IGNORE]
    assert got == pytest.approx(slopes, rel=1e-10)
    assert gamma.grad[IGNORE].tolist() == [0.0, 0.0]
    one = torch.tensor(2.0, requires_grad=True)
    losses.focal(logits, labels, one).backward()
    assert one.grad is not None


def test_focal_can_be_differentiated_twice(batch):
    # γ-Net differentiates the gradient of the loss again.
    logits, labels = batch
    gamma = torch.rand(24, dtype=torch.float64, requires_grad=True)
    inputs = (logits.clone().requires_grad_(), gamma)
    assert torch.autograd.gradgradcheck(lambda x, g: losses.focal(x, labels, g), inputs)


def test_focal_rejects_what_it_cannot_use(batch):
    logits, labels = batch
    with pytest.raises(
        InputError, match=r"one value for each label, shape \(24,\); got shape \(3,\)"
    ):
        losses.focal(logits, labels, torch.ones(3))
    with pytest.raises(InputError, match="0 or more; got -1"):
        losses.focal(logits, labels, -1.0)


def test_mmce_weighted_is_three_sums(batch):
    logits, labels = batch
    right = [max(p) for p, y, _ in examples(logits, labels) if is_right(p, y)]
    wrong = [max(p) for p, y, _ in examples(logits, labels) if not is_right(p, y)]

    def kernel(a, b):
        return math.exp(-abs(a - b) / 0.4)

    square = (
        mean(a * b * kernel(a, b) for a in wrong for b in wrong)
        + mean((1 - a) * (1 - b) * kernel(a, b) for a in right for b in right)
        - 2 * mean((1 - a) * b * kernel(a, b) for a in right for b in wrong)
    )
    value = losses.weighted_mmce(logits, labels)
    assert float(value) == pytest.approx(math.sqrt(square), rel=1e-12)


def test_dece_by_loops(batch):
    logits, labels = batch
    kept = list(examples(logits, labels))
    total = 0.0
    members = []
    for p, _, _ in kept:
        scores = [(b * max(p) - b * (b - 1) / 30) / 0.01 for b in range(1, 16)]
        exps = [math.exp(s - max(scores)) for s in scores]
        members.append([e / sum(exps) for e in exps])
    for b in range(15):
        size = sum(m[b] for m in members)
        soft = [
            max(0.0, 2 - (1 + sum(_sigmoid(100 * (x - p[y])) for k, x in enumerate(p) if k != y)))
            for p, y, _ in kept
        ]
        accuracy = sum(m[b] * a for m, a in zip(members, soft, strict=True)) / size
        confidence = sum(m[b] * max(p) for m, (p, _, _) in zip(members, kept, strict=True)) / size
        total += size / len(kept) * abs(accuracy - confidence)
    assert float(losses.dece(logits, labels)) == pytest.approx(total, rel=1e-10)


def _sigmoid(x):
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


@pytest.mark.parametrize("options", [{"bins": 0}, {"bin_temperature": 0.0}])
def test_dece_without_bins_is_refused(options):
    with pytest.raises(InputError, match="1 bin or more"):
        losses.dece(torch.zeros(2, 3), torch.tensor([0, 1]), **options)


def test_dece_with_cold_temperatures_is_ece():
    # 40 examples away from the edges of the bins: soft bins turn hard, and the sum is ECE.
    rng = np.random.default_rng(0)
    confidence = rng.integers(8, 15, 40) / 15 + 1 / 30
    wrong = rng.random(40) < 0.3
    logits = torch.tensor(np.log(np.stack([confidence, 1 - confidence], 1)))
    value = losses.dece(
        logits, torch.tensor(wrong).long(), bin_temperature=1e-5, rank_sharpness=1e6
    )
    expected = sum(abs(sum(~wrong[confidence == c] - c)) for c in np.unique(confidence)) / len(
        confidence
    )
    assert float(value) == pytest.approx(expected, rel=1e-9)


def _avuc(kept, uncertainty, threshold):
    sums = dict.fromkeys(["AC", "AU", "IC", "IU"], 0.0)
    for p, y, _ in kept:
        u, c = uncertainty(p), max(p)
        key = ("A" if is_right(p, y) else "I") + ("C" if u <= threshold else "U")
        soft = math.tanh(u) if key[1] == "U" else 1 - math.tanh(u)
        sums[key] += (c if key[0] == "A" else 1 - c) * soft
    return math.log(1 + (sums["AU"] + sums["IC"]) / (sums["AC"] + sums["IU"] + 1e-10))


@pytest.mark.parametrize(
    ("measure", "by_hand"), [("entropy", entropy), ("confidence", lambda p: 1 - max(p))]
)
def test_avuc_by_loops(batch, measure, by_hand):
    logits, labels = batch
    kept = list(examples(logits, labels))
    value = losses.avuc(logits, labels, 0.3, measure=measure)
    assert float(value) == pytest.approx(_avuc(kept, by_hand, 0.3), rel=1e-12)
    doubts = sorted(by_hand(p) for p, _, _ in kept)
    median = doubts[(len(doubts) - 1) // 2] + 1e-12
    value = losses.avuc(logits, labels, measure=measure)
    assert float(value) == pytest.approx(_avuc(kept, by_hand, median), rel=1e-12)


def test_avuc_threshold_adds_up(batch):
    logits, labels = batch
    kept = list(examples(logits, labels))
    right = mean(entropy(p) for p, y, _ in kept if is_right(p, y))
    wrong = mean(entropy(p) for p, y, _ in kept if not is_right(p, y))
    whole = losses.uncertainty_sums(logits, labels)
    parts = sum(
        losses.uncertainty_sums(logits[i : i + 5], labels[i : i + 5]) for i in range(0, 24, 5)
    )
    torch.testing.assert_close(parts, whole, rtol=1e-13, atol=0)
    assert float(losses.threshold_from(whole)) == pytest.approx((right + wrong) / 2, rel=1e-12)
    all_right = torch.where(labels == -100, -100, logits.argmax(-1))
    only = losses.uncertainty_sums(logits, all_right)
    assert only[3] == 0
    assert losses.threshold_from(only) == only[0] / only[2]
    assert losses.threshold_from(losses.uncertainty_sums(logits, torch.full((24,), -100))) == 0


def test_mdca_and_dca_by_loops(batch):
    logits, labels = batch
    kept = list(examples(logits, labels))
    expected = mean(
        abs(mean(p[k] for p, _, _ in kept) - mean(y == k for _, y, _ in kept)) for k in range(4)
    )
    assert float(losses.mdca(logits, labels)) == pytest.approx(expected, rel=1e-12)
    expected = abs(mean(max(p) for p, _, _ in kept) - mean(is_right(p, y) for p, y, _ in kept))
    assert float(losses.dca(logits, labels)) == pytest.approx(expected, rel=1e-12)


def _violation(confidences, errors):
    pairs = [
        (i, j) for i in range(len(errors)) for j in range(len(errors)) if errors[i] > errors[j]
    ]
    return [max(0.0, confidences[i] - confidences[j]) ** 2 for i, j in pairs]


@pytest.mark.parametrize("kind", ["loss", "wrong", "history"])
def test_error_regularization_by_loops(batch, kind):
    logits, labels = batch
    kept = list(examples(logits, labels))
    history = [random.Random(i).randrange(4) / 4 for i in range(24)]
    errors = {
        "loss": [-math.log(p[y]) for p, y, _ in kept],
        "wrong": [float(not is_right(p, y)) for p, y, _ in kept],
        "history": [h for i, h in enumerate(history) if i not in IGNORE],
    }[kind]
    expected = _violation([max(p) for p, _, _ in kept], errors)
    error = torch.tensor(history) if kind == "history" else kind
    value = losses.error_regularization(logits, labels, error)
    assert float(value) == pytest.approx(mean(expected), rel=1e-12)
    value = losses.error_regularization(logits, labels, error, normalize=False)
    assert float(value) == pytest.approx(sum(expected), rel=1e-12)


def test_error_regularization_rejects_an_unknown_error(batch):
    with pytest.raises(InputError, match="'loss', 'wrong' or one value for each label; got 'los'"):
        losses.error_regularization(*batch, "los")


def test_count_ignored_reproduces_code_that_forgot_the_mask(batch):
    logits, labels = batch
    everything = list(examples(logits, torch.zeros_like(labels)))
    rows = [
        (p, y if y != -100 else None)
        for (p, _, _), y in zip(everything, labels.tolist(), strict=True)
    ]
    errors = [float(p.index(max(p)) != y) for p, y in rows]
    expected = mean(_violation([max(p) for p, _ in rows], errors))
    value = losses.error_regularization(logits, labels, "wrong", count_ignored=True)
    assert float(value) == pytest.approx(expected, rel=1e-12)
    expected = _avuc([(p, y, None) for p, y in rows], entropy, 0.3)
    value = losses.avuc(logits, labels, 0.3, count_ignored=True)
    assert float(value) == pytest.approx(expected, rel=1e-12)


class TestByHand:
    """Tiny cases that can be followed on paper."""

    def test_two_examples_of_equal_confidence_one_right(self):
        logits, labels = torch.tensor([[math.log(3.0), 0.0]] * 2), torch.tensor([0, 1])  # c = 3/4
        assert float(losses.sece(logits, labels)) == pytest.approx(0.25)  # accuracy ½ at both
        assert float(losses.mmce(logits, labels)) == pytest.approx(0.25)  # (¼ − ¾)/2
        assert float(losses.dca(logits, labels)) == pytest.approx(0.25)
        assert float(losses.mdca(logits, labels)) == pytest.approx(0.25)
        assert float(losses.error_regularization(logits, labels)) == 0  # equal confidence
        assert float(losses.mse(logits, labels)) == pytest.approx((1 / 8 + 9 / 8) / 2)

    def test_one_example_far_from_the_rest_is_its_own_accuracy(self):
        logits = torch.tensor([[0.0, 0.0], [20.0, 0.0]], dtype=torch.float64)
        value = losses.sece(logits, torch.tensor([1, 0]))  # |0 − ½| and |1 − 1|, over two
        assert float(value) == pytest.approx(0.25, abs=1e-8)

    def test_saturated_and_right_is_zero(self):
        logits, labels = torch.tensor([[1e4, 0.0], [0.0, 1e4]]), torch.tensor([0, 1])
        for name in ("cross_entropy", "mse", "focal", "flsd", "mmce", "sece", "dca", "mdca"):
            assert float(getattr(losses, name)(logits, labels)) == 0, name
