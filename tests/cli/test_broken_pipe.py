"""``calibrant … | head -1``: the outputs are complete even if the reader leaves early."""

import io
import os
import subprocess
import sys

import numpy as np
import pytest

from calibrant import Predictions
from calibrant.calibrators import Temperature
from calibrant.cli import main


class Closed(io.TextIOBase):
    """A pipe whose reader has left before anything was written."""

    def __init__(self, file):
        self.file = file

    def fileno(self):
        return self.file.fileno()

    def write(self, text):
        raise BrokenPipeError


@pytest.fixture
def closed(tmp_path, monkeypatch):
    with (tmp_path / "stdout").open("w") as file:
        monkeypatch.setattr(sys, "stdout", Closed(file))
        yield


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 300)
    logits = 3 * (rng.normal(size=(300, 3)) + np.eye(3)[labels])
    p = Predictions.from_logits(logits, labels)
    p.write(tmp_path / "p.npz")
    Temperature().fit(p).save(tmp_path / "map.json")
    (tmp_path / "a.txt").write_text("one text\nand another\n")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["audit", "p.npz", "--bootstrap", "0", "--report", "x.html"], "x.html"),
        (["audit", "p.npz", "--bootstrap", "0", "--json", "--report", "x.html"], "x.html"),
        (["fit", "p.npz", "-o", "m.json"], "m.json"),
        (["fit", "p.npz", "-o", "m.json", "--json"], "m.json"),
        (["apply", "map.json", "p.npz", "-o", "q.npz"], "q.npz"),
        (["corrupt", "a.txt", "--kind", "typos", "-o", "b.txt"], "b.txt"),
    ],
)
def test_outputs_are_written_before_anything_is_printed(
    files, closed, monkeypatch, arguments, output
):
    monkeypatch.chdir(files)
    assert main(arguments) == 0
    assert (files / output).stat().st_size > 10


def test_a_run_s_outputs_too(trained, tmp_path, closed):
    pytest.importorskip("matplotlib")
    run, out = str(trained[0]), tmp_path / "o.jsonl"
    assert main(["predict", run, "Rosa Lind moved to Paris .", "-o", str(out)]) == 0
    assert out.stat().st_size > 10
    figure = tmp_path / "f.svg"
    command = ["evaluate", run, "--device", "cpu", "--corrupt", "typos-1", "--figure", str(figure)]
    assert main(command) == 0
    assert figure.stat().st_size > 10


@pytest.mark.parametrize("more", [[], ["-u"]])
def test_a_process_ends_quietly(files, more):
    command = [sys.executable, *more, "-m", "calibrant", "audit", "p.npz", "--bootstrap", "0"]
    with subprocess.Popen(
        [*command, "--report", "x.html"],
        cwd=files,
        env=os.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdout.close()
        error = process.stderr.read()
        assert process.wait() == 0
    assert error == b""
    assert (files / "x.html").stat().st_size > 1000
