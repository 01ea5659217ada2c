"""Subgroups of a column, and the positive class of binary predictions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from calibrant import Claims, InputError, Predictions, audit, ece, write_report
from calibrant.auditing.estimate import Estimator
from calibrant.auditing.groups import Judged
from calibrant.auditing.per_group import PerGroup
from calibrant.auditing.positive import positive_findings
from calibrant.cli import main
from calibrant.metrics import Bins, accumulate, accuracy, mean_confidence
from calibrant.metrics.blocks import assign_blocks

BINS = Bins()


def binary(n: int = 1200, off: int | None = 2, seed: int = 0) -> Predictions:
    """Four sites, of which one may be overestimated."""
    random = np.random.default_rng(seed)
    scores, site = random.random(n), random.integers(0, 4, n)
    positive = random.random(n) < np.where(site == off, scores**2, scores)
    return Predictions.from_probabilities(scores, positive, groups={"site": site})


def test_rows_are_those_of_the_parts() -> None:
    p = binary()
    top, positive = audit(p, per="site", bootstrap=100).per
    assert (top.of, positive.of) == ("top label", "positive class")
    for table, source in ((top, p), (positive, Claims.of_positive(p))):
        assert [abs(row.gap) for row in table.rows] == sorted(
            (abs(row.gap) for row in table.rows), reverse=True
        )
        for row in table.rows:
            part = source[p.groups["site"] == int(row.name)]
            assert row.n == len(part)
            assert row.accuracy == pytest.approx(accuracy(part))
            assert row.confidence == pytest.approx(mean_confidence(part))
            assert row.ece == pytest.approx(ece(part))
            assert row.gap_low is not None
            assert row.gap_high is not None
            assert row.gap_low <= row.gap <= row.gap_high
    off = next(row for row in positive.rows if row.name == "2")
    assert off.differs
    assert off.p_value < 1e-6


def test_streams_and_missing_values() -> None:
    site = np.array(["A", "B", "", "A", "B", "A"])
    p = Predictions.from_probabilities([[0.9, 0.1, 0]] * 6, [0, 0, 1, 0, 1, 0], groups={"s": site})
    whole, parts = (audit(s, per="s", bootstrap=0).per for s in (p, p.chunks(2)))
    assert whole == parts
    assert {row.name: row.n for row in whole[0].rows} == {"A": 3, "B": 2, "(missing)": 1}
    assert whole[0].rows[0].gap_low is None


def test_false_alarms_are_rare() -> None:
    """Of honest samples about one in twenty has a subgroup that seems to differ."""
    alarms = 0
    for seed in range(200):
        claims, sums = (
            Claims.of_positive(binary(300, off=None, seed=seed)),
            PerGroup("site", 1, BINS),
        )
        sums.add(claims, Judged(np.zeros(300, int), claims.confidence, claims.correct))
        table = sums.table(Estimator(replicates=0), grouped=False)
        alarms += any(row.differs for row in table.rows)
    assert alarms <= 20


def alarms_of_parts(
    sample: Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray, np.ndarray]],
) -> float:
    """Return how often one of two honest parts differs; a sample is (part, document, right)."""
    alarms = 0
    for seed in range(100):
        part, document, right = sample(np.random.default_rng(seed))
        confidence = np.where(part == "easy", 0.99, 0.6)
        sums = PerGroup("part", 1000, BINS)
        groups = {"part": part, "document": document}
        p = Predictions.from_probabilities(confidence, right, groups=groups)
        grouped = len(np.unique(document)) < len(document)
        block = assign_blocks(p, "document" if grouped else None)
        sums.add(p, Judged(block, confidence, right))
        table = sums.table(Estimator(replicates=0), grouped=grouped)
        alarms += any(row.differs for row in table.rows)
    return alarms / 100


def test_a_sure_part_does_not_differ_because_the_rest_is_unsure() -> None:
    """The gap of a hundred unsure examples is uncertain, whichever part is asked about."""

    def sample(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        part = np.repeat(["easy", "hard"], [1000, 100])
        right = random.random(1100) < np.where(part == "easy", 0.99, 0.6)
        return part, np.arange(1100), right

    assert alarms_of_parts(sample) <= 0.08


def test_single_examples_do_not_differ_because_the_rest_depends_on_each_other() -> None:
    """Clinics have a document for each example, hospitals ten of 150 that are alike."""

    def sample(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        part = np.repeat(["easy", "hard"], [600, 1500])
        luck = np.r_[random.random(600), np.repeat(random.random(30), 50)]
        document = np.r_[np.arange(600), np.repeat(600 + np.arange(10), 150)]
        return part, document, luck < np.where(part == "easy", 0.99, 0.6)

    assert alarms_of_parts(sample) <= 0.08


def test_parts_that_differ_within_documents_are_found() -> None:
    """Documents have luck of their own, which both parts share: their difference has none of it."""
    random = np.random.default_rng(0)
    luck, easy = np.repeat(random.uniform(-0.15, 0.15, 200), 10), np.tile([True, False], 1000)
    right = random.random(2000) < 0.75 + luck + np.where(easy, 0.08, -0.08)
    groups = {"part": np.where(easy, "easy", "hard"), "sentence": np.repeat(np.arange(200), 10)}
    p = Predictions.from_probabilities([0.75] * 2000, right, groups=groups)
    assert all(row.differs for row in audit(p, per="part", bootstrap=0).per[0].rows)


def test_one_example_alone_is_no_evidence() -> None:
    n = 200
    random = np.random.default_rng(0)
    scores = random.random(n)
    group = np.where(np.arange(n) == 0, "alone", "rest")
    labels = random.random(n) < scores
    scores[0], labels[0] = 0.9, False
    p = Predictions.from_probabilities(scores, labels, groups={"g": group})
    rows = {row.name: row for row in audit(p, per="g", bootstrap=0).per[1].rows}
    assert not rows["alone"].differs


def test_dependent_examples_are_kept_together() -> None:
    """Copies of examples are no more evidence than one of each."""
    p = binary(120)
    copies = p[np.repeat(np.arange(120), 20)]
    groups = {**copies.groups, "sentence": np.repeat(np.arange(120), 20)}
    copies = Predictions.from_probabilities(copies.scores, copies.labels, groups=groups)
    one, many = (audit(q, per="site", bootstrap=0).per[1] for q in (p, copies))
    assert min(r.p_value for r in many.rows) > min(r.p_value for r in one.rows) / 50


def test_bad_columns() -> None:
    p = binary(300)
    with pytest.raises(InputError, match="Unknown column for the subgroups 'sit'"):
        audit(p, per="sit")
    many = Predictions.from_probabilities(p.scores, p.labels, groups={"id": np.arange(300)})
    with pytest.raises(InputError, match="'id' has more than 200 values; --per takes a column"):
        audit(many, per=["id"])
    with pytest.raises(InputError, match="'calibrant watch --per id' groups times by day"):
        audit(many, per="id")


def test_the_positive_class_beside_the_top_label() -> None:
    p = binary(2000, off=None)
    high = Predictions.from_probabilities(np.sqrt(p.scores[:, 1]), p.labels)  # Too high everywhere.
    found = audit(high, bootstrap=100)
    assert found.positive is not None
    claims = Claims.of_positive(high)
    assert found["positive_ece"].value == pytest.approx(ece(claims))
    assert found["positive_rate"].value == pytest.approx(p.labels.mean())
    assert found["positive_score"].value == pytest.approx(high.scores[:, 1].mean())
    assert found["positive_ece"].value > found["ece"].value
    assert "where the score is too high, the predicted class looks too unsure below one half and "\
        "too confident above it" in found.positive.explanation  # fmt: skip
    low = Predictions.from_probabilities(p.scores[:, 1] ** 2, p.labels)
    of_low = audit(low, bootstrap=0).positive
    assert of_low is not None
    assert (
        "where the score is too low, the predicted class looks too confident" in of_low.explanation
    )
    assert "Here both are about" in str(audit(binary(9000, off=None), bootstrap=0).positive)
    roc = pytest.importorskip("sklearn.metrics").roc_auc_score
    assert found["positive_auroc"].value == pytest.approx(roc(p.labels, high.scores[:, 1]))
    three = Predictions.from_probabilities(np.full((9, 3), 1 / 3), [0, 1, 2] * 3)
    assert audit(three, bootstrap=0).positive is None
    with pytest.raises(InputError, match="expects 2 classes, got 3"):
        Claims.of_positive(three)


def test_errors_that_cancel_out_around_one_half() -> None:
    """Just below one half all are negative, just above all positive: every prediction is right."""
    p = Predictions.from_probabilities([0.49, 0.51] * 200, [0, 1] * 200)
    found = audit(p, bootstrap=0)
    assert found.positive is not None
    assert found["positive_ece"].value == pytest.approx(0)
    assert found["ece"].value == pytest.approx(0.49)
    assert "the bin around one half has scores of both sides" in found.positive.explanation


def test_a_rare_positive_class_that_is_expected_too_often() -> None:
    """1 % are expected and .6 % are right: less than half a point, yet far too many."""
    random = np.random.default_rng(4)
    scores = random.beta(0.5, 49.5, 6000)
    p = Predictions.from_probabilities(scores, random.random(6000) < scores / 1.6)
    found = audit(p, bootstrap=0)
    assert 0.002 < found["positive_score"].value - found["positive_rate"].value < 0.005
    assert ("1", "given") in {(f.name, f.where) for f in found.findings}
    assert found.verdict[0].startswith("Right on the whole, but not for every class: '1', given ")
    assert found.positive is not None
    assert "Here both are about 0.34 points." in found.positive.explanation


def test_a_positive_class_that_is_off_bin_by_bin_but_not_on_average() -> None:
    """Scores above one half are too high and those below too low."""
    random = np.random.default_rng(0)
    scores = random.random(3000)
    p = Predictions.from_probabilities(scores, random.random(3000) < 0.5 + 0.8 * (scores - 0.5))
    state = accumulate(p)
    (finding,) = positive_findings(state, "1", grouped=False, level=0.05)
    assert (finding.name, finding.where) == ("1", "bin by bin")
    assert (
        positive_findings(accumulate(binary(3000, off=None)), "1", grouped=False, level=0.05) == ()
    )


def test_rare_positives_that_come_as_often_as_expected_are_seldom_doubted() -> None:
    random, doubted = np.random.default_rng(1), 0
    for _ in range(60):
        scores = random.beta(0.5, 30, 3000)
        p = Predictions.from_probabilities(scores, random.random(3000) < scores)
        doubted += bool(audit(p, bootstrap=0).findings)
    assert doubted <= 5


def test_old_name_of_keep_together() -> None:
    p = binary(200)
    with pytest.warns(FutureWarning, match="keep_together"):
        old = audit(p, by="site", bootstrap=50)
    assert old.provenance["keep_together"] == old.provenance["by"] == "site"
    assert "needs at least 20" in old.warnings[0]


def _check_units(page: str) -> None:
    """Check that each interval in a report has the unit of its value, and holds it or nearly so."""
    cells = re.findall(
        r'<td class="number">([^<]+)<span class="spread">\[(.+?), (.+?)\]</span>', page
    )
    units = {_split(value)[1] for value, *_ in cells}
    assert {"%", "points", ""} <= units
    for cell in cells:
        (value, unit), *ends = map(_split, cell)
        assert {end for _, end in ends} == {unit}, cell
        if unit == "points":
            assert ends[0][0] <= value <= ends[1][0], cell


def _split(text: str) -> tuple[float, str]:
    """Return a number and its unit; points have one decimal and a sign."""
    points = "points" if re.fullmatch(r"[+−]?\d+\.\d", text) else ""
    number = text.replace("−", "-").replace(",", "").removesuffix(" %")
    return float(number), "%" if text.endswith(" %") else points


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    p = binary(400)
    rows = zip(p.scores[:, 1], p.labels, p.groups["site"], strict=True)
    lines = [f"{s},{'yes' if y else 'no'},{g}" for s, y, g in rows]
    path, report = tmp_path / "p.csv", tmp_path / "r.html"
    path.write_text("\n".join(["y_prob,y_true,site", *lines]) + "\n")
    command = ["audit", str(path), "--per", "site", "--positive", "yes", "--bootstrap", "50"]
    assert main([*command, "--json", "--report", str(report)]) == 0
    document = json.loads(capsys.readouterr().out)["audit"]
    assert [table["of"] for table in document["per"]] == ["top label", "positive class"]
    assert document["positive"]["name"] == "yes"
    assert "Subgroups" in report.read_text()
    _check_units(report.read_text())
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "By site, positive class:" in out
    assert "Positive-class ECE" in out
    assert main(["audit", str(path)]) == 2
    assert "the label names are not known" in capsys.readouterr().err
    assert main(["audit", str(path), "--positive", "yes", "--by", "site", "--bootstrap", "50"]) == 0
    assert "--by is now --keep-together" in capsys.readouterr().err


def test_reports_of_several_audits(tmp_path: Path) -> None:
    found = audit(binary(200), per="site", bootstrap=0)
    write_report({"before": found, "after": found}, tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text().count("Positive class") > 2


def _small_groups(n: int, count: int, power: float = 1.5) -> Claims:
    """Groups of n claims, right less often than they say; in many of them all are right."""
    random = np.random.default_rng(0)
    confidence = random.beta(20, 2, n * count)
    right = random.random(n * count) < confidence**power
    groups = {"site": np.repeat(np.arange(count), n)}
    return Claims.from_top_label(None, confidence, correct=right, groups=groups)


def test_the_gap_of_a_small_group_has_an_interval_as_wide_as_its_accuracy_demands() -> None:
    """Where all are right, replicates agree: their spread held the true gap in 54 % of samples."""
    random = np.random.default_rng(1)
    many = random.beta(20, 2, 10**6)
    truth = float((many - many**1.5).mean())
    (table,) = audit(_small_groups(8, 120), per="site", bootstrap=100).per
    ends = np.array([(row.gap_low, row.gap_high) for row in table.rows], float)
    assert np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1])) >= 0.93
    assert ends.min() >= -1
    assert ends.max() <= 1
    for row in table.rows:
        if row.accuracy == 1 and row.accuracy_low is not None and row.gap_high is not None:
            assert row.gap_high >= row.confidence - row.accuracy_low


def test_the_gap_has_the_interval_of_the_normal_distribution_where_examples_are_many() -> None:
    p = _small_groups(20_000, 1)
    (row,) = audit(p, per="site", bootstrap=300).per[0].rows
    each = p.confidence - p.correct
    half = 1.96 * float(np.std(each)) / len(each) ** 0.5
    assert row.gap_low == pytest.approx(row.gap - half, abs=0.15 * half)
    assert row.gap_high == pytest.approx(row.gap + half, abs=0.15 * half)
