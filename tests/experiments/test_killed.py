"""kill -9 at any moment, and the same command gives the same result."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from calibrant.predictions import Predictions

pytest.importorskip("transformers")

SCRIPT = Path(__file__).with_name("killing.py")


def log(run):
    rows = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if k != "seconds"} for row in rows]


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")
@pytest.mark.parametrize(("kind", "kills"), [("lean", 6), ("trainer", 3), ("image", 4)])
def test_a_killed_run_continues_to_the_same_bits(corpus, tmp_path, kind, kills):
    entities = {"data": str(corpus), "batch": 8, "learning_rate": 3e-3, "method": "head_noise"}
    settings = {
        "lean": entities,
        "trainer": {**entities, "engine": "trainer"},
        "image": {
            "task": "image", "data": "digits", "batch": 128, "augment": "crop+cutout",
            "method": "input_mixup", "learning_rate": 0.1,
        },
    }[kind]  # fmt: skip
    common = {"model": "tiny", "epochs": 3, "dtype": "float32", "head_width": 16, "patience": 2}
    settings = {**settings, **common}
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    command = [sys.executable, SCRIPT, json.dumps(settings), straight, killed, str(kills)]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    resumed = done.stderr.count("Continuing after")
    assert resumed >= 2, f"only {resumed} attempts were killed after their first checkpoint"
    names = {path.name for path in straight.iterdir()}
    assert {path.name for path in killed.iterdir()} == names
    assert not any("unfinished" in name or "checkpoint" in name for name in names)
    assert log(killed) == log(straight)
    for split in ("valid", "test"):
        first, second = (Predictions.read(run / f"{split}.parquet") for run in (straight, killed))
        np.testing.assert_array_equal(first.scores, second.scores)
    for name in ("model/model.safetensors", "temperature.json", "labels.json", "recipe.json"):
        assert (killed / name).read_bytes() == (straight / name).read_bytes(), name
    first, second = (json.loads((run / "metrics.json").read_text()) for run in (straight, killed))
    assert first["results"] == second["results"]
