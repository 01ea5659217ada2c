"""``calibrant fit``."""

import json

import numpy as np
import onnxruntime
import pytest

from calibrant import Predictions
from calibrant.calibrators import Temperature, load_calibrator
from calibrant.cli import main
from calibrant.comparison import select_calibrator
from calibrant.files import write


@pytest.fixture
def valid(tmp_path):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 500)
    logits = (5 * (rng.normal(size=(500, 3)) + np.eye(3)[labels])).astype(np.float32)
    predictions = Predictions.from_logits(logits, labels, label_names=("cat", "dog", "owl"))
    write(predictions, tmp_path / "valid.parquet")
    return predictions


def test_fits_and_saves(valid, tmp_path, capsys):
    path = tmp_path / "map.json"
    assert main(["fit", str(tmp_path / "valid.parquet"), "-o", str(path)]) == 0
    expected = Temperature().fit(valid)
    fitted = load_calibrator(path)
    assert fitted.temperature_ == pytest.approx(expected.temperature_)
    assert fitted.label_names_ == ("cat", "dog", "owl")
    out = capsys.readouterr().out
    assert "temperature, fitted on 500 examples" in out
    nll = expected.fitted_on_
    assert f"NLL {nll['nll_before']:.4f} -> {nll['nll_after']:.4f}" in out
    assert f"\nNext: calibrant apply {path} FILE -o OUTPUT " in out


@pytest.mark.parametrize("name", ["map.safetensors", "map.onnx"])
def test_the_suffix_chooses_the_format(valid, tmp_path, name):
    path = tmp_path / name
    assert main(["fit", str(tmp_path / "valid.parquet"), "-o", str(path)]) == 0
    expected = Temperature().fit(valid).transform(valid).probabilities()
    if path.suffix == ".onnx":
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        (got,) = session.run(None, {"logits": valid.scores})
    else:
        got = load_calibrator(path).transform(valid).probabilities()
    np.testing.assert_allclose(got, expected, atol=1e-6)


def test_hyperparameters(valid, tmp_path):
    path = tmp_path / "map.json"
    options = ["--calibrator", "histogram", "--set", "bins=5", "--set", "equal=width"]
    assert main(["fit", str(tmp_path / "valid.parquet"), "-o", str(path), *options]) == 0
    assert load_calibrator(path).get_params() | {"bins": 5, "equal": "width"} == (
        load_calibrator(path).get_params()
    )
    assert load_calibrator(path).edges_.shape == (3, 4)


def test_json(valid, tmp_path, capsys):
    arguments = ["fit", str(tmp_path / "valid.parquet"), "-o", str(tmp_path / "m.json"), "--json"]
    assert main(arguments) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["method"] == "temperature"
    assert document["n"] == 500
    assert document["nll_after"] < document["nll_before"]


def test_nothing_is_written_over(valid, tmp_path, capsys):
    path = tmp_path / "map.json"
    path.write_text("mine")
    arguments = ["fit", str(tmp_path / "valid.parquet"), "-o", str(path)]
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "--overwrite" in error
    assert path.read_text() == "mine"
    assert main([*arguments, "--overwrite"]) == 0
    assert load_calibrator(path).name == "temperature"


def test_warnings_of_the_fit_are_printed(tmp_path, capsys):
    right = Predictions.from_logits(5 * np.eye(3), np.arange(3))
    write(right, tmp_path / "right.npz")
    assert main(["fit", str(tmp_path / "right.npz"), "-o", str(tmp_path / "map.json")]) == 0
    assert "every prediction is right" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--calibrator", "temprature"], "Did you mean 'temperature'"),
        (["--set", "bins"], "--set takes KEY=VALUE, got 'bins'"),
        (["--calibrator", "histogram", "--set", "bin=9"], "Did you mean 'bins'"),
        (["--calibrator", "histogram", "--set", "bins=0"], "expects bins ≥ 1"),
        (["--calibrator", "position-temperature"], "needs groups['position']"),
        (["--set", "bins=10"], "temperature has no hyper-parameters, got 'bins'"),
        (["--label-column", "gold"], "no column 'gold'"),
        (["-o", "missing/map.json"], "there is no folder missing"),
    ],
)
def test_bad_input_is_one_line(valid, tmp_path, capsys, options, expected):
    arguments = ["fit", str(tmp_path / "valid.parquet"), "-o", str(tmp_path / "map.json")]
    assert main([*arguments, *options]) == 2
    error = capsys.readouterr().err
    assert expected in error
    assert error.count("\n") == 1
    assert not (tmp_path / "map.json").exists()


def test_a_setting_of_the_wrong_kind_is_one_line(valid, tmp_path, capsys):
    arguments = ["fit", str(tmp_path / "valid.parquet"), "--calibrator", "histogram"]
    arguments += ["--set", "bins=abc", "-o", str(tmp_path / "m.json")]
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert err == "calibrant fit: histogram expects a whole number for bins, got 'abc'.\n"
    assert not (tmp_path / "m.json").exists()


def test_an_unknown_suffix_is_refused_before_the_fit(valid, tmp_path, capsys):
    assert main(["fit", str(tmp_path / "valid.parquet"), "-o", str(tmp_path / "map.xyz")]) == 2
    error = capsys.readouterr().err
    assert "a calibrator is saved as .json or .safetensors or .onnx, got '.xyz'" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "map.xyz").exists()


def test_auto_takes_what_compare_would(valid, tmp_path, capsys):
    path = tmp_path / "map.json"
    command = ["fit", str(tmp_path / "valid.parquet"), "-o", str(path), "--calibrator", "auto"]
    assert main([*command, "--keep-predictions"]) == 0
    expected = select_calibrator(valid, keep_predictions=True)
    assert load_calibrator(path).name == expected.calibrator.name
    assert f"Chosen: {expected.reason}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--calibrator", "auto", "--set", "bins=3"], "needs the calibrator whose hyper-parameter"),
        (["--keep-predictions"], "needs --calibrator auto"),
    ],
)
def test_options_that_do_not_go_together(valid, tmp_path, capsys, options, expected):
    path = tmp_path / "map.json"
    assert main(["fit", str(tmp_path / "valid.parquet"), "-o", str(path), *options]) == 2
    assert expected in capsys.readouterr().err
