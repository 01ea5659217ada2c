"""Two processes under DDP and FSDP2 give the gradients of one process on the joined batch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from algorithm_one import Classifier, algorithm_one, token_batch

from calibrant.losses import error_regularization

WORKER = Path(__file__).with_name("distributed_worker.py")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("torchrun")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", str(WORKER), str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return torch.load(folder / "results.pt", weights_only=True)


@pytest.mark.parametrize("wrap", ["data_parallel", "sharded_head", "sharded_root"])
@pytest.mark.parametrize("abstention", [False, True])
@pytest.mark.parametrize(("counted", "micro_batches"), [(False, 1), (True, 1), (True, 2)])
def test_equal_to_algorithm_one_on_the_joined_batch(
    results, wrap, abstention, counted, micro_batches
):
    inputs, labels = token_batch()
    if not counted:
        labels[:] = 1
    expected = algorithm_one(Classifier(), inputs, labels, abstention)
    found = results["gradients"][wrap, abstention, counted, micro_batches]
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-12, atol=1e-15, msg=name)


@pytest.mark.parametrize("counted", [False, True])
def test_the_logged_statistic_is_that_of_the_joined_batch(results, counted):
    inputs, labels = token_batch()
    expected = error_regularization(Classifier()(inputs), labels)
    torch.testing.assert_close(results["values"][counted], expected, rtol=1e-12, atol=0)


def test_ranks_draw_different_noise(results):
    first, second = results["streams"]
    assert not torch.equal(first, second)
    correlation = torch.corrcoef(torch.stack([first.flatten(), second.flatten()]))[0, 1]
    assert abs(correlation) < 0.3
