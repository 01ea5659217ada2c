"""A small part of the kill campaign; ``make campaign-kills`` runs all of it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")
def test_some_kills(tmp_path):
    command = [sys.executable, HERE / "kills.py", "--kills", "24", "--seed", "1"]
    only = ["--only", "fit", "fit-over", "apply", "shards", "shards-over"]
    done = subprocess.run([*map(str, command), *only], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["kills"] >= 24
