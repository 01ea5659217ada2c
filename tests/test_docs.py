"""The pages: each is in the navigation, its links lead somewhere, other libraries' names exist."""

import importlib
import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "scripts" / "docs"))

elsewhere = importlib.import_module("elsewhere")
reference = importlib.import_module("reference")
pages = importlib.import_module("pages")
execution = importlib.import_module("execution")


def test_links_lead_somewhere():
    assert list(pages.broken_links()) == []


def test_a_broken_link_and_a_missing_heading_are_found(tmp_path, monkeypatch):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text(
        "# Top\n[x](b.md) [y](a.md#top) [z](#nowhere)\n`[n](m)`"
    )
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    monkeypatch.setattr(pages, "DOCS", tmp_path / "docs")
    monkeypatch.setattr(pages, "ELSEWHERE", {})
    (tmp_path / "README.md").write_text("")
    found = list(pages.broken_links())
    assert found == ["docs/a.md: b.md", "docs/a.md: #nowhere (no such heading)"]


def test_every_page_is_in_the_navigation():
    listed = {target for targets in pages.sections().values() for target in targets}
    listed |= {part for page in listed if page.endswith(".md") for part in pages.parts_of(page)}
    decisions = {page for page in pages.staged_pages() if page.startswith("docs/decisions/")}
    assert set(pages.staged_pages()) - decisions - {"docs/index.md"} == listed - {"docs/decisions"}


def test_numbers_of_the_conclusions_are_those_of_their_pages():
    conclusions = (ROOT / "docs/findings.md").read_text("utf-8")
    measured = "".join(p.read_text("utf-8") for p in (ROOT / "docs/findings").glob("*.md"))
    numbers = set(re.findall(r"(?<![\d.])\d*\.\d+", conclusions))
    assert len(numbers) > 20
    assert numbers - set(re.findall(r"(?<![\d.])\d*\.\d+", measured)) == set()


def test_every_record_has_a_row():
    folder = ROOT / "benchmarks/results"
    named = set(re.findall(r"`([\w.-]+\.\w+)`", (folder / "README.md").read_text("utf-8")))
    kept = {path.name for path in folder.iterdir()} - {"README.md"}
    assert len(kept) > 50
    assert kept - named == set()


def test_links_of_the_site():
    text = "[a](../README.md) [b](files.md#top) [c](../Makefile) [d](https://x.org) ```n```"
    changed = pages.with_site_links(text, "docs/x.md", "x.md", pages.staged_pages())
    repository = f"{pages.REPOSITORY}/blob/main/Makefile"
    expected = f"[a](index.md) [b](files.md#top) [c]({repository}) [d](https://x.org) ```n```"
    assert changed == expected


def test_links_of_a_notebook():
    text = "[a](../files.md#csv) ![b](x.png) [c](https://d.org) [e](#f) [g](mailto:h@i.org)"
    assert execution.with_web_links(text, "tutorials/a.md") == (
        f"[a]({execution.SITE}files.html#csv) ![b]({execution.SITE}tutorials/x.png) "
        "[c](https://d.org) [e](#f) [g](mailto:h@i.org)"
    )


def test_a_page_becomes_a_notebook(tmp_path):
    block = "```sh run show=a.html\ncalibrant audit x.csv\n```\n"
    hidden = "```python run hide\n1 + 1\n```\n"
    text = f"# T\n\n<!-- needs: plots -->\n[a](b.md)\n\n{block}\n{block}{hidden}"
    execution.Page(tmp_path / "source", "t/a.md").write_notebook(text)
    book = json.loads((tmp_path / "extra/notebooks/t-a.ipynb").read_text("utf-8"))
    sources = [cell["source"] for cell in book["cells"]]
    assert sources[0].startswith("%pip install --quiet 'calibrant[plots]'\n%matplotlib inline\n")
    assert sources[1] == f"# T\n\n[a]({execution.SITE}t/b.html)"
    assert sources[2] == sources[4] == "!calibrant audit x.csv"
    assert 'IFrame("a.html"' in sources[3]
    assert sources[6:] == ["1 + 1"]
    ids = [cell["id"] for cell in book["cells"]]
    assert len(set(ids)) == len(ids) == 7
    assert book["metadata"]["kernelspec"]["name"] == "python3"


@pytest.mark.parametrize(
    "name", sorted({n for names in elsewhere.ELSEWHERE.values() for n in names})
)
@pytest.mark.filterwarnings("ignore")
def test_names_of_other_libraries_exist(name):
    module, _, attribute = name.rpartition(".")
    pytest.importorskip(module.split(".")[0])
    assert hasattr(importlib.import_module(module), attribute)


def test_every_public_module_is_in_the_reference():
    text = (ROOT / "scripts" / "docs" / "reference.py").read_text("utf-8")
    listed = set(re.findall(r'"(calibrant[\w.]*)": "', text))
    for module in listed:
        assert importlib.import_module(module).__all__


@pytest.fixture(scope="module")
def public_names():
    pytest.importorskip("transformers")  # Without it some names cannot be imported.
    pytest.importorskip("starlette")
    return list(reference.public_names())


def without_example(names):
    return {
        name for _, name, thing in names if callable(thing) and ">>>" not in (thing.__doc__ or "")
    }


def test_every_public_name_has_an_example_or_a_reason(public_names):
    assert without_example(public_names) == set(reference.SHOWN_ELSEWHERE)


def test_a_name_without_an_example_is_found():
    def nameless():
        """Do nothing, and show nothing."""

    assert without_example([("m", "nameless", nameless), ("m", "DATA", 1)]) == {"nameless"}


@pytest.mark.parametrize("name", reference.SHOWN_ELSEWHERE)
def test_what_has_no_example_is_shown_on_a_page(name):
    why, page, shown = reference.SHOWN_ELSEWHERE[name]
    assert why
    assert shown in (ROOT / "docs" / f"{page}.md").read_text("utf-8")


def test_every_public_name_has_a_sentence(public_names):
    data = {name for _, name, thing in public_names if not callable(thing)}
    assert data == set(reference.DATA)
    for module, name, thing in public_names:
        if callable(thing):
            assert reference.first_sentence(thing), f"{module}.{name}"
