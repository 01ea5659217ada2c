"""The report as a file: what it says, what it refuses, how large it is. No browser needed."""

import itertools
import re
import subprocess
import sys
from dataclasses import replace
from importlib import resources

import numpy as np
import pytest

from calibrant import InputError, Predictions, audit
from calibrant.auditing import Measure
from calibrant.metrics import METRICS, CalibrationState, Confidences, accumulate
from calibrant.plots import styles
from calibrant.report import render_report, write_report
from calibrant.report.markup import tag


def test_long_sentences_are_whole(overconfident):
    """A verdict of two numbers and their reasons, or a warning that says what to do, is long."""
    long = "Warned: " + "the intervals are wide; " * 15 + "use another column."
    text = render_report(replace(overconfident, verdict=("Lead.", long), warnings=(long,)))
    visible = re.sub(r' title="[^"]*"', "", text)
    assert visible.count(long) == 2


def test_one_audit_has_every_section(overconfident):
    text = render_report(overconfident)
    heads = re.findall(r"<h2>(.*?)</h2>", text)
    assert heads == [
        "Verdict",
        "Measures",
        "Diagrams",
        "Worst classes",
        "Most confident mistakes",
        "Provenance",
    ]
    for words in (*overconfident.verdict, "9f86d081" * 8, "predictions.parquet", "sentence"):
        assert words in text


def test_a_section_of_ones_own_comes_first(overconfident, tmp_path):
    opening = tag("section", tag("h2", "Mine <1>"), tag("img", src="data:,", alt="none"))
    path = write_report(overconfident, tmp_path / "report.html", opening=opening)
    text = path.read_text()
    assert re.findall(r"<h2>(.*?)</h2>", text)[:2] == ["Mine &lt;1&gt;", "Verdict"]
    assert '<img src="data:," alt="none"/>' in text


def test_every_drawing_has_words_instead(overconfident):
    text = render_report(overconfident)
    drawings = re.findall(r"<svg[^>]*>", text)
    assert len(drawings) == 3 + 10
    for drawing in drawings:
        assert 'role="img"' in drawing
        assert re.search(r'aria-label="[^"]{40,}"', drawing)
    assert "ECE 0.2" in drawings[0]


def test_headings_skip_no_level(entities, calibrated):
    text = render_report({"before": entities, "after": calibrated})
    levels = [int(n) for n in re.findall(r"<h(\d)", text)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


def test_nothing_outside_is_named_and_only_its_own_script_may_run(overconfident):
    text = render_report(overconfident)
    assert not re.search(r"https?:|//[a-z]|@import|url\(|src=", text)
    assert not re.search(r"\son\w+=", text)
    assert re.findall(r'href="(.*?)"', text) == ["data:,"]
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', text)[1]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_two_audits_stand_side_by_side_with_the_change(overconfident, calibrated):
    text = render_report({"before": overconfident, "after": calibrated})
    before, after = (a.measures[1].value for a in (overconfident, calibrated))
    row = re.search(r"<tr><th[^>]*><span[^>]*>Expected.*?</tr>", text)[0]
    assert f"{before:.4f}" in row
    assert f"{after:.4f}" in row
    assert f"−{before - after:.4f}" in row
    assert "better" in row
    worse = render_report({"before": calibrated, "after": overconfident})
    assert "worse" in re.search(r"<tr><th[^>]*><span[^>]*>Expected.*?</tr>", worse)[0]
    assert text.count("Reliability diagram, ") == 2


def test_every_measure_knows_which_way_is_better(overconfident):
    def words(value):
        measures = tuple(Measure(name, name, value) for name in METRICS)
        return replace(overconfident, measures=measures)

    text = render_report({"before": words(0.1), "after": words(0.2)})
    rows = dict(re.findall(r"<tr><th[^>]*><span[^>]*>(\w+)</span>(.*?)</tr>", text))
    assert set(rows) == set(METRICS)
    higher = {name for name, row in rows.items() if "better" in row}
    neither = {name for name, row in rows.items() if "better" not in row and "worse" not in row}
    f1_like = {"accuracy", "entity_precision", "token_f1", "entity_f1", "apcr"}
    of_pixels = {"mean_iou", "inside_accuracy", "border_accuracy"}
    assert higher == f1_like | of_pixels | {
        *("auroc", "entity_auroc", "positive_auroc", "coverage_at_risk", "top_accuracy")
    }
    of_positives = {"positive_rate", "positive_score", "top_confidence"}
    assert neither == {"mean_confidence", "entity_confidence", *of_positives}


def test_a_measure_that_only_one_audit_has_shows_a_dash(overconfident, calibrated):
    fewer = replace(calibrated, measures=calibrated.measures[:1])
    row = re.search(
        r"<tr><th[^>]*><span[^>]*>Expected.*?</tr>",
        render_report({"before": overconfident, "after": fewer}),
    )[0]
    assert row.count("–") == 2


def test_entities_are_shown_when_there_are_any(entities, overconfident):
    text = render_report(entities)
    assert "<h2>Entities</h2>" in text
    assert "product over its words" in text
    assert "<bdi>PER</bdi>" in text
    assert "entities (" in text
    assert "<h2>Entities</h2>" not in render_report(overconfident)


def test_a_thousand_classes_stay_small(make_audit, make_predictions):
    names = [f"a rather long name of class number {k}" for k in range(1000)]
    audit = make_audit(make_predictions(classes=1000, n=5000, names=names))
    text = render_report({"before": audit, "after": audit})
    assert len(text.encode()) < 500_000
    assert "25 of 1,000 shown." in text


def test_many_bins_and_endless_values_stay_small(make_audit, make_predictions):
    audit = make_audit(make_predictions(), bins=200, note="x" * 10**6, list=list(range(10**5)))
    text = render_report(audit)
    assert len(text.encode()) < 500_000
    assert "… 100,000 in all" in text


def test_no_examples_and_one(overconfident, make_audit, make_predictions):
    one = make_audit(make_predictions(n=1))
    assert "1 example ·" in render_report(one)
    none = replace(
        overconfident,
        state=CalibrationState.empty(10),
        confidences=Confidences([], []),
        classes=(),
        mistakes=(),
        measures=(),
        verdict=(),
    )
    text = render_report(none)
    assert "no examples" in text
    assert not re.search(r"\bnan\b", text)


def test_a_state_without_classes_leaves_out_the_grid(overconfident, make_predictions):
    state = accumulate(make_predictions(), classwise=False)
    assert "Reliability of class" not in render_report(replace(overconfident, state=state))


def test_a_class_never_predicted_shows_a_dash(overconfident):
    row = replace(overconfident.classes[0], predicted=0, confidence=np.nan, accuracy=np.nan)
    text = render_report(replace(overconfident, classes=(row,)))
    assert '<td class="number">–</td>' in text
    assert not re.search(r"\bnan\b", text)


def test_files_are_not_written_over(tmp_path, overconfident, calibrated):
    path = tmp_path / "report.html"
    assert write_report(overconfident, str(path)) == path
    first = path.read_bytes()
    with pytest.raises(InputError, match=r"report\.html exists"):
        write_report(calibrated, path)
    assert path.read_bytes() == first
    write_report(calibrated, path, overwrite=True)
    assert path.read_bytes() != first


def test_places_that_cannot_be_written_are_named(tmp_path, overconfident):
    with pytest.raises(InputError, match="there is no folder"):
        write_report(overconfident, tmp_path / "missing" / "report.html")
    with pytest.raises(InputError, match="is a folder"):
        write_report(overconfident, tmp_path, overwrite=True)
    with pytest.raises(InputError, match="at least one audit"):
        render_report({})


def test_half_a_code_in_a_name_does_not_stop_the_report(tmp_path, overconfident):
    odd = replace(overconfident, provenance={"file": "caf\udce9.npz"})
    assert b"caf?.npz" in write_report(odd, tmp_path / "odd.html").read_bytes()


def test_the_light_theme_has_the_colours_of_the_plots():
    style = resources.files("calibrant.report").joinpath("style.css").read_text("utf-8")
    light = style.split("@media")[0]
    for name, colour in vars(styles).items():
        if name.isupper() and isinstance(colour, str):
            assert colour in light, name
    assert re.findall(r"--s\d: (#\w{6})", style.split("--s0", 1)[1])[:6] == list(styles.COLOURS[1:])


def test_matplotlib_is_not_needed():
    code = "import sys, calibrant.report; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_off_by_nothing_has_no_direction():
    p = Predictions.from_probabilities(np.eye(2)[[0, 1] * 20], [0, 1] * 20)
    text = render_report(audit(p, bootstrap=0))
    assert "nderconfident" not in text
    assert "Overconfident" not in text
    assert "Confidence minus accuracy" in text
    assert "No gap" in text


def test_a_threshold_near_1_is_not_1():
    low = np.linspace(1e-4, 6e-4, 400)
    p = Predictions.from_probabilities(np.stack([1 - low, low], 1), [0] * 390 + [1] * 10)
    text = render_report(audit(p, bootstrap=0))
    assert re.search(r"Confidence at least 0\.9998", text)
    assert "Confidence at least 1\n" not in text


def test_narrow_bins_have_edges_that_differ():
    from calibrant.charts.calibration import bin_rows

    low = np.linspace(1e-6, 1e-3, 1000)
    p = Predictions.from_probabilities(np.stack([1 - low, low], 1), [0] * 1000)
    ranges = [row[0] for row in bin_rows(accumulate(p, bins=2000))]
    assert ranges[-2:] == ["0.999 – 0.9995", "0.9995 – 1"]


def test_a_stream_without_intervals_has_no_key_for_them():
    from calibrant.charts.stream import stream_chart

    nothing = float("nan")
    for ends, keys in (((nothing, nothing), ["risk"]), ((0.4, 0.6), ["risk", "interval"])):
        chart = stream_chart(["a"], [(0.5, *ends)])
        assert [role for role, _ in chart.keys] == keys
