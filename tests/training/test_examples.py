"""Every example runs as a user runs it, and learns."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
# The last task loss that the data allow within the run; chance is log 2, log 2 and log 3.
LEARNT = {"plain_loop": 0.6, "huggingface_trainer": 0.55, "lightning_module": 0.8}
NEEDS = {"huggingface_trainer": "accelerate", "lightning_module": "lightning"}


@pytest.mark.parametrize("name", LEARNT)
def test_example_runs_and_learns(name):
    pytest.importorskip(NEEDS.get(name, "torch"))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    losses = re.findall(r"(\d+\.\d{3})$", done.stdout, flags=re.MULTILINE)
    assert float(losses[-1]) < LEARNT[name]


def test_there_is_no_other_example():
    assert {path.stem for path in EXAMPLES.glob("*.py")} >= set(LEARNT)
