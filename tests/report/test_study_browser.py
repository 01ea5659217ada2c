"""The report of runs in a real headless Chromium."""

import json
import statistics
from pathlib import Path

import pytest

from calibrant.study import build_study, read_all
from calibrant.study.page import render_study

PILOT = Path(__file__).parents[2] / "benchmarks" / "results" / "pilot-methods.jsonl"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("study") / "index.html"
    path.write_text(render_study(build_study(read_all([PILOT]))), "utf-8")
    return path


@pytest.mark.parametrize(("width", "dark"), [(380, False), (1200, True)])
def test_opens_without_errors_requests_or_sideways_scrolling(browser, page, width, dark):
    browser.open(page, width, dark=dark)
    assert browser.logs() == []
    assert browser.requests() == [page.resolve().as_uri()]
    assert browser.run("return document.documentElement.scrollWidth - innerWidth") <= 0
    background = browser.pixels()[5, 5, :3].mean()
    assert background < 60 if dark else background > 200


def test_a_number_leads_to_its_records(browser, page):
    browser.open(page)
    links = "[...document.querySelectorAll('td a')]"
    browser.run(f"{links}.find((a) => a.textContent === '11.7 ± 2.2').click()")
    target = browser.run("return document.querySelector(':target').textContent")
    assert target.startswith("3 records: gum-focal-128x1-s0-")
    browser.run("document.querySelector(':target a').click()")
    assert browser.run("return document.querySelector(':target').tagName") == "TR"
    assert browser.logs() == []


def test_points_tell_their_method_and_who_is_close_by(browser, page):
    browser.open(page)
    spots = "svg[aria-label^='F1 against ECE on gum, As trained'] .spot"
    browser.hover(spots, 5)
    records = map(json.loads, PILOT.read_text().splitlines())
    focal = [r for r in records if (r["recipe"]["data"], r["recipe"]["method"]) == ("gum", "focal")]
    f1 = [record["results"]["identity"]["test"]["entity_f1"] for record in focal]
    half = 4.30265 * statistics.stdev(f1) / 3**0.5
    shown = f"F1 {statistics.mean(f1):.4f} ± {half:.4f}"
    assert browser.tip() == ["focal (gamma 3)", shown, "ECE 0.0513 ± 0.0275"]
    browser.hover(spots, 0)  # Covered by another.
    method, *_, close = browser.tip()
    assert {method, close} == {"error_regularization", "Close by: cross_entropy"}
    browser.hover("h1")
    browser.run("document.querySelector('svg').focus()")
    browser.press("ArrowRight")
    assert browser.tip() == [
        "error_regularization", "Average rank 2.67", "Not significantly worse than the best"
    ]  # fmt: skip
