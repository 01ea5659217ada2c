"""Recipes: what they check, and names that last."""

import dataclasses
import hashlib
import json
import math

import pytest

from calibrant.cli import main
from calibrant.errors import InputError
from calibrant.experiments.history import Epoch, History
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.recipe_file import expand_grid, read_recipes
from calibrant.experiments.record import Record, read_record
from calibrant.training import windows
from calibrant.training.schedule import DECAYS, OPTIMIZERS


def test_a_key_is_that_of_the_first_version_until_a_new_setting_is_used():
    recipe = Recipe(data="gum", seed=3)
    new = (
        "task", "engine", "accumulate", "patience", "shift", "optimizer", "momentum", "decay",
        "clip", "augment", "compile", "image_size", "measure", "calibrator", "train_file",
        "dev_file", "test_file", "unseen_types", "copies", "labels", "scheme",
    )  # fmt: skip
    first = {k: v for k, v in recipe.to_dict().items() if k not in new}
    digest = hashlib.sha256(json.dumps(first, sort_keys=True).encode()).hexdigest()[:8]
    assert recipe.key == f"gum-cross_entropy-128x1-s3-{digest}"
    for changed in (
        {"engine": "trainer"},
        {"accumulate": 2},
        {"patience": 1},
        {"shift": ["typos-1"]},
    ):
        assert dataclasses.replace(recipe, **changed).key != recipe.key


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"sede": 1}, "Did you mean 'seed'"),
        ({"engine": "leen"}, "Did you mean 'lean'"),
        ({"epochs": 0}, "epochs must be a whole number of at least 1, got 0"),
        ({"epochs": 2.5}, "got 2.5"),
        ({"seed": True}, "got True"),
        ({"learning_rate": 0.0}, "learning_rate must be greater than 0"),
        ({"warm_up": 1.0}, "warm_up must be a share"),
        ({"batch": 8, "accumulate": 5}, "equal parts"),
        ({"learning_rate": "5e-5"}, "learning_rate is a number, got '5e-5'"),
        ({"clip": True}, "clip is a number, got True"),
        ({"data": 2003}, "data is a text, got 2003"),
        ({"method_options": ["gamma"]}, "method_options is a table"),
        ({"task": "image", "compile": "yes"}, "compile is true or false"),
        ({"task": ["ner"]}, "Unknown task"),
        ({"max_length": 513}, "max_length is at most 512, got 513"),
        ({"measure": ["identity", "spline"]}, "add 'temperature'"),
        ({"measure": []}, "add 'identity'"),
    ],
)
def test_bad_settings(content, message):
    with pytest.raises(InputError, match=message):
        Recipe.from_dict(content)


def test_grids(tmp_path):
    recipes = expand_grid({"data": "gum"}, [{"seed": [0, 1], "method": ["focal", "mse"]}, {}])
    assert len(recipes) == 5
    path = tmp_path / "grid.toml"
    path.write_text("[[grid]]\nseed = [1, 2]\n")
    assert [recipe.seed for recipe in read_recipes(path)] == [1, 2]
    path.write_text("[[grid")
    with pytest.raises(InputError, match="is not TOML"):
        read_recipes(path)
    path.write_text("[grids]\n")
    with pytest.raises(InputError, match="Did you mean 'grid'"):
        read_recipes(path)
    path.write_text("epochs = 2\n")
    with pytest.raises(InputError, match=r"'epochs' is a setting; write it below \[defaults\]"):
        read_recipes(path)


def test_the_longest_window_has_a_bucket():
    assert windows.LENGTHS[-1] == settings()["max_length"]["most"]


def settings():
    return {field.name: field.metadata for field in dataclasses.fields(Recipe)}


def test_settings_name_what_the_schedule_knows():
    assert settings()["optimizer"]["choices"] == OPTIMIZERS
    assert settings()["decay"]["choices"] == DECAYS


def test_every_setting_explains_itself_and_is_an_option_of_train(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    printed = " ".join(capsys.readouterr().out.split())
    for name, about in settings().items():
        name = {"method_options": "set"}.get(name, name.replace("_", "-"))
        flag = about.get("flag", f"--{name}")
        assert f" {flag} " in printed
        assert len(about["help"].split()) > 1


def test_settings_over_those_of_a_file(tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text("[defaults]\nepochs = 3\n[[grid]]\nseed = [1, 2]\nbatch = 4\n")
    recipes = read_recipes(path, {"epochs": 1, "batch": 8})
    assert [(r.seed, r.epochs, r.batch) for r in recipes] == [(1, 1, 8), (2, 1, 8)]
    with pytest.raises(InputError, match="Did you mean 'epochs'"):
        read_recipes(path, {"epoch": 1})


def test_the_old_key_of_the_calibrators_to_measure_is_read(tmp_path):
    names = ["identity", "temperature", "spline"]
    recipe = Recipe.from_dict({"maps": names, "dtype": "float32"})
    assert recipe.measure == tuple(names)
    assert "maps" not in recipe.to_dict()
    assert recipe.key.endswith("-482b3442")  # As the version before named its record.
    path, old = tmp_path / "grid.toml", f"maps = {names}"
    for table in (f"[defaults]\n{old}", f"[[grid]]\n{old}", f"[[grid]]\nvariant = [{{{old}}}]"):
        path.write_text(table)
        with pytest.warns(FutureWarning, match="recipe key 'maps' is now 'measure'"):
            (read,) = read_recipes(path)
        assert read.measure == tuple(names)


def test_the_number_type_is_that_of_the_device():
    assert Recipe().on("cpu") == Recipe(dtype="float32")
    assert Recipe().on("cuda:1") == Recipe(dtype="bfloat16")
    assert Recipe(dtype="tf32").on("cpu").dtype == "tf32"


def test_calibrators_to_measure_are_one_setting_of_a_grid():
    names = ["identity", "temperature", "spline"]
    assert [r.measure for r in expand_grid({}, [{"measure": names, "seed": [0, 1]}])] == [
        tuple(names),
        tuple(names),
    ]
    both = expand_grid({}, [{"measure": [names, names[:2]]}])
    assert [r.measure for r in both] == [tuple(names), tuple(names[:2])]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[grid]\nseed = [1]\n", r"each grid as \[\[grid\]\]"),
        ("[[defaults]]\nseed = 1\n", r"one table \[defaults\]"),
        ("[[grid]]\nseed = []\n", "seed of a grid has no value"),
        ("[[grid]]\nvariant = ['focal']\n", "variant of a grid is a list of tables"),
    ],
)
def test_grids_written_otherwise(content, message, tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        read_recipes(path)


def epochs(*scores):
    return [Epoch(n, 10 * n, 0.5, f1, 0.1, 0.2, 1.0) for n, f1 in enumerate(scores, start=1)]


@pytest.mark.parametrize(
    ("patience", "scores", "best", "stops"),
    [
        (0, (0.5, 0.4, 0.3), 1, False),
        (2, (0.5, 0.4), 1, False),
        (2, (0.5, 0.4, 0.5), 1, True),
        (1, (float("nan"), 0.0), 2, False),
        (1, (0.3, float("nan")), 1, True),
    ],
)
def test_when_to_stop(patience, scores, best, stops, tmp_path):
    history = History(patience)
    for epoch in epochs(*scores):
        history.add(epoch)
    assert history.best == best
    assert history.stops == stops
    again = History.from_dict(history.to_dict())
    assert again.stops == stops
    history.write(tmp_path / "log.jsonl")
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == len(scores)
    assert "NaN" not in (tmp_path / "log.jsonl").read_text()


def test_a_number_that_is_none_is_null_in_json(tmp_path):
    results = {"identity": {"test": {"entity_ece": float("nan"), "ece": 0.25}}}
    path = Record(Recipe(), results, {}, {}).write(tmp_path)
    assert "NaN" not in path.read_text()
    numbers = read_record(path).results["identity"]["test"]
    assert math.isnan(numbers["entity_ece"])
    assert numbers["ece"] == 0.25
