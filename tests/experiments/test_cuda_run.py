"""On a GPU: ``calibrant train`` with captured graphs, stopped and killed, gives the same result."""

import json
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from calibrant.experiments import lean_engine
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.run import train
from calibrant.experiments.run_folder import RunFolder
from calibrant.predictions import Predictions
from calibrant.training import loop

pytest.importorskip("transformers")

DEVICE = "cuda"
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def recipe(corpus, **changes):
    settings = {
        "data": str(corpus), "model": "tiny", "method": "head_noise", "epochs": 4, "batch": 8,
        "learning_rate": 5e-3, "dtype": "float32", "head_width": 16, "patience": 4,
    }  # fmt: skip
    return Recipe(**{**settings, **changes})


def finished(made, folder, **options):
    return train(made, folder, device=DEVICE, bootstrap=0, say=str, **options)


def assert_the_same(one, other):
    """Up to the order of floating-point sums, which a GPU does not fix."""
    logs = [
        [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
        for run in (one, other)
    ]
    assert [row["step"] for row in logs[0]] == [row["step"] for row in logs[1]]
    np.testing.assert_allclose(
        [row["loss"] for row in logs[0]], [row["loss"] for row in logs[1]], rtol=1e-2, atol=1e-3
    )
    first, second = (Predictions.read(RunFolder(run).predictions("test")) for run in (one, other))
    np.testing.assert_allclose(first.scores, second.scores, rtol=2e-2, atol=2e-2)
    assert not RunFolder(other).checkpoint.exists()


@pytest.fixture(scope="module")
def straight(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("straight") / "run"
    finished(recipe(corpus), folder)
    return folder


@pytest.mark.parametrize("stop_at", [3, 5, 12])  # Inside an epoch, at its end, inside a later one.
def test_a_stopped_run_continues_with_new_graphs(corpus, straight, tmp_path, monkeypatch, stop_at):
    captured = []
    make = loop.Loop._capture

    def capture(self, seed):
        make(self, seed)
        captured.append(len(self.replays))

    save = lean_engine.RunWatch.save

    def stop(course):
        save(course)
        if course.loop.number >= stop_at:
            raise KeyboardInterrupt

    monkeypatch.setattr(loop.Loop, "_capture", capture)
    monkeypatch.setattr(lean_engine.RunWatch, "save", stop)
    with pytest.raises(KeyboardInterrupt):
        finished(recipe(corpus), tmp_path / "run", save_every=0.0)
    monkeypatch.setattr(lean_engine.RunWatch, "save", save)
    lines = []
    train(recipe(corpus), tmp_path / "run", device=DEVICE, bootstrap=0, say=lines.append)
    assert any(line.startswith(f"Continuing after step {stop_at} ") for line in lines), lines
    assert len(captured) == 2
    assert all(captured), "no graph was captured"
    assert_the_same(straight, tmp_path / "run")


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_killed_run_comes_to_the_same(corpus, straight, tmp_path):
    run = RunFolder(tmp_path / "run")
    code = (
        "from calibrant.experiments.recipe import Recipe\n"
        "from calibrant.experiments.run import train\n"
        f"train(Recipe(**{recipe(corpus).to_dict()!r}), {str(run.path)!r}, device={DEVICE!r}, "
        "bootstrap=0, save_every=0.0)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL) as process:
        while not run.checkpoint.exists():
            assert process.poll() is None, "it ended before it was killed"
            time.sleep(0.001)
        process.kill()
    assert not run.finished
    finished(recipe(corpus), run.path)
    assert_the_same(straight, run.path)


def test_bfloat16_continues_too(corpus, tmp_path, monkeypatch):
    made = recipe(corpus, dtype="bfloat16", patience=0)
    save = lean_engine.RunWatch.save

    def stop(course):
        save(course)
        raise KeyboardInterrupt

    monkeypatch.setattr(lean_engine.RunWatch, "save", stop)
    with pytest.raises(KeyboardInterrupt):
        finished(made, tmp_path / "run")
    monkeypatch.undo()
    record = finished(made, tmp_path / "run")
    assert record.training["epochs"] == 4
    assert record.results["identity"]["test"]["accuracy"] > 0.6
