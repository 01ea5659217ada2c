"""A small part of the kill campaign; ``make campaign-kills`` runs all of it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
RESULT = HERE / "results" / "kills.json"


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")
def test_some_kills(tmp_path):
    command = [sys.executable, HERE / "kills.py", "--kills", "24", "--seed", "1"]
    only = ["--only", "fit", "fit-over", "apply", "shards", "shards-over"]
    done = subprocess.run([*map(str, command), *only], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["kills"] >= 24


def test_the_whole_campaign_was_run():
    """One interrupt of the recorded run came before Python had begun with calibrant's code."""
    found = json.loads(RESULT.read_text())
    early = [line for line in found["failures"] if "runpy" in line and "calibrant" not in line]
    assert found["failures"] == early
    done = sum(n for name, n in found["counts"].items() if name.endswith("ended with 0"))
    assert found["kills"] - done >= 300
