"""The examples in docs/choosing-a-calibrator.md run, and it names every calibrator."""

import doctest
import sys
from pathlib import Path

import pytest

from calibrant.calibrators import CALIBRATORS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "choosing-a-calibrator.md"


def test_examples_run():
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.attempted > 5
    assert result.failed == 0


def test_every_map_is_named():
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in CALIBRATORS if name != "identity" and f"`{name}`" not in text] == []


def test_the_table_of_the_study_is_that_of_its_records(monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT / "benchmarks")])
    from map_study import records, summaries

    page = PAGE.read_text(encoding="utf-8").splitlines()
    rows = summaries(records(ROOT / "benchmarks" / "results" / "map-study.jsonl"))
    assert len(rows) > 20
    assert [row for row in rows if row not in page] == []
