"""No row, record or count disappears without a word."""

import math
import warnings

import pytest

from calibrant.study import build_study
from calibrant.study.figures import figures_of
from calibrant.study.page import render_study

METHODS = ("cross_entropy", "focal")


def tables_of(study, ending):
    return [table for table in study.tables if table.name.endswith(ending)]


def test_calibrators_without_the_identity_have_tables_of_other_data(make_record):
    shift = ("typos-1", "typos-5")
    records = [make_record(method=m, seed=s, shift=shift) for m in METHODS for s in range(2)]
    study = build_study(records, calibrators=["temperature"])
    (table,) = tables_of(study, "shift")
    assert [row.labels for row in table.rows] == [(method,) for method in METHODS]
    assert {measure["calibrator"] for measure in table.measures} == {"temperature"}


def test_methods_that_were_measured_on_different_data_share_a_table(make_record):
    """The table had only the runs that were measured on the kind that comes first."""
    shifts = zip(METHODS, (("typos-5",), ("case-5",)), strict=True)
    study = build_study(
        make_record(method=m, seed=s, shift=shift) for m, shift in shifts for s in range(2)
    )
    (table,) = tables_of(study, "shift")
    assert [row.labels for row in table.rows] == [(method,) for method in METHODS]
    assert "–" in [entry.text for entry in table.rows[0].entries]


def test_data_whose_name_ends_in_a_year_have_no_strength(make_record):
    shift = ("conll-2003", "news/part-2", "typos-5")
    study = build_study(make_record(seed=s, shift=shift) for s in range(2))
    (other,) = tables_of(study, "shift-other-data")
    assert [row.labels[-1] for row in other.rows] == ["test", "conll-2003", "news/part-2"]
    assert len(tables_of(study, "shift-typos")) == 1


def test_a_record_of_a_training_that_is_there_already_is_named(make_record):
    kept = make_record(seed=0, shift=("typos-1", "typos-5"))
    other = make_record(seed=0, shift=("case-5",))
    assert build_study([other, kept]).missing == (
        f"{other.recipe.key} is left out: {kept.recipe.key} is the same training, and lacks "
        "case-5.",
    )
    assert not build_study([make_record(seed=0), kept]).missing


def test_settings_of_one_corpus_are_one_corpus(make_record):
    study = build_study(make_record(seed=s, batch=batch) for s in range(2) for batch in (8, 16))
    assert "4 records · 1 corpus · 1 method · 2 seeds" in render_study(study)


def test_few_seeds_at_many_widths_are_few(make_record):
    records = [
        make_record(method=m, seed=s, head_width=w)
        for m in METHODS
        for s in range(2)
        for w in (32, 64, 128)
    ]
    (table,) = tables_of(build_study(records), "pooled")
    assert "With fewer than five seeds of a method" in table.note


def test_an_infinite_number_has_no_test_and_the_report_says_so(make_record):
    records = [make_record(method=m, seed=s) for m in METHODS for s in range(2)]
    for record in records:
        record.results["identity"]["test"]["nll"] = 0.3
    records[-1].results["identity"]["test"]["nll"] = math.inf
    (sentence,) = build_study(records, metrics=["nll"], calibrators=["identity"]).missing
    assert sentence == f"gum: tests of NLL, which is infinite in {records[-1].recipe.key}."


def test_a_method_without_a_number_does_not_spoil_the_figure(make_record):
    pytest.importorskip("matplotlib")
    from calibrant.plots.drawing import draw_charts

    records = [make_record(method=m, seed=s) for m in METHODS for s in range(2)]
    records[-1].results["identity"]["test"]["ece"] = math.nan
    (figure,) = (f for f in figures_of(build_study(records)) if f.name == "gum-trade-off")
    assert any(not curve.places for curve in figure.charts[0].curves)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = draw_charts(figure.charts, figure.title)
    (legend,) = drawn.legends
    assert [text.get_text() for text in legend.get_texts()] == list(METHODS)


def test_methods_that_were_not_measured_are_named_and_one_number_is_no_best(make_record):
    records = [make_record(method="cross_entropy", seed=s, shift=("typos-5",)) for s in range(2)]
    records += [make_record(method="focal", seed=s, shift=("typos-3",)) for s in range(2)]
    records += [make_record(method="mixup", seed=s) for s in range(2)]
    study = build_study(records)
    (worst,), (typos,) = tables_of(study, "shift"), tables_of(study, "shift-typos")
    assert worst.note.endswith("Not measured there: focal, mixup.")
    assert typos.note.endswith("Not measured there: mixup.")
    (alone,) = (row for row in typos.rows if row.labels == ("cross_entropy", "128", "5"))
    assert not any(entry.bold for entry in alone.entries)


def test_values_and_settings_without_the_baseline_are_named(make_record):
    grid = [("cross_entropy", 8), ("focal", 8), ("focal", 16), ("mixup", 8), ("mixup", 16)]
    records = [make_record(method=m, batch=b, seed=s) for m, b in grid for s in range(2)]
    study = build_study(records, by=["batch"])
    for ending in ("differences", "tests"):
        (table,) = tables_of(study, ending)
        assert table.note.endswith("Not compared, as cross_entropy has no run there: batch 16.")
    sentence = "gum (batch 16): cross_entropy, against which its methods would be tested."
    assert sentence in build_study([*records, make_record(batch=8, seed=7)]).missing
