"""The examples of the page on new data are right."""

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "watch-and-adapt.md"


def test_the_examples_of_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.testfile(str(PAGE), module_relative=False, optionflags=flags).failed == 0
