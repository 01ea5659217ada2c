"""calibrant report: from records to a folder, or to the terminal."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from calibrant.cli import main

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
PILOT = RESULTS / "pilot-methods.jsonl"
RATES = RESULTS / "pilot-learning-rate.jsonl"


def report(capsys, *arguments, code=0):
    assert main(["report", *map(str, arguments)]) == code
    out, err = capsys.readouterr()
    return err if code else out


def test_writes_a_folder(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    out = report(capsys, PILOT, "-o", tmp_path / "report")
    assert out.startswith("72 records of 3 corpora (gum, ncbi-disease, wnut17); minilm; heads of")
    assert out.endswith(f"\nReport: {tmp_path / 'report' / 'index.html'}\n")
    for name in (
        "index.html",
        "report.md",
        "study.json",
        "tables/gum-results.tex",
        "tables/gum-tests.csv",
        "figures/gum-trade-off.svg",
        "figures/gum-trade-off.png",
    ):
        assert (tmp_path / "report" / name).stat().st_size > 300  # fmt: skip
    assert "--overwrite" in report(capsys, PILOT, "-o", tmp_path / "report", code=2)


def test_prints_the_tables(capsys):
    out = report(capsys, PILOT)
    # As they stood in the first findings, by another program.
    for row in (
        "| focal (gamma 3) | 128 | 3 | **0.511 ± 0.020** | **0.0513 ± 0.0275** | **5.3 ± 2.9** | "
        "**0.0224 ± 0.0040** | **11.7 ± 2.2** |",
        "| cross_entropy | 128 | 3 | **0.832 ± 0.017** | 0.0169 ± 0.0015 | 41.1 ± 5.4 | "
        "**0.0060 ± 0.0027** | **118.2 ± 62.3** |",
    ):
        assert row.replace("**", "") in out.replace("**", "")


def test_keys_and_metrics(capsys):
    out = report(capsys, RATES, "--by", "learning_rate,batch", "--metrics", "nll,entity_f1")
    assert "| method | learning rate | batch | width | seeds | NLL | F1 | NLL (T) |" in out
    assert "| cross_entropy | 5e-05 | 32 | 128 | 2 |" in out
    apart = report(capsys, RATES)
    assert "## gum (batch 64, learning rate 0.0002)" in apart


def test_maps(capsys):
    records = RESULTS / "table1.jsonl"
    assert "APCR (spline)" not in report(capsys, records)
    assert "APCR (spline)" in report(capsys, records, "--calibrators", "identity,spline")
    assert "Did you mean 'spline'" in report(capsys, records, "--calibrators", "splines", code=2)


def test_json(capsys):
    content = json.loads(report(capsys, PILOT, "--json"))
    names = [table["name"] for table in content["tables"]]
    assert "wnut17-results" in names
    assert content["origins"]["records"] == 72


def test_the_title_of_the_recipes_is_shown(tmp_path, capsys):
    from calibrant.experiments.record import write_titles

    lines = PILOT.read_text().splitlines()[:12]
    (tmp_path / "some.jsonl").write_text("\n".join(lines))
    write_titles(tmp_path, ["Which loss\nis it?", ""])
    write_titles(tmp_path, ["Which loss is it?"])
    assert (tmp_path / "titles.txt").read_text() == "Which loss is it?\n"
    assert report(capsys, tmp_path).startswith("# Which loss is it?\n")
    assert "<h1>Which loss is it?" in _page(tmp_path, capsys)


def _page(runs, capsys):
    report(capsys, runs, "-o", runs / "report")
    return (runs / "report" / "index.html").read_text()


def test_missing_data_is_reported(tmp_path, capsys, monkeypatch):
    lines = PILOT.read_text().splitlines()
    (tmp_path / "some.jsonl").write_text("\n".join(lines[:-1]))
    for name in ("matplotlib", "matplotlib.figure"):  # Quicker, and it has a remark to make.
        monkeypatch.setitem(sys.modules, name, None)
    out = report(capsys, tmp_path, "-o", tmp_path / "report")
    assert "\n- wnut17: seed 2 of margin_smoothing (margin 6) 128×1." in out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--metrics", ""], "--metrics takes names with commas between them, got ''"),
        (["--calibrators", ","], "--calibrators takes names with commas between them, got ','"),
        (["--by", "batchs"], "Did you mean 'batch'"),
        (["--baseline", "focal"], "Unknown baseline 'focal'. Known: avuc, cross_entropy,"),
        (["--metrics", "ecee"], "Did you mean 'ece'"),
    ],
)
def test_bad_options_are_one_line(capsys, arguments, expected):
    err = report(capsys, PILOT, *arguments, code=2)
    assert expected in err
    assert err.count("\n") == 1


def test_bad_input_is_one_line(tmp_path, capsys):
    assert "no such file" in report(capsys, tmp_path / "none", code=2)
    assert "No records" in report(capsys, tmp_path, code=2)
    shutil.copy(PILOT, tmp_path / "a.jsonl")
    changed = PILOT.read_text().splitlines()[0].replace('"ece": 0.117182', '"ece": 0.2')
    (tmp_path / "b.jsonl").write_text(changed)
    err = report(capsys, tmp_path, code=2)
    assert "a.jsonl, line 1" in err
    assert "b.jsonl, line 1" in err
    err = report(capsys, tmp_path / "a.jsonl", "-o", tmp_path / "a.jsonl", code=2)
    assert err.count("\n") == 1
