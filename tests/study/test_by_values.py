"""What ``--by`` shows side by side is not pooled: every value is compared separately."""

import re
from dataclasses import replace

import numpy as np
import pytest

from calibrant.report.svg import draw_svg
from calibrant.study import build_study
from calibrant.study.figures import figures_of
from calibrant.study.grouping import by_setting, by_value, varied
from calibrant.study.page import render_study
from calibrant.study.runs import arrange
from calibrant.study.statistics import holm
from calibrant.study.writing import csv_table, latex_table

stats = pytest.importorskip("scipy.stats")

BASE = (0.100, 0.110, 0.125)
# On one network focal loss helps, on the other it harms: pooled, it would do nothing.
FOCAL = {"small": (0.060, 0.071, 0.084), "large": (0.140, 0.151, 0.165)}


def table_of(study, name):
    (found,) = [table for table in study.tables if table.name == name]
    return found


def entries(table, *labels):
    (row,) = [row for row in table.rows if row.labels == labels]
    return row.entries


@pytest.fixture
def networks(make_record):
    def runs(model, method, eces):
        return [
            make_record(model=model, method=method, seed=seed, ece=ece, f1=0.5 + 0.01 * seed)
            for seed, ece in enumerate(eces)
        ]

    found = [runs(m, "cross_entropy", BASE) + runs(m, "focal", FOCAL[m]) for m in FOCAL]
    avuc = runs("small", "avuc", (0.098, 0.111, 0.121))
    return [*found[0], *found[1], *avuc]


def test_every_network_has_its_own_difference(networks):
    table = table_of(build_study(networks, by=["model"]), "gum-differences")
    assert table.label_heads == ("method", "model")
    labels = [row.labels for row in table.rows]
    assert labels == [("avuc", "small"), ("focal", "large"), ("focal", "small")]
    ece = table.heads.index("ECE")
    for model, verdict in (("small", "better"), ("large", "worse")):
        entry = entries(table, "focal", model)[ece]
        assert entry.value == pytest.approx(np.mean(FOCAL[model]) - np.mean(BASE))
        assert (entry.n, entry.bold) == (3, True)
        assert entry.text.endswith(verdict)
    assert "cross_entropy of the same model" in table.note
    assert "over the methods of one model" in table.note
    rows = {row.labels: row.keys for row in table.rows}
    assert len(rows["focal", "small"]) == 6
    assert not set(rows["focal", "small"]) & set(rows["focal", "large"])


def test_the_tests_are_within_a_network_and_so_is_their_correction(networks):
    table = table_of(build_study(networks, by=["model"]), "gum-tests")
    assert table.label_heads == ("measure", "method", "model")
    assert "the same measure and model" in table.note

    def p(values):
        return stats.ttest_rel(values, BASE).pvalue

    pairs, _, _, raw, corrected, flips, *_ = entries(table, "ECE", "focal", "large")
    assert (pairs.text, flips.value) == ("3", 0.25)
    assert raw.value == pytest.approx(p(FOCAL["large"]))
    assert corrected.value == raw.value  # The only method of that network.
    small = [p(FOCAL["small"]), p((0.098, 0.111, 0.121))]
    found = [entries(table, "ECE", m, "small")[4].value for m in ("focal", "avuc")]
    assert found == pytest.approx(holm(small))


def test_widths_of_a_network_stay_pairs(make_record):
    records = [
        make_record(model=m, method=method, head_width=width, seed=seed)
        for m in ("small", "large")
        for method in ("cross_entropy", "focal")
        for width in (64, 128)
        for seed in range(3)
    ]
    table = table_of(build_study(records, by=["model"]), "gum-tests")
    assert {row.entries[0].text for row in table.rows} == {"6"}
    assert {row.labels[1:] for row in table.rows} == {("focal", "small"), ("focal", "large")}


def test_a_key_with_one_value_changes_nothing(networks):
    one = [record for record in networks if record.recipe.model == "small"]
    requested, plain = build_study(one, by=["model"]), build_study(one)
    for name in ("gum-differences", "gum-tests"):
        assert table_of(requested, name) == table_of(plain, name)


def test_options_of_methods_are_methods_of_their_own(make_record):
    records = [make_record(seed=s) for s in range(2)]
    records += [
        make_record(method="focal", method_options={"gamma": gamma}, seed=s)
        for s in range(2)
        for gamma in (10.0, 2.0)
    ]
    table = table_of(build_study(records, by=["gamma"]), "gum-differences")
    assert [row.labels for row in table.rows] == [("focal (gamma 2)",), ("focal (gamma 10)",)]


def test_values_come_by_size_and_only_keys_that_differ_count(make_record):
    runs = arrange(
        [make_record(learning_rate=r, seed=s) for r in (1e-3, 2e-4, 1e-4) for s in range(2)],
        ["batch", "learning_rate"],
    )
    assert varied([runs]) == ["learning_rate"]
    assert varied([runs[:2], runs[2:4]]) == []
    parts = by_value(runs, ["learning_rate"])
    assert [values[0][1] for values in parts] == ["0.0001", "0.0002", "0.001"]
    assert [len(there) for there in parts.values()] == [2, 2, 2]
    assert by_value(runs, []) == {(): runs}
    assert by_value([], []) == {}


def test_tables_over_corpora_come_for_every_network(two_networks):
    study = build_study(two_networks, by=["model"])
    place = table_of(study, "ranks-model-small").heads.index("ECE")
    for model, rank, wins in (("small", "1.00", "2/0/0"), ("large", "2.00", "0/0/2")):
        ranks = table_of(study, f"ranks-model-{model}")
        assert ranks.title == f"Average rank over 2 corpora (model {model})"
        assert entries(ranks, "head_noise")[place].text == rank
        won = table_of(study, f"wins-identity-ece-model-{model}")
        assert entries(won, "head_noise")[0].text == wins
    titles = [f.title for f in figures_of(study) if f.name.startswith("ranks")]
    assert titles == [f"Average rank over 2 corpora (model {m})" for m in ("large", "small")]


def test_a_key_that_differs_from_corpus_to_corpus_parts_nothing(make_record):
    records = [
        make_record(data=d, batch=batch, method=m, seed=s)
        for d, batch in (("gum", 32), ("wnut17", 64))
        for m in ("cross_entropy", "focal")
        for s in range(2)
    ]
    (alike,) = by_setting(arrange(records, ["batch"]))
    assert (alike.setting, alike.values, alike.words) == ("", (), "")
    assert table_of(build_study(records, by=["batch"]), "ranks")


def test_every_network_has_panels_of_its_own(networks):
    (figure,) = figures_of(build_study(networks, by=["model"]))
    assert [panel.title for panel in figure.charts] == [
        f"{map_}, model {m}"
        for m in ("large", "small")
        for map_ in ("As trained", "With temperature")
    ]
    large, _, small, _ = figure.charts
    # The same names in the same places, so that colours are the same.
    names = ["cross_entropy", "avuc", "focal"]
    assert [c.label for c in large.curves] == [c.label for c in small.curves] == names
    assert [len(c.places) for c in large.curves] == [1, 0, 1]
    assert small.curves[2].places[0].x == pytest.approx(np.mean(FOCAL["small"]))
    drawing = draw_svg(large, "F")
    assert "avuc" not in drawing
    assert "of 2 methods" in drawing
    focal = [record for record in networks if record.recipe.method == "focal"]
    (figure,) = figures_of(build_study(focal, by=["model"]))
    assert [c.label for c in figure.charts[0].curves] == ["large", "small"]


def test_all_ways_to_write_it_have_the_column(networks):
    study = build_study(networks, by=["model"])
    table = table_of(study, "gum-differences")
    lines = csv_table(table).splitlines()
    assert lines[0].startswith("method,model,")
    assert lines[2].startswith("focal,large,")
    assert r"focal & small & " in latex_table(table)
    page = render_study(study)
    assert page.count("cross_entropy of the same model") == 2  # Differences and tests
    assert re.search(r"<b>−0\.04\d\d ± [\d.]+ <wbr>better</b>", page)  # It may break there alone.


def bold_of(table, head):
    place = table.heads.index(head)
    return {row.labels: row.entries[place].bold for row in table.rows}


def test_bold_is_the_best_method_of_a_network(networks):
    table = table_of(build_study(networks, by=["model"]), "gum-results")
    assert bold_of(table, "ECE") == {
        ("cross_entropy", "large", "128"): True,  # Far behind the small network's best.
        ("cross_entropy", "small", "128"): False,
        ("avuc", "small", "128"): False,
        ("focal", "large", "128"): False,
        ("focal", "small", "128"): True,
    }
    assert "the best mean of its width, within one model, and means" in table.note


def test_bold_is_the_best_network_of_one_method(networks):
    focal = [record for record in networks if record.recipe.method == "focal"]
    table = table_of(build_study(focal, by=["model"]), "gum-results")
    marks = bold_of(table, "ECE")
    assert marks == {("focal", "large", "128"): False, ("focal", "small", "128"): True}
    assert "the best mean of its width, whatever the model, and means" in table.note


def test_bold_of_averages_over_widths_is_within_a_network_too(networks):
    changes = {"head_width": 64}
    more = [replace(r, recipe=replace(r.recipe, **changes)) for r in networks]
    table = table_of(build_study([*networks, *more], by=["model"]), "gum-pooled")
    marks = bold_of(table, "ECE")
    assert [labels for labels, bold in marks.items() if bold] == [
        ("cross_entropy", "large"), ("focal", "small"),
    ]  # fmt: skip
    assert "the best mean, within one model, and means" in table.note
