"""Streams of a GPU that no two loops share."""

import itertools
from types import SimpleNamespace

import pytest
import torch

from calibrant.training import loop_resources

GPU = torch.device("cuda", 0)


class Owner:
    """Anything that lives and ends."""


@pytest.fixture
def in_turn(monkeypatch):
    """Streams as PyTorch hands them out: 32 for each GPU, then the first again."""
    counts = {}

    def stream(device):
        number = next(counts.setdefault(device.index, itertools.count())) % 32
        return SimpleNamespace(device_index=device.index, cuda_stream=number)

    monkeypatch.setattr(torch.cuda, "Stream", stream)
    monkeypatch.setattr(loop_resources, "_taken", set())


def test_a_cpu_has_no_streams():
    assert loop_resources.own_stream(Owner(), torch.device("cpu")) is None


def test_each_is_handed_out_once(in_turn):
    owners = [Owner() for _ in range(40)]
    made = [loop_resources.own_stream(owner, GPU) for owner in owners]
    numbers = [stream.cuda_stream for stream in made if stream is not None]
    assert sorted(numbers) == list(range(32))
    assert loop_resources.own_stream(owners[0], torch.device("cuda", 1)) is not None
    del owners[:8]  # What has ended gives its own back.
    assert loop_resources.own_stream(owners[0], GPU).cuda_stream < 8


def test_some_are_left_for_other_loops(in_turn):
    """Eight stacks of ten, as `--jobs 8` has them: each has a main stream, the first more."""
    owners = [Owner() for _ in range(8)]
    sides = []
    for owner in owners:
        assert loop_resources.own_stream(owner, GPU) is not None
        more = iter(lambda owner=owner: loop_resources.own_stream(owner, GPU, leave=8), None)
        sides.append(len(list(itertools.islice(more, 8))))
    assert sides == [8, 8, 5, 0, 0, 0, 0, 0]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_no_two_owners_share_one():
    owners = [Owner() for _ in range(40)]
    made = [loop_resources.own_stream(owner, GPU) for owner in owners]
    names = [stream.cuda_stream for stream in made if stream is not None]
    assert len(set(names)) == len(names)
    assert None in made
    owners.clear()
    assert loop_resources.own_stream(Owner(), GPU) is not None
