"""The lean engine in two processes: exactly one process on the whole batch, where a loss allows."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from calibrant.errors import InputError
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.record import read_record
from calibrant.experiments.run import train
from calibrant.methods import create
from calibrant.tasks.language.synthetic import generate_splits
from calibrant.training.processes import share_of

pytest.importorskip("transformers")

WORKER = Path(__file__).with_name("lean_worker.py")
SETTINGS = {
    "model": "tiny", "method": "head_noise", "epochs": 3, "batch": 8, "learning_rate": 5e-3,
    "dtype": "float32", "head_width": 16, "patience": 5,
}  # fmt: skip


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """A recipe that a corpus of a few sentences is learned with."""
    folder = tmp_path_factory.mktemp("corpus")
    for split, sentences in generate_splits(0, train=120, dev=40, test=40, ood=0).items():
        blocks = ("".join(map("{}\t{}\n".format, s.words, s.tags)) for s in sentences)
        (folder / f"{split}.conll").write_text("\n".join(blocks))
    (folder / "ood.conll").unlink(missing_ok=True)
    return {**SETTINGS, "data": str(folder)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, settings):
    folder = tmp_path_factory.mktemp("torchrun")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", str(WORKER), str(folder), json.dumps(settings)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.fixture(scope="module")
def results(folder):
    return torch.load(folder / "results.pt", weights_only=True)


EXACT = [(name, parts) for name in ("cross_entropy", "focal", "head_noise") for parts in (1, 2)]
JOINED = [("abstention", 1), ("mmce", 1)]  # Of a part of a batch, the pairs are those of the part.


@pytest.mark.parametrize(("name", "parts"), EXACT + JOINED)
def test_the_weights_are_those_of_one_process_on_the_whole_batch(results, name, parts):
    import lean_worker

    expected, loss = lean_worker.run(name, parts)
    found, total = results["runs"][name, parts]
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)
    if (name, parts) in EXACT:  # In the others every rank has the whole term.
        torch.testing.assert_close(total, loss, rtol=1e-5, atol=1e-6)


def test_pairs_of_one_rank_are_not_those_of_the_whole_batch(results):
    """So the test above can fail: without ``across_ranks`` the weights are others."""
    import lean_worker

    _, loop = lean_worker.make_loop(create("mmce", weight=2.0), accumulate=2)
    loop.run()
    found = results["runs"]["mmce", 1][0]
    assert not torch.allclose(lean_worker.weights(loop.model), found, rtol=1e-9, atol=1e-11)


def log(run):
    lines = (run / "log.jsonl").read_text().splitlines()
    return [{**json.loads(line), "seconds": 0} for line in lines]


def test_a_resumed_run_comes_to_the_same_bits(results, folder):
    straight, again = results["resumed"]
    torch.testing.assert_close(straight, again, rtol=0, atol=0)
    one, other = (folder / name for name in ("straight", "resumed"))
    for name in ("model/model.safetensors", "temperature.json", "recipe.json"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    assert log(one) == log(other)
    assert len(log(one)) == 3


def test_every_rank_draws_its_own_numbers(results):
    for first, second in results["drawn"]:
        assert not torch.equal(first, second)
        assert abs(torch.corrcoef(torch.stack([first, second]))[0, 1]) < 0.4


def test_work_that_several_processes_cannot_do_is_an_error(results):
    holdout, graph, parts = results["refused"]
    assert "several processes: run it in one" in holdout
    assert "captures no graph" in graph
    assert "cannot be shared by 2 processes in 4 part(s)" in parts


def test_a_run_is_as_good_as_that_of_one_process(folder, settings, tmp_path):
    alone = train(Recipe(**settings), tmp_path / "run", device="cpu", bootstrap=0, say=str)
    shared = read_record(folder / "straight" / "metrics.json")
    assert shared.circumstances["processes"] == 2
    assert "processes" not in alone.circumstances
    assert shared.training["steps"] == alone.training["steps"]
    assert shared.training["mean_loss"] == pytest.approx(alone.training["mean_loss"], rel=0.1)
    for name, tolerance in (("ece", 0.03), ("accuracy", 0.03), ("nll", 0.1)):
        one, other = (r.results["identity"]["test"][name] for r in (alone, shared))
        assert abs(one - other) < tolerance, (name, one, other)


def test_a_checkpoint_belongs_to_as_many_processes(folder):
    import lean_worker

    _, loop = lean_worker.make_loop(create("head_noise"), dropout=0.3)
    with pytest.raises(InputError, match=r"written by 2 process\(es\), but this run has 1"):
        loop.load(torch.load(folder / "state-0.pt", weights_only=True))
    loop.close()


def test_one_process_has_the_whole_batch():
    assert share_of(torch.arange(6)).tolist() == list(range(6))
