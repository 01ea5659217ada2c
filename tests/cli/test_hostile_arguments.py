"""Arguments, calibrators, recipes and records made to break: one line, and exit code 2."""

import json

import numpy as np
import pytest

from calibrant import Predictions
from calibrant.calibrators import CALIBRATORS
from calibrant.cli import main

PREDICTIONS = Predictions.from_logits(
    np.random.default_rng(0).normal(size=(60, 3)) + 2 * np.eye(3)[np.arange(60) % 3],
    np.arange(60) % 3,
    label_names=["O", "B-X", "I-X"],
    groups={"position": np.arange(60) % 5},
)


@pytest.fixture
def files(tmp_path):
    PREDICTIONS.write(tmp_path / "p.npz")
    return tmp_path


def refused(arguments, capsys):
    """The one line with which a command refuses."""
    assert main([str(word) for word in arguments]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert len(err) < 1500
    return err


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("histogram bins=2.5", "expects a whole number for bins, got '2.5'"),
        ("histogram bins=true", "expects a whole number for bins, got 'True'"),
        (f"histogram bins={10**400}", "expects a whole number for bins, got '1000"),
        ("histogram equal=3", "expects a text for equal"),
        ("beta ridge=Infinity", "expects a number for ridge"),
        (f"vector shrinkage={10**400}", "expects a number for shrinkage"),
        ("matrix off_diagonal=abc", "expects a number for off_diagonal"),
        (f"bbq models={'[' * 100_000}", "expects a whole number for models"),
    ],
)
def test_settings_of_a_map(setting, expected, files, capsys):
    method, setting = setting.split()
    words = [
        "fit",
        files / "p.npz",
        "--calibrator",
        method,
        "--set",
        setting,
        "-o",
        files / "m.json",
    ]
    assert expected in refused(words, capsys)


def test_a_seed_of_many_digits(files, capsys):
    words = ["audit", files / "p.npz", "--seed", "9" * 30]
    assert "a seed from 0 to 2⁶³ − 1" in refused(words, capsys)


def damaged_maps():
    """Name → how a sound calibrator is changed, as text."""

    def learned(value):
        def change(document):
            document["learned"]["temperature_"] = value

        return change

    def put(**values):
        return lambda document: document.update(values)

    number = {"dtype": "float64", "shape": []}
    yield "infinite", learned({**number, "values": [float("inf")]}), "is not finite"
    yield (
        "beyond floats",
        learned({**number, "values": [10**400]}),
        "is not a calibrator saved by calibrant",
    )
    yield (
        "shape",
        learned({**number, "shape": [3, 3], "values": [1.0]}),
        "is not a calibrator saved",
    )
    yield "type", learned({**number, "dtype": "S9999999999", "values": [1.0]}), "numbers of type"
    yield "text", learned({**number, "values": ["a"]}), "is not a calibrator saved by calibrant"
    yield "no object", learned(1), "is not a calibrator saved by calibrant"
    yield "format", put(format=float("inf")), "is damaged"
    yield "classes", put(classes=10**12, label_names=None), "cannot have 1000000000000 classes"
    yield "names", put(label_names=["a"]), "no list of 3 label names"
    yield "deep", put(fitted_on="@@"), "nested too deeply"


@pytest.mark.parametrize(
    ("change", "expected"), [pytest.param(c, e, id=n) for n, c, e in damaged_maps()]
)
def test_damaged_maps(change, expected, files, capsys):
    path = files / "m.json"
    CALIBRATORS["temperature"].calibrator().fit(PREDICTIONS).save(path)
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document).replace('"@@"', "[" * 100_000))
    assert expected in refused(["apply", path, files / "p.npz", "-o", files / "o.npz"], capsys)
    assert not (files / "o.npz").exists()


@pytest.mark.parametrize(
    ("name", "learned", "value", "expected"),
    [
        ("isotonic-top-label", "values_", 1e308, "larger than any that is learned"),
        ("isotonic-top-label", "values_", 1.5, "no probability"),
        ("isotonic-top-label", "nodes_", 7.0, "not in ascending order"),
        ("histogram", "edges_", 7.0, "not in ascending order"),
        ("temperature", "temperature_", 0.0, "not above 0"),
    ],
)
def test_values_that_no_fit_ends_with(name, learned, value, expected, files, capsys):
    path = files / "m.json"
    CALIBRATORS[name].calibrator().fit(PREDICTIONS).save(path)
    document = json.loads(path.read_text())
    document["learned"][learned]["values"][0] = value
    path.write_text(json.dumps(document))
    message = refused(["apply", path, files / "p.npz", "-o", files / "o.npz"], capsys)
    assert f"{learned} of {name} is {expected}" in message


@pytest.mark.parametrize("name", ["vector", "matrix", "platt", "histogram", "isotonic"])
def test_values_per_class_are_as_many_as_classes(name, files, capsys):
    """NumPy would repeat a single one for all classes, and give other numbers in silence."""
    path = files / "m.json"
    CALIBRATORS[name].calibrator().fit(PREDICTIONS).save(path)
    document = json.loads(path.read_text())
    for value in document["learned"].values():
        if value["shape"]:
            size = int(np.prod(value["shape"][1:]))
            value.update(shape=[1, *value["shape"][1:]], values=value["values"][:size])
    path.write_text(json.dumps(document))
    message = refused(["apply", path, files / "p.npz", "-o", files / "o.npz"], capsys)
    assert "has the shape (1" in message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = " + "[" * 100_000, "is not TOML: it is nested too deeply"),
        ("a = " + "{b = " * 100_000, "is not TOML: it is nested too deeply"),
        ("grid = [1]", "expected one table [defaults], and each grid as [[grid]]"),
        ("[defaults]\nmethod_options = {a = 1979-05-27}", "cannot be kept in a record"),
        (f"[defaults]\nlearning_rate = {10**400}", "of usual size"),
        (f"[defaults]\nseed = {10**30}", "seed must be a whole number of at least 0"),
        ("[[grid]]\n" + "".join(f"{key} = {list(range(1, 40))}\n" for key in
         ("seed", "epochs", "batch", "head_width")), "2,313,441 combinations; at most 100,000"),
    ],
)  # fmt: skip
def test_recipes(text, expected, tmp_path, capsys):
    (tmp_path / "r.toml").write_text(text)
    words = ["bench", tmp_path / "r.toml", "-o", tmp_path / "runs", "--dry-run"]
    assert expected in refused(words, capsys)


RECORD = {
    "recipe": {"data": "gum", "seed": 1},
    "results": {"identity": {"test": {"ece": 0.1, "entity_f1": 0.5, "reduction": "min"}}},
    "training": {"steps": 3, "seconds": 1.0, "notes": []},
    "circumstances": {},
}


@pytest.mark.parametrize(
    ("place", "value", "expected"),
    [
        (
            ("results", "identity", "test", "ece"),
            "a lot",
            "identity, test, ece is not a number: 'a lot'",
        ),
        (("results", "identity", "test", "ece"), 10**400, "ece is too large"),
        (("results", "identity", "test", "ece"), [1], "ece is not a number"),
        (("results", "identity"), 0.5, "its results of identity are not an object"),
        (("results",), [], "its results are not an object"),
        (("training",), None, "its training is not an object"),
        (("training", "steps"), "3", "training, steps is not a number"),
        (("training", "steps"), float("inf"), "training, steps is not a count"),
        (("training", "notes"), "text", "training, notes is not a list"),
        (("recipe", "head_width"), "wide", "head_width must be a whole number"),
        (("recipe", "data"), "\ud800", "half of a character"),
        (("circumstances",), "@@", "nested too deeply"),
    ],
)
def test_records(place, value, expected, tmp_path, capsys):
    record = json.loads(json.dumps(RECORD))
    *above, last = place
    inner = record
    for name in above:
        inner = inner[name]
    inner[last] = value
    (tmp_path / "r.json").write_text(json.dumps(record).replace('"@@"', "[" * 100_000))
    message = refused(["report", tmp_path / "r.json"], capsys)
    assert "r.json is not a record: " in message
    assert expected in message


def test_a_sound_record_is_taken(tmp_path, capsys):
    (tmp_path / "r.json").write_text(json.dumps(RECORD))
    assert main(["report", str(tmp_path / "r.json")]) == 0
    assert "0.1" in capsys.readouterr().out


def test_brackets_in_texts_and_comments_are_no_nesting(tmp_path, capsys):
    many = "[" * 200
    lines = f'title = "{many} \\" {many}"\n# {many}\n[defaults]\ndata = \'{many}\'\n'
    (tmp_path / "r.toml").write_text(lines)
    words = ["bench", str(tmp_path / "r.toml"), "-o", str(tmp_path / "runs"), "--dry-run"]
    assert main(words) == 0
    assert "1 recipe" in capsys.readouterr().out
