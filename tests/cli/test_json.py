"""Every document of ``--json``: docs/json.md has its keys, and one meaning of numbers."""

import argparse
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from calibrant import Predictions
from calibrant.calibrators import Temperature
from calibrant.cli import COMMANDS, _parser, main
from calibrant.experiments.record import Record, read_record
from calibrant.json_values import FORMAT, json_values

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "json.md").read_text()
PILOT = ROOT / "benchmarks" / "results" / "pilot-methods.jsonl"


def section(title):
    return re.split(r"\n#+ ", PAGE.split(f"# {title}\n", 1)[1])[0]


def described(text):
    """The keys in the first column of a section's tables."""
    rows = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    return {key for row in rows for key in re.findall(r"`(\w+)`", row)}


def commands_with_json():
    (sub,) = (a for a in _parser()._actions if isinstance(a, argparse._SubParsersAction))
    return [name for name in COMMANDS if "--json" in sub.choices[name]._option_string_actions]


def strict(text):
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 600)
    logits = 3 * (rng.normal(size=(600, 3)) + np.eye(3)[labels])
    p = Predictions.from_logits(logits, labels)
    p[:300].write(tmp_path / "valid.npz")
    p[300:].write(tmp_path / "test.npz")
    sure = Predictions.from_probabilities([[1.0, 0.0]] * 50, [0] * 40 + [1] * 10)
    sure.write(tmp_path / "sure.npz")
    Temperature().fit(p[:300]).save(tmp_path / "map.json")
    return tmp_path


def invocations(folder, trained):
    run = trained[0]
    recipe = json.loads((run / "recipe.json").read_text())
    return {
        "audit": [
            ["audit", f"{folder}/test.npz", "--bootstrap", "50"],
            [
                "audit",
                f"{folder}/test.npz",
                "--bootstrap",
                "0",
                "--calibrator",
                f"{folder}/map.json",
            ],
        ],
        "compare": [
            (
                f"compare {folder}/valid.npz {folder}/test.npz --bootstrap 100 "
                "--calibrators temperature,type-temperature"
            ).split(),
        ],
        "fit": [
            ["fit", f"{folder}/valid.npz", "-o", f"{folder}/{name}.json", "--calibrator", name]
            for name in ("temperature", "histogram", "beta")
        ],
        "guarantee": [
            [
                "guarantee",
                f"{folder}/valid.npz",
                *options,
                "-o",
                f"{folder}/{i}.policy.json",
            ]
            for i, options in enumerate((["--target-risk", "0.3"], ["--coverage", "0.9"]))
        ],
        "train": [
            (
                f"train --data {recipe['data']} --model tiny --method head-noise "
                "--set weight=0.05 --epochs 6 --batch 16 --learning-rate 5e-3 --head-width 16 "
                f"--bootstrap 0 --device cpu -o {run}"
            ).split()
        ],
        "wrap": [
            (
                f"wrap {run}/model --task ner --data {recipe['data']} --bootstrap 0 --device cpu "
                f"-o {folder}/wrapped"
            ).split()
        ],
        "predict": [["predict", str(run), "Rosa Lind moved .", "--target-risk", "0.5"]],
        "export": [["export", str(run), "-o", f"{folder}/exported", "--overwrite"]],
        "evaluate": [["evaluate", str(run), "--device", "cpu", "--corrupt", "typos-1"]],
        "adapt": [
            (
                f"adapt {folder}/map.json --valid {folder}/valid.npz --unlabelled "
                f"{folder}/test.npz -o {folder}/adapted.json --overwrite --method {method}"
            ).split()
            for method in ("em", "bbse")
        ],
        "watch": [
            ["watch", f"{folder}/test.npz"],
            (
                f"watch {folder}/test.npz --calibrator {folder}/map.json "
                f"--reference {folder}/valid.npz"
            ).split(),
        ],
        "report": [["report", str(PILOT)]],
        "list": [["list", "methods"], ["list", "calibrators"]],
        "doctor": [["doctor"]],
    }


def test_every_command_with_json_has_its_section():
    for name in commands_with_json():
        assert described(section(name)), name


@pytest.mark.parametrize("command", commands_with_json())
def test_the_keys_are_those_of_the_page(command, files, trained, capsys, monkeypatch):
    monkeypatch.setenv("CALIBRANT_KERNELS", "numpy")  # The doctor would compile the others.
    keys = set()
    if command == "export":
        pytest.importorskip("onnx")
    for arguments in invocations(files, trained)[command]:
        capsys.readouterr()
        assert main([*arguments, "--json"]) == 0
        found = strict(capsys.readouterr().out)
        assert found["format"] == FORMAT
        assert found.get("command", "predict") == command
        assert not keys or set(found) == keys, "keys depend on what was asked for"
        keys = set(found)
    expected = described(section(command)) | {"format", "command"}
    if command == "train":
        expected = described(section("train").split("Several seeds")[0]) | {"format", "command"}
    assert keys | {"command"} == expected


def test_an_audit_has_the_keys_of_the_page(files, capsys):
    assert main(["audit", f"{files}/test.npz", "--bootstrap", "0", "--json"]) == 0
    assert set(strict(capsys.readouterr().out)["audit"]) == described(section("An audit"))


def test_infinity_is_written_in_one_way(files, tmp_path, capsys):
    """The NLL is infinite where the true class has probability 0."""
    sure = f"{files}/sure.npz"
    assert main(["audit", sure, "--bootstrap", "50", "--json"]) == 0
    assert strict(capsys.readouterr().out)["audit"]["measures"]["nll"]["value"] == "inf"
    command = ["compare", sure, sure, "--force", "--calibrators", "histogram", "--bootstrap", "100"]
    assert main([*command, "--json"]) == 0
    assert strict(capsys.readouterr().out)["calibrators"][0]["nll"] == "inf"


def test_a_record_keeps_infinity(trained, tmp_path):
    record = read_record(trained[0] / "metrics.json")
    results = {"identity": {"test": {"nll": math.inf, "auroc": math.nan}}}
    path = Record(record.recipe, results, {}, {}).write(tmp_path)
    assert strict(path.read_text())["results"] == json_values(results)
    again = read_record(path).results["identity"]["test"]
    assert again["nll"] == math.inf
    assert math.isnan(again["auroc"])
