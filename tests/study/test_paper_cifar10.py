"""The papers' numbers for images stand beside ours."""

from pathlib import Path

import pytest

from calibrant.experiments.recipe import Recipe, read_recipes
from calibrant.experiments.record import Record
from calibrant.study.measures import Measure
from calibrant.study.paper_cifar10 import cifar10_source, cifar10_value
from calibrant.study.result_tables import result_tables
from calibrant.study.runs import arrange

RECIPES = Path(__file__).parents[2] / "benchmarks" / "recipes"


def record(method="cross_entropy", seed=0, model="resnet18", **options):
    content = {"task": "image", "data": "cifar10", "model": model, "method": method}
    recipe = Recipe.from_dict({**content, "method_options": options, "seed": seed})
    numbers = {"error": 0.05 + 0.001 * seed, "ece": 0.03, "accuracy": 0.95 - 0.001 * seed}
    results = {kind: {"valid": numbers, "test": numbers} for kind in ("identity", "temperature")}
    return Record(recipe, results, {}, {"calibrant": "0.1.0"})


def test_a_table_has_the_papers_columns_and_its_source():
    runs = arrange([record(seed=s) for s in (0, 1)] + [record("mmce", seed=s) for s in (0, 1)])
    measures = [Measure("error"), Measure("ece"), Measure("ece", "temperature")]
    (table,) = result_tables(runs, measures, ())
    assert table.heads[-3:] == ("paper’s error", "paper’s ECE", "paper’s ECE (T)")
    rows = {row.labels[0]: [entry.value for entry in row.entries[-3:]] for row in table.rows}
    assert rows["cross_entropy"] == pytest.approx([0.04812, 0.04056, 0.03083])
    assert rows["mmce"][:2] == pytest.approx([0.04808, 0.04027])
    assert rows["mmce"][2] is None or rows["mmce"][2] != rows["mmce"][2]
    assert "Golebiowski" in table.note


def test_models_side_by_side_have_the_numbers_of_their_own_paper():
    runs = arrange([record(model=m) for m in ("resnet18", "resnet50", "lenet")], ["model"])
    (table,) = result_tables(runs, [Measure("accuracy"), Measure("ece")], ["model"])
    rows = {row.labels[1]: [entry.text for entry in row.entries[-2:]] for row in table.rows}
    assert rows["resnet18"] == ["0.9519", "0.0406"]
    assert rows["resnet50"] == ["0.9320", "0.0585"]
    assert rows["lenet"] == ["–", "–"]
    assert "Golebiowski" in table.note
    assert "Liu et al." in table.note


def test_error_and_accuracy_come_from_each_other():
    runs = arrange([record(model=m) for m in ("resnet18", "resnet50", "lenet")], ["model"])
    (table,) = result_tables(runs, [Measure("error")], ["model"])
    assert table.heads[-1] == "paper’s error"
    rows = {row.labels[1]: row.entries[-1].text for row in table.rows}
    assert rows == {"resnet18": "0.0481", "resnet50": "0.0680", "lenet": "–"}
    poster = record("margin_smoothing", model="resnet50", margin=10.0).recipe
    assert cifar10_value(poster, "error") == 0.0475  # Not 0.04749999…
    assert cifar10_value(poster, "accuracy") == 0.9525
    assert cifar10_value(poster, "error", "temperature") is None
    assert cifar10_value(record("avuc").recipe, "accuracy") is None


def test_options_and_networks_decide_which_row_it_is():
    def value(metric, **changes):
        return cifar10_value(record(**changes).recipe, metric)

    assert value("ece", method="label_smoothing", alpha=0.1) == 0.07566
    assert value("ece", method="label_smoothing", alpha=0.2) is None
    assert value("accuracy", method="margin_smoothing", model="resnet50", margin=10.0) == 0.9525
    assert value("adaptive_ece", method="margin_smoothing", model="resnet50", margin=10.0) is None
    assert value("ece", model="vit_tiny") is None
    assert cifar10_source(Recipe(data="gum")) is None


def test_every_row_of_the_slides_has_a_recipe():
    recipes = read_recipes(RECIPES / "meta-regularization.toml")
    assert len([recipe for recipe in recipes if recipe.seed == 2]) == 11
    assert all(cifar10_value(recipe, "nll") is not None for recipe in recipes)
    poster = [r for r in read_recipes(RECIPES / "mbls.toml") if r.model == "resnet50"]
    assert len([recipe for recipe in poster if recipe.learning_rate == 0.4]) == 21
    assert all(cifar10_value(recipe, "ece") is not None for recipe in poster)
