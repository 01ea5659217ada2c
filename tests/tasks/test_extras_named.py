"""The extra that an error names brings what is missing."""

import re
import sys
from pathlib import Path

import pytest

from calibrant.errors import CalibrantError
from calibrant.tasks.image.pictures import load_pictures

PROJECT = (Path(__file__).parents[2] / "pyproject.toml").read_text()


def test_torchvision_comes_with_the_extra_that_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    monkeypatch.setitem(sys.modules, "torchvision.datasets", None)
    with pytest.raises(CalibrantError, match=r"calibrant\[\w+\]") as raised:
        load_pictures("mnist", directory=tmp_path)
    extra = re.search(r"calibrant\[(\w+)\]", str(raised.value))[1]
    line = re.search(rf"^{extra} = \[.*$", PROJECT, re.MULTILINE)[0]
    assert "torchvision" in line
