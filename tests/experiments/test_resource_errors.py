"""Running out of memory or disk gives a one-line error; other errors stay as they are."""

import errno
import subprocess
import sys
from concurrent.futures.process import BrokenProcessPool

import pytest
import torch

from calibrant.errors import CalibrantError, InputError
from calibrant.experiments import grid
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.run import explain_resource_errors

FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError(), r"--accumulate 4\).*smaller --batch"),
        (torch.OutOfMemoryError("CUDA out of memory."), "Out of memory with a batch of 32"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), "batch of 32"),
        (FULL, "the disk is full. Make room"),
        (ValueError("Error while serializing: No space left on device (os error 28)"), "disk is"),
    ],
)
def test_what_ran_out_is_named(tmp_path, error, message):
    with (
        pytest.raises(InputError, match=message) as caught,
        explain_resource_errors(Recipe(accumulate=2), tmp_path),
    ):
        raise error
    assert "\n" not in str(caught.value)


def test_the_cause_may_lie_behind_the_error(tmp_path):
    error = RuntimeError("unexpected pos 64 vs 0")  # As torch tells it.
    error.__context__ = FULL
    with pytest.raises(InputError, match="full"), explain_resource_errors(Recipe(), tmp_path):
        raise error


@pytest.mark.parametrize("error", [RuntimeError("shapes do not match"), KeyError("a"), OSError()])
def test_other_errors_are_left_alone(tmp_path, error):
    with pytest.raises(type(error)), explain_resource_errors(Recipe(), tmp_path):
        raise error


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
def test_a_checkpoint_without_room_says_so_and_leaves_nothing(tmp_path):
    code = (
        "import resource, torch; from calibrant.training.checkpoint import write_checkpoint\n"
        "from pathlib import Path; from calibrant.errors import InputError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))\n"
        "try: write_checkpoint(Path('checkpoint.pt'), {'weights': torch.zeros(100_000)})\n"
        "except InputError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout == "checkpoint.pt cannot be written: File too large.\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (torch.OutOfMemoryError("CUDA out of memory."), r"Out of memory with 2 job.*--stack"),
        (BrokenProcessPool("killed"), r"One of 1 processes that measure was killed.*--workers"),
        (RuntimeError("shapes do not match"), "^shapes do not match$"),
    ],
)
def test_a_grid_that_runs_out_of_memory_says_what_helps(tmp_path, monkeypatch, failure, message):
    def turns(*_):
        yield None
        raise failure

    monkeypatch.setattr(grid, "take_turns", turns)
    with pytest.raises((CalibrantError, RuntimeError), match=message):
        list(grid.run_grid([], tmp_path, jobs=2, workers=1, device="cpu"))
