"""The page on clusters says what is true."""

import doctest
import json
import re
from pathlib import Path

import pytest

from calibrant.calibrators import CALIBRATORS
from calibrant.distributed.fitting import is_distributed

PAGE = Path(__file__).parents[2] / "docs" / "clusters.md"


def test_the_example_of_the_page_runs():
    assert doctest.testfile(str(PAGE), module_relative=False).failed == 0


def test_the_table_lists_every_calibrator_of_sums():
    text = PAGE.read_text("utf-8").partition("<!-- scale: begin -->")[0]  # Then come measurements.
    rows = re.findall(r"^\| ([a-z, -]+) \| (?:the|one|1)", text, re.MULTILINE)
    listed = {name for row in rows for name in row.split(", ")}
    known = {name for name, row in CALIBRATORS.items() if is_distributed(row.calibrator())}
    assert listed == {name.removesuffix("-top-label") for name in known} - {"identity"}


def test_the_tables_are_those_of_the_results(monkeypatch):
    results = PAGE.parents[1] / "benchmarks" / "results" / "scale-cpu.json"
    if not results.exists():
        pytest.skip("benchmarks/scale.py has not been run at rest yet")
    monkeypatch.syspath_prepend(PAGE.parents[1] / "benchmarks")
    from scale import tables

    assert tables(json.loads(results.read_text())) in PAGE.read_text("utf-8")
