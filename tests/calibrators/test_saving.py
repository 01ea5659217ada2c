"""Calibrators as files: exact round trips, clear refusals, and files of earlier versions."""

import json
from pathlib import Path

import numpy as np
import pytest
from calibrator_samples import NAMES, overconfident, quiet_fit, tagged

import calibrant
from calibrant import InputError, NotFittedError, Predictions
from calibrant.calibrators import (
    CALIBRATORS,
    HistogramBinning,
    Matrix,
    Temperature,
    Vector,
    load_calibrator,
)

FIXTURES = Path(__file__).parent / "fixtures"
maps = pytest.mark.parametrize("name", CALIBRATORS)


@maps
@pytest.mark.parametrize("suffix", ["json", "safetensors"])
def test_round_trip_is_exact(name, suffix, tmp_path):
    fitted = quiet_fit(CALIBRATORS[name].calibrator(), tagged())
    path = tmp_path / f"map.{suffix}"
    fitted.save(path)
    again = load_calibrator(path)
    assert type(again) is type(fitted)
    assert again.get_params() == fitted.get_params()
    assert again.fitted_on_ == fitted.fitted_on_
    assert again.classes_.tolist() == fitted.classes_.tolist()
    assert again.label_names_ == fitted.label_names_
    assert again.fell_back_ == fitted.fell_back_
    for key, value in fitted.learned().items():
        assert np.array_equal(again.learned()[key], value)
        assert np.asarray(again.learned()[key]).dtype == np.asarray(value).dtype
    new = tagged(n=200, seed=3)
    assert np.array_equal(again.transform(new).scores, fitted.transform(new).scores)


@maps
def test_files_of_earlier_formats_still_load(name):
    """The files stay as the first version that had the calibrator wrote them, whatever comes."""
    file = FIXTURES / f"{name}.json"
    assert file.exists(), (
        f"{name} needs {file}: a saved file, with scores and results in 'expected'"
    )
    fixture = json.loads(file.read_text())["expected"]
    calibrator = load_calibrator(file)
    groups = {"position": np.array(fixture["position"]), "sentence": fixture.get("sentence", [])}
    for kind in ("logits", "probabilities"):
        scores = np.array(fixture["scores"][kind])
        got = calibrator.transform_scores(scores, kind, groups, fixture.get("signals"))
        assert calibrator.kind_of(kind) == fixture["kind"][kind]
        np.testing.assert_allclose(got, fixture["results"][kind], rtol=1e-12, atol=1e-14)


def test_fall_back_survives(tmp_path):
    p = tagged(n=400, scale=1.0)
    fitted = quiet_fit(HistogramBinning(bins=1), p)
    assert fitted.fell_back_
    fitted.save(tmp_path / "map.json")
    again = load_calibrator(tmp_path / "map.json")
    assert again.fell_back_
    assert np.array_equal(again.transform(p).scores, p.scores)


def test_unfitted_and_existing(tmp_path):
    path = tmp_path / "map.json"
    with pytest.raises(NotFittedError):
        Temperature().save(path)
    assert not path.exists()
    Temperature().fit(tagged()).save(path)
    with pytest.raises(InputError, match="exists; pass overwrite=True"):
        Temperature().fit(tagged()).save(path)
    HistogramBinning().fit(tagged()).save(path, overwrite=True)
    assert load_calibrator(path).name == "histogram"
    assert [p.name for p in tmp_path.iterdir()] == ["map.json"]  # Nothing left next to it.


def test_content_is_plain(tmp_path):
    Temperature().fit(tagged()).save(tmp_path / "map.json")
    content = json.loads((tmp_path / "map.json").read_text())
    assert content["method"] == "temperature"
    assert content["format"] == 3
    assert content["version"] == calibrant.__version__
    assert content["label_names"] == list(NAMES)
    assert content["fitted_on"]["n"] == 500
    assert content["learned"]["temperature_"]["values"][0] == pytest.approx(3, rel=0.2)
    assert (tmp_path / "map.json").stat().st_size < 2000


@pytest.mark.parametrize("name", ["map", "map.txt", "map.JSON", "map.onnx"])
def test_a_suffix_that_says_no_format_is_refused(tmp_path, name):
    calibrator = quiet_fit(Temperature(), overconfident())
    with pytest.raises(InputError, match=r"a calibrator is saved as \.json or \.safetensors, got"):
        calibrator.save(tmp_path / name)


def test_large_maps_go_to_safetensors(tmp_path):
    calibrator = Matrix(most_classes=400)
    calibrator._restore(
        {"weights_": np.eye(400), "intercepts_": np.zeros(400)}, classes=400, names=None
    )
    calibrator.fitted_on_ = {"n": 1}
    with pytest.raises(InputError, match=r"too much for JSON; save it as map\.safetensors"):
        calibrator.save(tmp_path / "map.json")
    calibrator.save(tmp_path / "map.safetensors")
    assert np.array_equal(load_calibrator(tmp_path / "map.safetensors").weights_, np.eye(400))


@pytest.mark.parametrize("content", ["", "{}", "[]", "null", "not json", '{"learned": {}}', "\x00"])
@pytest.mark.parametrize("suffix", ["json", "safetensors"])
def test_other_files_are_refused(content, suffix, tmp_path):
    path = tmp_path / f"map.{suffix}"
    path.write_text(content)
    with pytest.raises(InputError, match="is not a calibrator saved by calibrant"):
        load_calibrator(path)


def test_missing_newer_and_damaged_files(tmp_path):
    path = tmp_path / "map.json"
    with pytest.raises(InputError, match="There is no calibrator at"):
        load_calibrator(path)
    Temperature().fit(tagged()).save(path)
    with pytest.raises(
        InputError, match=r"no calibrator at .*mpa\.json\. Did you mean .*map\.json\?"
    ):
        load_calibrator(tmp_path / "mpa.json")
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "format": 99, "version": "9.0"}))
    with pytest.raises(InputError, match=r"format 99, written by calibrant 9\.0.*upgrade"):
        load_calibrator(path)
    path.write_text(json.dumps({**content, "method": "no-such-map"}))
    with pytest.raises(InputError, match="Unknown calibrator 'no-such-map'"):
        load_calibrator(path)
    path.write_text(json.dumps({**content, "hyperparameters": {"no_such": 1}}))
    with pytest.raises(InputError, match="is damaged"):
        load_calibrator(path)
    path.write_text(json.dumps({k: v for k, v in content.items() if k != "classes"}))
    with pytest.raises(InputError, match="is damaged"):
        load_calibrator(path)


def test_learned_values_are_checked(tmp_path):
    path = tmp_path / "map.json"
    Temperature().fit(tagged()).save(path)
    content = json.loads(path.read_text())
    content["learned"] = {}
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"temperature_.*missing"):
        load_calibrator(path)


def test_loaded_map_refuses_other_classes_and_names(tmp_path):
    Temperature().fit(tagged()).save(tmp_path / "map.json")
    loaded = load_calibrator(tmp_path / "map.json")
    with pytest.raises(InputError, match="fitted on 5 classes"):
        loaded.transform(overconfident(n=10, classes=4))
    p = overconfident(n=10, classes=5)
    assert len(loaded.transform(p)) == 10  # Data without names are taken on trust.
    swapped = Predictions.from_logits(p.scores, p.labels, label_names=NAMES[::-1])
    with pytest.raises(InputError, match="the same names in another order"):
        loaded.transform(swapped)


@pytest.mark.parametrize(
    ("method", "key", "value"),
    [
        (Temperature, ("format",), None),
        (Temperature, ("format",), "one"),
        (Temperature, ("classes",), "five"),
        (Temperature, ("hyperparameters",), []),
        (Temperature, ("learned", "temperature_", "values"), [-2.0]),
        (Vector, ("learned", "intercepts_"), {"dtype": "float64", "shape": [2], "values": [1, 2]}),
        (
            HistogramBinning,
            ("learned", "values_"),
            {"dtype": "float64", "shape": [0], "values": []},
        ),
    ],
)
def test_damaged_files_are_reported_as_damaged(method, key, value, tmp_path):
    path = tmp_path / "map.json"
    method().fit(tagged()).save(path)
    content = json.loads(path.read_text())
    place = content
    for name in key[:-1]:
        place = place[name]
    place[key[-1]] = value
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match="is damaged"):
        load_calibrator(path)


def test_what_cannot_be_loaded_says_what_to_call(tmp_path):
    path = tmp_path / "map.json"
    Temperature().fit(tagged()).save(path)
    with pytest.raises(InputError, match=r"folder of a training run.*calibrant\.load\(.*\.read\("):
        calibrant.load_run(path)
    tagged().write(tmp_path / "test.npz")
    with pytest.raises(InputError, match=r"not a calibrator.*calibrant\.read\(.*test\.npz"):
        load_calibrator(tmp_path / "test.npz")
    (tmp_path / "map.onnx").write_bytes(b"")
    with pytest.raises(InputError, match=r"export for onnxruntime.*\.json or \.safetensors"):
        load_calibrator(tmp_path / "map.onnx")
    with pytest.raises(InputError, match="is a folder; load_calibrator takes the file"):
        load_calibrator(tmp_path)
    path.rename(tmp_path / "calibrator.json")
    with pytest.raises(InputError, match=r"\.load_run\(.*\.load_calibrator\(.*calibrator\.json"):
        load_calibrator(tmp_path)
