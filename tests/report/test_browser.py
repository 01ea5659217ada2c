"""The report in a real headless Chromium: opens, loads nothing else, reacts to mouse and keys."""

import re
from dataclasses import replace

import numpy as np
import pytest

from calibrant.auditing import ClassRow, Mistake
from calibrant.charts.curve import reliability_curve
from calibrant.report import write_report

EVIL = "</script><script>window.broken=1</script><img src=x onerror='window.broken=1'>\u2028"


@pytest.fixture(scope="module")
def single(tmp_path_factory, overconfident):
    return write_report(overconfident, tmp_path_factory.mktemp("report") / "single.html")


@pytest.fixture(scope="module")
def compared(tmp_path_factory, entities, calibrated):
    path = tmp_path_factory.mktemp("report") / "compared.html"
    return write_report({"before": entities, "after": calibrated}, path)


def overflow(browser):
    """How many pixels the page is wider than the window."""
    return browser.run("return document.documentElement.scrollWidth - innerWidth")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [380, 1200])
@pytest.mark.parametrize("report", ["single", "compared"])
def test_opens_without_errors_requests_or_sideways_scrolling(browser, request, report, width, dark):
    path = request.getfixturevalue(report)
    browser.open(path, width, dark=dark)
    assert browser.logs() == []
    assert browser.requests() == [path.resolve().as_uri()]
    assert overflow(browser) <= 0
    pixels = browser.pixels()
    assert len(np.unique(pixels[..., :3] @ [1 << 16, 1 << 8, 1])) > 50
    background = pixels[5, 5, :3].mean()
    assert background < 60 if dark else background > 200


@pytest.mark.parametrize("width", [380, 1200])
def test_hover_shows_the_numbers_of_the_bin(browser, single, overconfident, width):
    browser.open(single, width)
    assert browser.tip() is None
    curve = reliability_curve(overconfident.state)
    for b in (2, 9, 14):
        browser.hover("svg:first-of-type [data-tip] .hit", b)
        tip = browser.tip()
        assert tip[0].startswith("Confidence ")
        low, high = (float(x) for x in re.findall(r"[\d.]+", tip[0]))
        assert (low, high) == pytest.approx((curve.lower[b], curve.upper[b]), abs=5e-4)
        if not curve.count[b]:
            assert tip[1:] == ["empty"]
            continue
        assert tip[1].startswith(f"{curve.count[b]:,} example")
        assert tip[2].startswith(f"Accuracy {100 * curve.accuracy[b]:.1f} %")
        assert tip[3] == f"Mean confidence {100 * curve.confidence[b]:.1f} %"
        box = browser.run(
            "const b = document.getElementById('tip').getBoundingClientRect();"
            "return [b.left, b.right, innerWidth, b.top, b.bottom, innerHeight]"
        )
        assert 0 <= box[0] < box[1] <= box[2]
        assert 0 <= box[3] < box[4] <= box[5]
    browser.hover("h1")
    assert browser.tip() is None


def test_tap_shows_the_numbers_too(browser, single):
    browser.open(single, 380)
    x, y = browser.middle("svg [data-tip] .hit", 12)
    browser.devtools("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
    browser.devtools("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    assert browser.tip()[0] == "Confidence 0.8 – 0.867"


def test_keys_walk_through_the_bins(browser, single, overconfident):
    browser.open(single)
    browser.run("document.querySelector('svg').focus()")
    browser.press("ArrowRight")
    assert browser.tip()[0] == "Confidence 0 – 0.067"
    browser.press("ArrowRight")
    assert browser.tip()[0] == "Confidence 0.067 – 0.133"
    browser.press("ArrowLeft")
    browser.press("ArrowLeft")
    assert browser.tip()[0] == "Confidence 0 – 0.067"
    browser.press("Escape")
    assert browser.tip() is None
    browser.press("ArrowLeft")
    assert browser.tip()[0] == "Confidence 0.933 – 1"
    browser.press("Tab")
    assert browser.tip() is None


def test_every_drawing_is_reached_by_the_tab_key_and_has_values(browser, single):
    browser.open(single)
    reached = browser.run("return [...document.querySelectorAll('svg')].map((s) => s.tabIndex)")
    assert reached == [0] * 13
    without = (
        "return [...document.querySelectorAll('svg')].filter(s => !s.querySelector('[data-tip]'))"
    )
    assert browser.run(without) == []


def test_the_risk_coverage_curve_tells_the_risk(browser, single, overconfident):
    browser.open(single)
    browser.hover("svg[aria-label^='Risk'] [data-tip] .hit", 49)
    error = 100 * (1 - overconfident.confidences.correct.mean())
    assert browser.tip()[:3] == [
        "Answer the 100 % most confident",
        "2,000 of 2,000 examples",
        f"{error:.1f} % of these are wrong",
    ]


def test_names_stay_text(browser, tmp_path, overconfident):
    evil = replace(
        overconfident,
        label_names=(EVIL,) * 10,
        verdict=(EVIL, EVIL),
        measures=tuple(replace(m, title=EVIL, meaning=EVIL) for m in overconfident.measures),
        classes=(ClassRow(EVIL, 1, 1, 0.9, 0.1),),
        mistakes=(Mistake(0, 0.9, EVIL, EVIL, {EVIL: EVIL}),),
        provenance={EVIL: {EVIL: [EVIL, {EVIL: EVIL}]}},
    )
    path = write_report({EVIL: evil, "after": evil}, tmp_path / "evil.html")
    browser.open(path)
    assert browser.run("return window.broken") is None
    assert browser.run("return document.querySelectorAll('img, main script').length") == 0
    assert browser.run("return document.querySelectorAll('script').length") == 1
    assert browser.logs() == []
    assert browser.run("return document.querySelector('main').textContent").count(EVIL) > 20
    browser.hover("svg[aria-label*='class'] [data-tip] .hit")
    assert browser.tip()
    browser.open(path, 380)
    assert overflow(browser) <= 0


def test_the_policy_stops_a_script_that_is_not_the_reports(browser, tmp_path, single):
    text = single.read_text("utf-8")
    injected = text.replace("</main>", "<script>window.broken=1</script></main>")
    path = tmp_path / "injected.html"
    path.write_text(injected, "utf-8")
    browser.open(path)
    assert browser.run("return window.broken") is None
    assert any("Content Security Policy" in message for message in browser.logs())


def test_before_and_after_stand_next_to_each_other(browser, compared):
    browser.open(compared)
    boxes = browser.run(
        "return [...document.querySelectorAll(\"svg[aria-label^='Reliability diagram']\")]"
        ".slice(0, 2).map((s) => s.getBoundingClientRect().toJSON())"
    )
    assert boxes[0]["top"] == boxes[1]["top"]
    assert boxes[0]["right"] < boxes[1]["left"]
    assert boxes[0]["width"] == pytest.approx(boxes[1]["width"], abs=1)


def test_long_names_do_not_widen_the_page(browser, tmp_path, overconfident):
    name = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamter" * 2
    long = replace(
        overconfident,
        label_names=(name,) * 10,
        verdict=(name,),
        classes=tuple(replace(row, name=name) for row in overconfident.classes),
        mistakes=tuple(replace(m, predicted=name, label=name) for m in overconfident.mistakes),
        provenance={"file": "/" + name, name: name},
    )
    path = write_report({name: long, "after": long}, tmp_path / "long.html")
    for width in (380, 1200):
        browser.open(path, width)
        assert overflow(browser) <= 0


def test_prints_on_paper(browser, single):
    browser.open(single)
    pdf = browser.devtools("Page.printToPDF", printBackground=True)
    assert len(pdf["data"]) > 50_000
