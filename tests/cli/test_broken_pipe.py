"""``calibrant … | head -1``: the outputs are complete even if the reader leaves early."""

import io
import os
import subprocess
import sys
from contextlib import redirect_stdout

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


def into_closed_pipe(folder, arguments):
    """Run a command whose reader has left. A fixture cannot: pytest sets stdout after it."""
    with (folder / "stdout").open("w") as file, redirect_stdout(Closed(file)):
        with pytest.raises(BrokenPipeError):
            print("nobody reads this")
        return main(arguments)


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
def test_outputs_are_written_before_anything_is_printed(files, monkeypatch, arguments, output):
    monkeypatch.chdir(files)
    assert into_closed_pipe(files, arguments) == 0
    assert (files / output).stat().st_size > 10


def test_a_run_s_outputs_too(trained, tmp_path):
    pytest.importorskip("matplotlib")
    run, out = str(trained[0]), tmp_path / "o.jsonl"
    predict = ["predict", run, "Rosa Lind moved to Paris .", "-o", str(out)]
    assert into_closed_pipe(tmp_path, predict) == 0
    assert out.stat().st_size > 10
    figure = tmp_path / "f.svg"
    command = ["evaluate", run, "--device", "cpu", "--corrupt", "typos-1", "--figure", str(figure)]
    assert into_closed_pipe(tmp_path, command) == 0
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
