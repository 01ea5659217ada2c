"""The links of the README lead somewhere, and a script draws its picture."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_links_lead_somewhere():
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    local = [link for link in links if "://" not in link]
    assert "docs/images/demo.png" in local
    assert [link for link in local if not (ROOT / link).exists()] == []


def test_the_picture_can_be_drawn_again_and_is_small(tmp_path):
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    runpy.run_path(str(ROOT / "examples" / "readme_picture.py"))["draw"](str(tmp_path / "demo.png"))
    for picture in (tmp_path / "demo.png", ROOT / "docs" / "images" / "demo.png"):
        content = picture.read_bytes()
        assert content.startswith(b"\x89PNG")
        assert 20_000 < len(content) < 120_000
