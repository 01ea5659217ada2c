"""AdamW for several runs at once, against torch's for each separately; its kernels against it."""

import os
import sys
from importlib.util import find_spec

import pytest
import torch
from torch import nn

from calibrant.errors import InputError
from calibrant.training.stacked import adamw as stacked_adamw
from calibrant.training.stacked.adamw import StackedAdamW
from calibrant.training.stacked.weights import StackedWeights

CUDA = torch.cuda.is_available()
DECAY, RATE = 0.1, 0.01


def bodies(runs=3):
    made = []
    for seed in range(runs):
        torch.manual_seed(seed)
        made.append(nn.Sequential(nn.Linear(5, 7), nn.LayerNorm(7), nn.Linear(7, 3)))
    return made


def optimizer(weights, device="cpu", kernels=None):
    rate, done = torch.tensor(RATE, device=device), torch.zeros((), device=device)
    return StackedAdamW(weights.groups, DECAY, rate, done, kernels=kernels)


def give_gradients(weights, step, size=1.0):
    """Of every number of every run, from the step alone."""
    for group in weights.groups:
        random = torch.Generator().manual_seed(step)
        drawn = size * torch.randn(group.master.shape, generator=random)
        group.leaf.grad = drawn.to(group.leaf)


@pytest.mark.parametrize("apart", [(), ("0.weight",)])
def test_each_run_is_what_torch_makes_of_it(apart):
    models = bodies()
    weights = StackedWeights(models, torch.device("cpu"), apart=apart)
    mine, scale = optimizer(weights), torch.tensor([1.0, 0.5, 0.01])
    theirs = [
        torch.optim.AdamW(
            [
                {"params": [p for p in m.parameters() if p.ndim > 1], "weight_decay": DECAY},
                {"params": [p for p in m.parameters() if p.ndim <= 1], "weight_decay": 0.0},
            ],
            lr=RATE,
        )
        for m in models
    ]
    for step in range(5):
        give_gradients(weights, step)
        drawn = weights._ordered(group.views(group.leaf.grad) for group in weights.groups)
        for number, model in enumerate(models):
            for name, parameter in model.named_parameters():
                parameter.grad = scale[number] * drawn[name][number]
            theirs[number].step()
        mine.done += 1
        mine.step(scale)
    for name, stacked in weights.masters().items():
        for number, model in enumerate(models):
            torch.testing.assert_close(stacked[number], model.get_parameter(name).detach())


def test_squares_are_those_of_the_norm():
    models = bodies()
    weights = StackedWeights(models, torch.device("cpu"), apart=("2.weight",))
    give_gradients(weights, 0)
    drawn = weights._ordered(group.views(group.leaf.grad) for group in weights.groups)
    expected = [
        sum(float(value[number].square().sum()) for value in drawn.values()) for number in range(3)
    ]
    torch.testing.assert_close(optimizer(weights).squares(), torch.tensor(expected))


def test_rewound_it_begins_again():
    weights = StackedWeights(bodies(), torch.device("cpu"))
    mine, scale = optimizer(weights), torch.ones(3)
    before = weights.groups[0].master.detach().clone()
    results = []
    for _ in range(2):
        for step in range(3):
            give_gradients(weights, step)
            mine.done += 1
            mine.step(scale)
        results.append(weights.groups[0].master.detach().clone())
        with torch.no_grad():
            weights.groups[0].master.copy_(before)
        mine.rewind()
        mine.done.zero_()
    assert torch.equal(*results)


def test_without_gradients_nothing_changes():
    weights = StackedWeights(bodies(), torch.device("cpu"))
    mine = optimizer(weights)
    assert mine.squares().tolist() == [0, 0, 0]
    before = weights.groups[0].master.detach().clone()
    mine.done += 1
    mine.step(torch.ones(3))
    assert torch.equal(before, weights.groups[0].master)


def test_weights_keep_names_order_and_numbers():
    models = bodies()
    weights = StackedWeights(models, torch.device("cpu"), half=True, apart=("0.weight",))
    assert list(weights.masters()) == [name for name, _ in models[0].named_parameters()]
    for name, stacked in weights.masters().items():
        for number, model in enumerate(models):
            assert torch.equal(stacked[number], model.get_parameter(name))
    leaves = weights.leaves()
    assert leaves["0.weight"].dtype == torch.float32
    assert leaves["2.weight"].dtype == torch.bfloat16
    with torch.no_grad():
        for value in weights.masters().values():
            value.fill_(2.0)
    weights.refresh()
    assert all(bool((value == 2.0).all()) for value in weights.leaves().values())
    with pytest.raises(InputError, match="alike except for the head"):
        StackedWeights([models[0], nn.Linear(5, 7)], torch.device("cpu"))


@pytest.fixture
def device():
    """Where the kernels can run: a GPU, or Triton's interpreter."""
    if CUDA:
        yield "cuda"
        return
    if find_spec("triton") is None:
        pytest.skip("needs Triton, which comes with CUDA builds of PyTorch")
    if "TRITON_INTERPRET" not in os.environ:
        pytest.skip("Triton's interpreter is chosen before it is imported: TRITON_INTERPRET=1")
    yield "cpu"
    stacked_adamw._kernels.cache_clear()
    sys.modules.pop("calibrant.training.stacked.adamw_kernel", None)


@pytest.mark.parametrize("half", [False, True])
def test_the_kernels_do_the_same(device, half):
    results = []
    for kernels in (True, False):
        weights = StackedWeights(bodies(), torch.device(device), half=half, apart=("0.weight",))
        mine = optimizer(weights, device, kernels)
        scale = torch.tensor([1.0, 0.5, 0.01], device=device)
        squares = []
        for step in range(3):
            give_gradients(weights, step)
            squares.append(mine.squares())
            mine.done += 1
            mine.step(scale)
        numbers = [torch.stack(squares)]
        for group, moments in zip(weights.groups, mine.moments, strict=True):
            numbers += [group.master.detach(), *moments]
            # Rounded, or cut off, as Triton's interpreter does.
            torch.testing.assert_close(group.leaf.float(), group.master, rtol=2**-7, atol=0)
        results.append(numbers)
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_sizes_that_fill_no_block(device):
    for size in (1, 31, 32, 33, 100):
        gradient = torch.randn(4, size, generator=torch.Generator().manual_seed(size))
        expected = gradient.square().sum(1)
        found = stacked_adamw.squared_norms(gradient.to(device), block=16, part=2).cpu()
        torch.testing.assert_close(found, expected)
