"""The examples in docs/choosing-a-calibrator.md run, and it names every map."""

import doctest
from pathlib import Path

from calibrant.calibrators import CALIBRATORS

PAGE = Path(__file__).parents[2] / "docs" / "choosing-a-calibrator.md"


def test_examples_run():
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.attempted > 5
    assert result.failed == 0


def test_every_map_is_named():
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in CALIBRATORS if name != "identity" and f"`{name}`" not in text] == []
