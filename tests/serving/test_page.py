"""The page of the service in a real browser."""

import base64
import io

import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Route
from tests.browser import served

from calibrant.metrics import Confidences
from calibrant.policies import Policy
from calibrant.serving import app
from calibrant.tasks.class_predictor import Ranked
from calibrant.tasks.ner.predictor import Entity, Prediction, Token

pytest.importorskip("uvicorn")

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def finder(predictor):
    """A predictor of entities: each capitalised word, with confidence by its length."""

    class Finder(type(predictor)):
        finds_entities = True
        labels = ("O", "B-NAME", "I-NAME", "B-<b>")

        def stream(self, inputs, *, top_k=1, **options):
            accept = self.acceptance(**options)
            for text in inputs:
                kept, refused, place = [], [], 0
                for word in text.split():
                    start = text.index(word, place)
                    place = start + len(word)
                    if word[0].isupper() or word[0] == "<":
                        confidence = min(0.99, len(word) / 10)
                        token = Token(word, start, place, "B-NAME", confidence)
                        kind = "<b>" if word[0] == "<" else "NAME"
                        others = (Ranked("O", 1 - confidence),) if top_k > 1 else ()
                        one = Entity(
                            kind, start, place, word, confidence, (token,), alternatives=others
                        )
                        (kept if confidence >= accept.least else refused).append(one)
                yield Prediction(text, tuple(kept), tuple(refused))

    found = Finder()
    found.labels = Finder.labels
    confidence = (1 + (7 * found.evidence.confidence.cumsum() % 100)) / 101
    found.evidence = Confidences(confidence, confidence > 0.35, found.evidence.block)
    return found


@pytest.fixture
def address(finder, tmp_path):
    report = tmp_path / "report.html"
    report.write_text("<title>The report</title>")
    with served(app(finder, report=report)) as address:
        yield address


def predict(browser, text):
    browser.wait("!document.getElementById('ask').hidden")
    browser.run("document.getElementById('text').value = arguments[0]", text)
    browser.run("document.getElementById('predict').click()")
    browser.wait("document.getElementById('status').textContent === 'Done.'")


def marks(browser):
    script = (
        "return [...document.querySelectorAll('mark')].map((m) => "
        "[m.firstChild.textContent, m.querySelector('small').textContent, m.className])"
    )
    return [[plain(one) for one in found] for found in browser.run(script)]


def plain(text):
    """Return the text with ordinary blanks: no line breaks before the sign of a percentage."""
    return text.replace("\u00a0", " ")


def test_entities_are_shaded_and_nothing_is_markup(browser, address):
    browser.open(address)
    predict(browser, f"😀 Bob met Alexandra <b>x</b> {HOSTILE.replace(' ', '_')}")
    found = marks(browser)
    assert found[0] == ["Bob", "NAME 30 %", "s0"]
    assert found[1] == ["Alexandra", "NAME 90 %", "s4"]
    assert found[2][0] == "<b>x</b>"
    assert found[3][0].startswith("<img")
    assert browser.run("return document.querySelectorAll('#marked img, #marked b').length") == 0
    assert "no entity 70 %" in text_of(browser, "list")
    summary = browser.run("return document.getElementById('summary').textContent")
    assert summary.startswith("4 accepted, 0 for review.")
    assert browser.logs() == []
    assert all(url.startswith(address) for url in browser.requests() if url.startswith("http"))


def test_the_slider_sends_unsure_entities_to_review(browser, address, finder):
    browser.open(address)
    predict(browser, "Bob met Alexandra")
    browser.run(
        "const s = document.getElementById('slider'); s.value = arguments[0];"
        "s.dispatchEvent(new Event('input'))",
        6,
    )
    assert browser.run("return document.getElementById('risk-value').textContent") == "5 %"
    least = finder.threshold(0.05).threshold
    assert 0.3 < least <= 0.9
    meaning = browser.run("return document.getElementById('risk-meaning').textContent")
    assert meaning == str(finder.threshold(0.05))
    assert [mark[2] for mark in marks(browser)] == ["refused", "s4"]
    summary = browser.run("return document.getElementById('summary').textContent")
    assert "1 accepted, 1 for review" in summary
    assert "expect among those accepted: 0.1" in summary


@pytest.mark.parametrize("dark", [False, True])
def test_a_phone_and_the_keyboard(browser, address, dark):
    browser.open(address, width=360, height=700, dark=dark)
    predict(browser, "Alexandra " * 30 + "x" * 200)
    assert browser.run("return document.documentElement.scrollWidth <= 360")
    predict(browser, "Bob met Alexandra")  # All columns of the table are seen at once.
    table = "const t = document.querySelector('.wide'); return t.scrollWidth - t.clientWidth"
    assert browser.run(table) == 0
    predict(browser, "Alexandra met Bob")
    names = browser.run(
        "return [...document.querySelectorAll('input, textarea, button, a')].filter((e) => "
        "e.offsetParent && !e.labels?.length && !e.textContent.trim()).length"
    )
    assert names == 0
    assert browser.run("return document.querySelector('mark').tabIndex") == 0
    label = browser.run("return document.querySelector('mark').getAttribute('aria-label')")
    assert plain(label) == "Alexandra: NAME, 90 %, accepted. Otherwise no entity 10 %"
    assert browser.run("return document.getElementById('report').getAttribute('href')") == "report"


def test_the_report_has_its_styles_with_a_token_too(browser, finder, tmp_path):
    """The page's own policy for contents, which forbids them, must not reach the report."""
    report = tmp_path / "report.html"
    report.write_text("<style>p{color:rgb(1,2,3)}</style><p>x<script>document.title='ran'</script>")
    with served(app(finder, report=report, token="a+b")) as address:
        browser.open(address)
        browser.wait("!document.getElementById('token-form').hidden")
        browser.run(
            "document.getElementById('token').value = 'a+b';"
            "document.querySelector('#token-form button').click()"
        )
        browser.wait("!document.getElementById('report').hidden")
        browser.run("document.getElementById('report').click()")
        with browser.new_window():
            browser.wait("document.title === 'ran'")
            assert browser.run("return location.href") == address + "report"
            script = "return getComputedStyle(document.querySelector('p')).color"
            assert browser.run(script) == "rgb(1, 2, 3)"


@pytest.mark.parametrize("token", ["", "wrong"])
def test_who_gives_no_right_token_reads_what_to_type(browser, finder, token):
    """Whoever opens a page sends no headers by hand."""
    with served(app(finder, token="secret")) as address:
        browser.open(address)
        browser.run("sessionStorage.setItem('token', arguments[0])", token)
        browser.open(address)
        browser.wait("!document.getElementById('token-form').hidden")
        browser.wait("document.getElementById('status').textContent")
        words = "refuses this token: type" if token else "needs a token."
        assert words in text_of(browser, "status")
        assert "header" not in text_of(browser, "status")
        assert text_of(browser, "model") == ""
        browser.run("sessionStorage.clear()")


def test_a_text_without_entities(browser, address):
    browser.open(address)
    predict(browser, "nothing to find")
    assert text_of(browser, "summary") == "No entity found."
    assert browser.run("return document.getElementById('legend').hidden")


def test_a_text_can_be_dropped_too(browser, address):
    browser.open(address)
    browser.wait("!document.getElementById('ask').hidden")
    x, y = browser.middle("#text")
    data = {"items": [{"mimeType": "text/plain", "data": "Anna"}], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        browser.devtools("Input.dispatchDragEvent", type=kind, x=x, y=y, data=data)
    browser.wait("document.getElementById('text').value === 'Anna'")


def drop_file(browser, content):
    browser.run(
        "const files = new DataTransfer();"
        "files.items.add(new File([Uint8Array.from(arguments[0])], 'a.txt'));"
        "const how = {dataTransfer: files, bubbles: true, cancelable: true};"
        "document.getElementById('text').dispatchEvent(new DragEvent('drop', how));",
        list(content),
    )


def test_a_dropped_file_is_a_text_or_an_error(browser, address):
    browser.open(address)
    browser.wait("!document.getElementById('ask').hidden")
    drop_file(browser, "Zoë\r\n".encode())
    browser.wait("document.getElementById('text').value.startsWith('Zoë')")
    for content in (b"\x89PNG\r\n\x1a\n\0\0", "Zoë".encode("latin-1")):
        browser.run("say('')")
        drop_file(browser, content)
        browser.wait("document.getElementById('status').className === 'error'")
        assert text_of(browser, "status") == "a.txt is not a text in UTF-8."
        assert browser.run("return document.getElementById('text').value").startswith("Zoë")


def test_an_error_is_shown(browser, address):
    browser.open(address)
    browser.wait("!document.getElementById('ask').hidden")
    browser.run("document.getElementById('text').value = 'a'.repeat(100001)")
    browser.run("document.getElementById('predict').click()")
    message = browser.wait(
        "document.getElementById('status').className === 'error' && "
        "document.getElementById('status').textContent",
    )
    assert "100,001 characters" in message


@pytest.fixture
def picture(tmp_path):
    """A picture of 8 × 6 pixels under a hostile name, as a data URL."""
    pillow = pytest.importorskip("PIL.Image")
    pillow.fromarray(np.full((6, 8, 3), 200, np.uint8)).save(file := io.BytesIO(), "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def open_picture(browser, url):
    browser.wait("!document.getElementById('ask').hidden")
    browser.run(
        "const bytes = Uint8Array.from(atob(arguments[0].split(',')[1]), (c) => c.charCodeAt(0));"
        "const files = new DataTransfer(); files.items.add(new File([bytes], arguments[1]));"
        "document.getElementById('file').files = files.files;"
        "document.getElementById('file').dispatchEvent(new Event('change'))",
        url,
        HOSTILE,
    )
    browser.wait("document.getElementById('status').textContent === 'Done.'")


def text_of(browser, name):
    return plain(browser.run(f"return document.getElementById('{name}').textContent"))


def test_an_image_with_its_class_and_the_next_ones(browser, predictor, picture):
    class OfPictures(type(predictor)):
        unit = "images"

        def scored(self, inputs):
            return super().scored(["x" * one.width for one in inputs])

    with served(app(OfPictures())) as address:
        browser.open(address, width=360)
        open_picture(browser, picture)
        assert text_of(browser, "model").startswith("Finds the class of images. 3 classes")
        assert text_of(browser, "summary").startswith("Predicted: short, 90 %, accepted.")
        assert "middle5 %" in text_of(browser, "list")
        assert text_of(browser, "picture-name") == HOSTILE
        assert browser.run("return document.getElementById('picture').naturalWidth") == 8
        assert browser.run("return document.querySelector('.of-masks').hidden")
        assert browser.run("return document.documentElement.scrollWidth <= 360")
        assert browser.logs() == []


@pytest.mark.parametrize(
    ("least", "words", "members"),
    [
        (0.96, "The prediction set has 3 of 3 classes: short, middle, long.", ["yes"] * 3),
        (0.5, "The prediction set has 1 of 3 classes: middle.", ["yes", "no", "no"]),
        (0.05, "The prediction set is empty: no class fits the policy.", ["no"] * 3),
    ],
)
def test_a_policy_with_a_coverage_shows_its_set(browser, predictor, least, words, members):
    """Such a policy accepts nothing, so no prediction may be shown as accepted."""
    promise = "The true class is in the set."
    known = {"classes": 3, "label_names": predictor.labels, "promise": promise}
    policy = Policy("coverage", 0.9, {"*": least}, n=9, kept=0.5, **known)
    with served(app(predictor, policy=policy)) as address:
        browser.open(address)
        predict(browser, "x" * 15)
        assert text_of(browser, "summary") == words
        assert text_of(browser, "risk-meaning") == promise
        assert "accepted" not in text_of(browser, "found")
        last = "return [...document.querySelectorAll('#list td:last-child')]"
        assert browser.run(last + ".map((cell) => cell.textContent)") == members
        assert browser.logs() == []


def test_a_mask_with_its_confidences(browser, predictor, picture):
    """The left half is certain, the right half is not: a target risk leaves it for review."""
    from calibrant.tasks.segmentation.predictor import Mask

    class OfPixels(type(predictor)):
        unit, makes_masks = "images", True

        def stream(self, inputs, **options):
            accept = self.acceptance(**{k: v for k, v in options.items() if k != "top_k"})
            for one in inputs:
                classes = np.ones((one.height, one.width), np.int16)
                classes[:, : one.width // 2] = 0
                confidence = np.where(classes == 0, 0.99, 0.55)
                yield Mask(self.labels, classes, confidence, accept.decide(confidence))

    def pixel(canvas, x):
        return browser.run(
            "return [...document.getElementById(arguments[0]).getContext('2d')"
            ".getImageData(arguments[1], 2, 1, 1).data]",
            canvas,
            x,
        )

    found = OfPixels()
    confidence = np.tile([0.99, 0.55], 200)
    found.evidence = Confidences(confidence, confidence > 0.9, found.evidence.block)
    with served(app(found)) as address:
        browser.open(address)
        open_picture(browser, picture)
        assert "100 % of the pixels are accepted" in text_of(browser, "summary")
        assert "short24" in text_of(browser, "list")
        assert pixel("confidences", 1) == [0xA9, 0xDC, 0xB4, 255]  # Over 90 %.
        assert pixel("confidences", 6) == [0xFD, 0xE3, 0xD8, 255]  # Under 60 %.
        colors = [pixel("classes", x) for x in (1, 6)]
        assert colors[0] != colors[1]
        browser.run(
            "const s = document.getElementById('slider'); s.value = 6;"
            "s.dispatchEvent(new Event('input')); s.dispatchEvent(new Event('change'))"
        )
        browser.wait("document.getElementById('summary').textContent.includes('50\\u00a0% of')")
        assert pixel("classes", 1) == colors[0]
        assert pixel("classes", 6) in ([255, 255, 255, 255], [60, 60, 60, 255])
        assert browser.logs() == []


def test_the_keyboard_reaches_everything(browser, address):
    """Tab goes from the text to the file, the button and the slider, with a visible focus."""
    browser.open(address)
    browser.wait("!document.getElementById('ask').hidden")
    browser.run("document.getElementById('text').focus()")
    found = []
    for _ in range(3):
        browser.press("Tab")
        found.append(browser.run("return document.activeElement.id"))
        ringed = {"file": "file-label"}.get(found[-1], found[-1])
        outline = browser.run(
            "return getComputedStyle(document.getElementById(arguments[0])).outlineStyle", ringed
        )
        assert outline == "solid", ringed
    assert found == ["file", "predict", "slider"]


@pytest.mark.parametrize(
    "text", ["Alexandra met Bob and Charles", "פגש את Bob ואת Charles Alexandra"]
)
def test_arrow_keys_go_along_the_entities(browser, address, text):
    """Hundreds of entities are one stop of Tab; in Hebrew, the left arrow leads to the next."""
    browser.open(address)
    predict(browser, text)
    names = [word for word in text.split() if word[0].isupper()]
    stops = "return [...document.querySelectorAll('mark')].filter((m) => m.tabIndex === 0).length"
    assert browser.run(stops) == 1
    browser.run("document.getElementById('slider').focus()")
    browser.press("Tab")
    on, back = "ArrowRight", "ArrowLeft"
    if text[0] != "A":
        on, back = back, on
    found = [focused(browser)]
    for key in (on, on, on, back):
        browser.press(key)
        found.append(focused(browser))
    assert found == [*names, names[2], names[1]]
    assert browser.run(stops) == 1


def focused(browser):
    return browser.run("return document.activeElement.firstChild.textContent")


def test_the_button_keeps_the_focus(browser, address):
    browser.open(address)
    browser.wait("!document.getElementById('ask').hidden")
    browser.run("document.getElementById('predict').focus()")
    predict(browser, "Bob")
    browser.run("return new Promise(requestAnimationFrame)")
    assert browser.run("return document.activeElement.id") == "predict"


@pytest.mark.parametrize("dark", [False, True])
def test_words_stand_out_from_their_ground(browser, address, dark):
    """WCAG asks for a contrast of at least 4.5 between a text and what is behind it."""
    browser.open(address, dark=dark)
    predict(browser, "Bob met Alexandra and Charles and Johnny")
    browser.run("document.getElementById('text').value = ''")  # Shows what it is for.
    found = browser.run(
        "const light = (c) => { const [r, g, b] = c.match(/[\\d.]+/g).slice(0, 3).map((v) => {"
        "v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4 });"
        "return 0.2126 * r + 0.7152 * g + 0.0722 * b };"
        "const ground = (e) => { const c = getComputedStyle(e).backgroundColor;"
        "return c !== 'rgba(0, 0, 0, 0)' || !e.parentElement ? c : ground(e.parentElement) };"
        "return [...document.querySelectorAll('p, mark, .shade, button, .button, td, th, label')]"
        ".filter((e) => e.offsetParent && e.textContent.trim()).map((e) => {"
        "const [a, b] = [light(getComputedStyle(e).color), light(ground(e))].sort();"
        "return [e.textContent.slice(0, 20), (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)] })"
        ".concat([['placeholder', (() => { const text = document.getElementById('text');"
        "const a = light(getComputedStyle(text, '::placeholder').color), b = light(ground(text));"
        "return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) })()]])"
    )
    assert len(found) > 10
    assert [one for one in found if one[1] < 4.5] == []


def test_a_page_of_an_allowed_site_gets_an_answer_and_no_other(browser, predictor):
    """The browser itself keeps answers from other sites; it must not from the allowed ones."""
    ask = (
        "return fetch(arguments[0] + 'predict', {method: 'POST', body: '{\"text\": \"a\"}', "
        "headers: {'Content-Type': 'application/json', Authorization: 'Bearer secret'}})"
        ".then((answer) => answer.json()).then((found) => found.predictions[0].label, String)"
    )
    page = Starlette(routes=[Route("/", lambda _: HTMLResponse("<title>a page</title>"))])
    with served(page) as site, served(page) as stranger:
        origins = [site.rstrip("/")]
        with served(app(predictor, token="secret", origins=origins)) as address:
            browser.open(site)
            assert browser.run(ask, address) == "short"
            browser.open(stranger)
            assert "Failed to fetch" in browser.run(ask, address)
