"""``calibrant compare``."""

import json
from pathlib import Path

import numpy as np
import pytest

from calibrant import Predictions
from calibrant.calibrators import CALIBRATORS, load_calibrator
from calibrant.cli import main
from calibrant.comparison import compare
from calibrant.files import read, write


@pytest.fixture
def files(tmp_path):
    for seed, name in enumerate(("valid", "test")):
        rng = np.random.default_rng(seed)
        labels = rng.integers(0, 3, 800)
        logits = 5 * (rng.normal(size=(800, 3)) + np.eye(3)[labels])
        write(Predictions.from_logits(logits, labels), tmp_path / f"{name}.npz")
    return [str(tmp_path / "valid.npz"), str(tmp_path / "test.npz")]


def test_table_marks_the_recommended_map_with_a_reason(files, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["compare", *files, "--calibrators", "temperature", "--bootstrap", "200"]) == 0
    out = capsys.readouterr().out
    (marked,) = [line for line in out.splitlines() if line.split()[:2] == ["*", "temperature"]]
    found = compare(read(files[0]), read(files[1]), ["temperature"], bootstrap=200)
    row = found["temperature"]
    for value in (row.valid_nll, row.nll, row.brier, row.ece, row.adaptive_ece):
        assert f"{value:.4f}" in marked
    assert f"* Recommended: {found.reason}" in out
    assert found.reason.startswith("temperature: lowers")
    assert "VALID: 800 examples, 5 folds; TEST: 800 examples; 3 classes" in out


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_the_table_fits_the_terminal(files, width, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    main(["compare", *files, "--calibrators", "temperature", "--bootstrap", "100"])
    out = capsys.readouterr().out
    table = [line for line in out.splitlines() if line[:3] in ("   ", "*  ", "───")]
    assert len(table) == 4  # The headers, the rule, identity and temperature.
    assert max(map(len, table)) <= width
    assert ("too narrow for fit" in out) == (width < 110)
    assert ("calibr." in table[0]) == ("CV NLL and calibr. are measured" in out)


def test_the_next_command_is_named(files, tmp_path, capsys):
    saved = str(tmp_path / "my calibrator.json")
    options = ["--calibrators", "temperature", "--bootstrap", "0"]
    main(["compare", *files, *options])
    expected = "\nNext: the same command with -o calibrator.json    # save temperature\n"
    assert capsys.readouterr().out.endswith(expected)
    main(["compare", *files, *options, "-o", saved])
    assert f"\nNext: calibrant apply '{saved}' FILE -o OUTPUT " in capsys.readouterr().out
    main(["compare", *files, "--calibrators", "identity", "--bootstrap", "0"])
    assert "Next:" not in capsys.readouterr().out


def test_only_the_missing_file_is_named(files, capsys):
    with pytest.raises(SystemExit):
        main(["compare", files[0]])
    assert "arguments are required: TEST;" in capsys.readouterr().err


def test_all_maps_or_why_not(files, capsys):
    assert main(["compare", *files, "--bootstrap", "100"]) == 0
    out = capsys.readouterr().out
    for name in CALIBRATORS:
        assert f" {name} " in out
    assert "- type-temperature was skipped: TypeTemperature needs label_names" in out
    assert "- position-temperature was skipped: " in out


def test_what_many_fits_warn_about_is_written_once(tmp_path, capsys):
    rng, paths = np.random.default_rng(0), []
    for name in ("valid", "test"):
        votes = rng.multinomial(4, [0.5, 0.3, 0.2], 200) / 4
        paths.append(str(tmp_path / f"{name}.npz"))
        write(Predictions.from_probabilities(votes, rng.integers(0, 3, 200)), paths[-1])
    calibrators = "temperature,platt,isotonic"
    assert main(["compare", *paths, "--calibrators", calibrators, "--bootstrap", "100"]) == 0
    notes = [line for line in capsys.readouterr().out.splitlines() if "probability 0" in line]
    assert len(notes) == 1
    assert notes[0].startswith("- 4 calibrators: ")


def test_json_is_one_document(files, capsys):
    options = ["--calibrators", "temperature", "--bootstrap", "200", "--folds", "3", "--seed", "7"]
    assert main(["compare", *files, *options, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["recommended"] == "temperature"
    assert [row["name"] for row in document["calibrators"]] == ["identity", "temperature"]
    assert document["settings"] | {"folds": 3, "seed": 7, "bootstrap": 200} == document["settings"]
    found = compare(read(files[0]), read(files[1]), ["temperature"], bootstrap=200, folds=3, seed=7)
    assert document["calibrators"][1]["ece_low"] == found["temperature"].ece_low


def test_the_same_file_twice_is_an_error_unless_forced(files, tmp_path, capsys):
    copy = tmp_path / f"copy{Path(files[0]).suffix}"
    copy.write_bytes(Path(files[0]).read_bytes())
    some = ["--calibrators", "temperature", "--bootstrap", "100"]
    for other in (files[0], str(copy)):
        assert main(["compare", files[0], other, *some]) == 2
        assert "VALID and TEST hold the same examples" in capsys.readouterr().err
    assert main(["compare", files[0], str(copy), "--force", *some]) == 0


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--calibrators", "temperature,plat"], "Unknown calibrator 'plat'"),
        (["--folds", "1"], "folds ≥ 2, got 1"),
        (["--bootstrap", "5"], "at least 100 bootstrap replicates, or 0 for no intervals, got 5"),
    ],
)
def test_bad_input_is_one_line(files, capsys, options, expected):
    assert main(["compare", *files, *options]) == 2
    error = capsys.readouterr().err
    assert expected in error
    assert error.count("\n") == 1


def test_the_recommended_map_is_saved(files, capsys, tmp_path):
    path = tmp_path / "map.json"
    command = ["compare", *files, "--calibrators", "temperature,platt", "--bootstrap", "200"]
    assert main([*command, "-o", str(path)]) == 0
    out = capsys.readouterr().out
    found = compare(read(files[0]), read(files[1]), ["temperature", "platt"], bootstrap=200)
    assert f"Saved: {path} ({found.recommended}, fitted on VALID)" in out
    assert load_calibrator(path).name == found.recommended
    assert "which a temperature or an isotonic curve removes" in out
    assert "only a better model" not in out  # Another curve may lower the rest too.
    assert main([*command, "-o", str(path)]) == 2  # Before the work.
    assert "exists" in capsys.readouterr().err
    assert main([*command, "-o", str(path), "--overwrite", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["output"] == str(path)
    assert main([*command, "-o", str(tmp_path / "map.onnx")]) == 2


def test_only_maps_that_keep_predictions_are_compared(files, capsys):
    command = ["compare", *files, "--keep-predictions", "--json", "--bootstrap", "200"]
    assert main(command) == 0
    maps = json.loads(capsys.readouterr().out)["calibrators"]
    assert len(maps) > 5
    assert all(CALIBRATORS[row["name"]].calibrator.keeps_argmax for row in maps)
    assert all(row["accuracy_change"] == 0 for row in maps)
