"""Wide tables are split; a study of one method omits everything that compares two."""

import pytest

from calibrant.experiments.recipe import Recipe
from calibrant.experiments.record import Record
from calibrant.study import build_study
from calibrant.study.figures import figures_of
from calibrant.study.page import render_study

SLIDES = ("error_rate", "nll", "ece", "mce", "adaptive_ece", "classwise_ece")
MODEL = {"task": "image", "data": "cifar10", "model": "resnet18"}


def table_of(study, name):
    (found,) = [table for table in study.tables if table.name == name]
    return found


@pytest.fixture
def images():
    def record(method, seed):
        recipe = Recipe.from_dict({**MODEL, "method": method, "seed": seed})
        plain = {name: 0.1 + 0.01 * seed + 0.001 * p for p, name in enumerate(SLIDES)}
        scaled = {name: v / (1 if name == "error_rate" else 2) for name, v in plain.items()}
        results = {"identity": plain, "temperature": scaled}
        parts = {map_: {"valid": found, "test": found} for map_, found in results.items()}
        return Record(recipe, parts, {}, {"calibrant": "0.1.0"})

    return [record(m, s) for m in ("cross_entropy", "mmce", "avuc") for s in range(3)]


def test_many_columns_are_two_tables(images):
    study = build_study(images, metrics=SLIDES)
    for name, title in (
        ("results", "Results on cifar10"),
        ("differences", "Difference from cross_entropy on cifar10"),
    ):
        plain = table_of(study, f"cifar10-{name}")
        scaled = table_of(study, f"cifar10-{name}-with-temperature")
        assert (plain.title, scaled.title) == (title, f"{title}, with temperature")
        assert [m["metric"] for m in plain.measures] == list(SLIDES)
        # The error is the same with temperature.
        assert [m["metric"] for m in scaled.measures] == list(SLIDES[1:])
        assert {m["map"] for m in scaled.measures} == {"temperature"}
    assert len([t for t in study.tables if t.name.startswith("cifar10-tests")]) == 1
    few = build_study(images, metrics=SLIDES[1:4])
    assert not [t for t in few.tables if "with-temperature" in t.name]


def test_many_kinds_of_other_data_are_two_tables(make_record):
    kinds = ("blur", "brightness", "contrast", "jpeg", "noise", "pixelate")
    records = [make_record(shift=[f"{kind}-5" for kind in kinds], seed=s) for s in range(2)]
    study = build_study(records)
    first, second = (table_of(study, f"gum-shift{end}") for end in ("", "-2"))
    assert [title for title, _ in first.groups[1:]] == ["test", *(f"{k} 5" for k in kinds[:3])]
    assert [title for title, _ in second.groups[1:]] == ["test", *(f"{k} 5" for k in kinds[3:])]
    assert first.title.endswith("width 128: blur 5, brightness 5, contrast 5")
    assert (
        second.rows[0].entries[4].value
        == records[0].results["identity"]["shift"]["jpeg-5"]["accuracy"]
    )


def test_one_method_is_compared_with_nothing(make_record):
    records = [make_record(data=d, seed=s) for d in ("gum", "wnut17") for s in range(3)]
    study = build_study(records)
    names = {table.name for table in study.tables}
    assert names == {
        "all-corpora-identity", "all-corpora-temperature", "gum-results", "wnut17-results",
    }  # fmt: skip
    assert table_of(study, "all-corpora-identity").title == "All corpora side by side"
    assert not [table.name for table in study.tables if "Bold" in table.note]
    assert not [table for table in study.tables for r in table.rows for e in r.entries if e.bold]
    assert not figures_of(study)


def test_a_figure_is_explained_by_what_it_has(make_record):
    points = [make_record(method=m, seed=s) for m in ("cross_entropy", "focal") for s in range(2)]
    assert "moved a little sideways" not in render_study(build_study(points))
    lines = [make_record(shift=["typos-1", "typos-2"], seed=s) for s in range(2)]
    assert "moved a little sideways" in render_study(build_study(lines))
