"""The examples of every docstring, and the claims of docs/corruptions.md."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import calibrant.corruptions as package
from calibrant.tasks.corrupted_files import LAYOUTS
from calibrant.tasks.ner.corpora.shared_types import ALIASES

PAGE = (Path(__file__).parents[2] / "docs" / "corruptions.md").read_text(encoding="utf-8")

MODULES = [f"{package.__name__}.{found.name}" for found in pkgutil.iter_modules(package.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    assert doctest.testmod(importlib.import_module(name), optionflags=options).failed == 0


def row_of(name):
    return next(line for line in PAGE.splitlines() if line.startswith("|") and f"`{name}`" in line)


def numbers(text):
    return [float(number) for number in re.findall(r"[0-9.]+", text)]


def test_the_page_tells_every_strength():
    for kind in package.TEXT.values():
        shares = numbers(row_of(kind.name).split("|")[3])
        assert shares == [pytest.approx(100 * rate) for rate in kind.rates], kind.name
        assert row_of(kind.name).split("|")[3].strip().endswith(f"the {kind.unit}s")
    for kind in package.IMAGE.values():
        assert numbers(row_of(kind.name).split("|")[3]) == list(kind.levels), kind.name


def test_the_page_tells_every_alias_and_file():
    other = PAGE[PAGE.index("## Other corpora") :]
    assert all(f"`{name}`" in other for name in ALIASES)
    assert all(f"`{suffix}`" in other for suffixes in LAYOUTS.values() for suffix in suffixes)


def test_the_program_of_the_page(capsys):
    pytest.importorskip("torch")
    ((program, printed),) = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", PAGE, re.DOTALL)
    exec(program, {})
    assert capsys.readouterr().out == printed
