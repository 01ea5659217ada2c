"""The examples of docs/conventions.md give the numbers that the page prints."""

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "conventions.md"


def test_every_number_on_the_page():
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.attempted > 50
    assert result.failed == 0
