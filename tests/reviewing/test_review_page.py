"""The page of the review with hostile texts, hands that slip, and a service that comes and goes."""

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
from starlette.testclient import TestClient
from tests.browser import served

from calibrant.reviewing import Decisions, Document, Span
from calibrant.reviewing.application import review_app

TYPES = ("PER", "LOC", "<b>x</b>")


@pytest.fixture
def review(browser, tmp_path):
    """Open a review of some texts; return a function that reads what is decided."""
    opened = []

    def start(*texts, token=None, **window):
        documents = [Document(str(n), text, spans) for n, (text, *spans) in enumerate(texts)]
        decisions = Decisions(tmp_path / "d.jsonl", documents)
        application = review_app(documents, decisions, TYPES, token=token)
        context = served(application)
        browser.open(context.__enter__(), **window)
        opened.append(context)
        if token is not None:
            browser.run("document.getElementById('token-field').hidden = false")
            browser.run("document.getElementById('token').value = arguments[0]", token)
        browser.run(
            "document.getElementById('reviewer').value = 'a';"
            "document.querySelector('#start button').click()"
        )
        browser.wait("!document.getElementById('work').hidden")

        def decided():
            decisions.refresh()
            return {
                name: [(one.text[s.start : s.end], s.type) for s in one.entities]
                for name, one in decisions.latest.items()
            }

        return decided

    yield start
    for context in opened:
        context.__exit__(None, None, None)


def press(browser, *keys):
    for key in keys:
        browser.run(
            "document.activeElement.dispatchEvent("
            "new KeyboardEvent('keydown', {key: arguments[0], bubbles: true}))",
            key,
        )


def save(browser):
    press(browser, "Enter")
    browser.wait("!busy")


def place_of(browser, word, side):
    """Return the point at the start or the end of a word of the text."""
    return browser.run(
        "const walk = document.createTreeWalker(document.getElementById('text'), 4); let node;"
        "while ((node = walk.nextNode())) { const at = node.textContent.indexOf(arguments[0]);"
        "if (at < 0 || node.parentElement.tagName === 'SMALL') continue;"
        "const range = document.createRange(); range.setStart(node, at);"
        "range.setEnd(node, at + arguments[0].length); const b = range.getBoundingClientRect();"
        "return [arguments[1] === 'start' ? b.left + 1 : b.right - 1, (b.top + b.bottom) / 2] }",
        word,
        side,
    )


def drag(browser, start, end):
    """Select with the mouse, as a person does."""
    middle = [(a + b) / 2 for a, b in zip(start, end, strict=True)]
    mouse = {"button": "left", "buttons": 1, "clickCount": 1}
    steps = ("Pressed", start), ("Moved", middle), ("Moved", end), ("Released", end)
    for kind, (x, y) in steps:
        browser.devtools("Input.dispatchMouseEvent", type=f"mouse{kind}", x=x, y=y, **mouse)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("😀😀 Bob 👩‍👩‍👧 Carla 🇩🇪", "Carla"),
        ("Zoe\u0308 met Jose\u0301 in Que\u0301bec", "Jose\u0301"),
        ("ראיתי את דנה בתל אביב 😀 היום", "דנה"),
        ("قابلت 😀 أحمد في القاهرة", "أحمد"),
        ("one\r\n\ttwo\u2028 Carla\n\nx", "Carla"),
        ("<b>Bob</b> &amp; <i>Carla</i>", "Carla"),
        ("a\u0000b \ufeff\u200b Carla \u202ecba", "Carla"),
        ("𝔘𝔫𝔦 𝕮𝖆𝖗𝖑𝖆 x", "𝕮𝖆𝖗𝖑𝖆"),
    ],
)
def test_a_selected_word_is_the_word_that_is_saved(browser, review, text, word):
    decided = review((text,))
    browser.run(
        "const node = document.getElementById('text').firstChild;"
        "const at = node.textContent.indexOf(arguments[0]); const range = document.createRange();"
        "range.setStart(node, at); range.setEnd(node, at + arguments[0].length);"
        "getSelection().removeAllRanges(); getSelection().addRange(range)",
        word,
    )
    press(browser, "3")
    shown = browser.run("return document.querySelector('mark').firstChild.textContent")
    assert shown == word
    save(browser)
    assert decided() == {"0": [(word, "<b>x</b>")]}
    assert browser.logs() == []


def test_words_by_keys_are_those_of_scripts_without_spaces_too(browser, review):
    """What a person can mark by keys: each ideograph, each kana, whole emoji and flags."""
    review(("東京で สวัสดี Anna-Lena 👩‍👩‍👧👍🏽 🇩🇪🇫🇷 O'Brien 3.5",))
    words = browser.run("return words().map(textOf)")
    assert words == [
        *"東京で", "ส", "วั", "ส", "ดี", "Anna", "-", "Lena", "👩‍👩‍👧", "👍🏽", "🇩🇪", "🇫🇷",
        "O", "'", "Brien", "3", ".", "5",
    ]  # fmt: skip


class TestMouse:
    TEXT = "Anna met Bob Dylan in New York today."

    def test_a_selection_that_begins_inside_an_entity(self, browser, review):
        """The page must not draw the text anew while the mouse selects in it."""
        decided = review((self.TEXT, Span(0, 4, "PER", 0.5), Span(9, 12, "PER", 0.9)))
        drag(browser, place_of(browser, "Bob", "start"), place_of(browser, " Dylan", "end"))
        press(browser, "1")
        save(browser)
        assert decided() == {"0": [("Anna", "PER"), ("Bob Dylan", "PER")]}

    @pytest.mark.parametrize("backwards", [False, True])
    def test_a_selection_that_leaves_the_text(self, browser, review, backwards):
        """The mouse goes below the text: what is selected in it counts, not the chosen entity."""
        decided = review((self.TEXT, Span(0, 4, "PER", 0.5)))
        x, y = browser.middle("#entity")
        ends = [place_of(browser, "New York", "start"), (x, y)]
        drag(browser, *(reversed(ends) if backwards else ends))
        press(browser, "2")
        save(browser)
        assert decided() == {"0": [("Anna", "PER"), ("New York today.", "LOC")]}

    def test_a_click_chooses(self, browser, review):
        review((self.TEXT, Span(0, 4, "PER", 0.5), Span(9, 12, "PER", 0.9)))
        point = place_of(browser, "Bob", "start")
        drag(browser, point, point)
        assert "Bob" in browser.run("return document.getElementById('entity').textContent")
        assert browser.run("return document.activeElement.textContent").startswith("Bob")


class TestKeyboard:
    def focus(self, browser):
        """Return what has the focus after the page is drawn: hidden elements lose it."""
        browser.run("return new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
        return browser.run("return document.activeElement.textContent")

    def test_the_focus_is_in_the_text_from_the_beginning(self, browser, review):
        review(("Anna met Bob", Span(0, 4, "PER", 0.9), Span(9, 12, "PER", 0.5)), ("Nothing",))
        assert self.focus(browser) == "BobPER"
        save(browser)
        assert self.focus(browser) == "Nothing"

    def test_after_each_document_it_is_in_the_next(self, browser, review):
        review(("Anna", Span(0, 4, "PER", 0.5)), ("Bob", Span(0, 3, "PER", 0.9)))
        save(browser)
        assert self.focus(browser) == "BobPER"

    @pytest.mark.parametrize("name", ["2 LOC", "Reject", "Undo", "Accept and next"])
    def test_a_button_keeps_it(self, browser, review, name):
        review(*[("Anna met Bob", Span(0, 4, "PER", 0.5), Span(9, 12, "PER"))] * 2)
        browser.run(
            "const found = [...document.querySelectorAll('button')];"
            "const button = found.find((one) => one.textContent === arguments[0]);"
            "button.focus(); button.click()",
            name,
        )
        browser.wait("!busy")
        assert self.focus(browser) == name

    def test_the_text_has_it_where_nothing_else_can(self, browser, review):
        """The last entity is rejected; the button of the way back goes away."""
        review(("Anna", Span(0, 4, "PER", 0.5)), ("Bob", Span(0, 3, "PER", 0.9)))
        press(browser, "r")
        assert self.focus(browser) == "Anna"
        save(browser)
        browser.run("const back = document.getElementById('back'); back.focus(); back.click()")
        browser.wait("!busy")
        assert self.focus(browser) == "Anna"

    def test_one_stop_for_all_entities(self, browser, review):
        review(("Anna met Bob", Span(0, 4, "PER", 0.5), Span(9, 12, "PER", 0.9)))
        browser.press("Tab")
        assert self.focus(browser) == "1 PER"

    def test_arrows_follow_the_direction_of_the_text(self, browser, review):
        review(("דנה פגשה את יוסי", Span(0, 3, "PER", 0.5), Span(12, 16, "PER", 0.9)))
        press(browser, "ArrowLeft")
        assert self.focus(browser) == "יוסיPER"
        press(browser, "ArrowRight")
        assert self.focus(browser) == "דנהPER"
        turned = "return getComputedStyle(document.querySelector('#later span')).transform"
        assert browser.run(turned).startswith("matrix(-1")

    def test_letters_can_be_no_keys(self, browser, review):
        """Who dictates would press them by speaking (WCAG 2.1.4)."""
        decided = review(("Anna", Span(0, 4, "PER", 0.5)))
        browser.run("document.getElementById('keys').checked = false")
        press(browser, "r", "2", "n", "]")
        assert browser.run("return entities[0].type") == "PER"
        save(browser)
        assert decided() == {"0": [("Anna", "PER")]}

    def test_the_least_certain_entity_is_in_view(self, browser, review):
        text = "Anna met Bob.\n" * 100
        spans = [Span(n * 14, n * 14 + 4, "PER", 0.5 if n == 80 else 0.9) for n in range(100)]
        review((text, *spans), ("Bob",), width=360, height=700)
        seen = (
            "const [a, b] = ['mark[aria-current=true]', arguments[0]].map((one) => "
            "document.querySelector(one).getBoundingClientRect());"
            "return a.top >= b.top && a.bottom <= b.bottom"
        )
        assert browser.run(seen, "#text")
        bottom = "return document.getElementById('save').getBoundingClientRect().bottom"
        assert browser.run(bottom) <= 700
        save(browser)
        assert browser.run("return document.getElementById('text').scrollTop") == 0


def test_at_the_end_nothing_is_left(browser, review):
    review(("Anna", Span(0, 4, "PER", 0.5)))
    save(browser)
    progress = browser.run("return document.getElementById('progress').textContent")
    assert progress == "1 document done"


class TestServiceComesAndGoes:
    def test_the_next_document_does_not_come(self, browser, review):
        """The decision is saved; Enter asks for the next document and decides nothing twice."""
        decided = review(("Anna sings", Span(0, 4, "PER", 0.5)), ("Bob sings",))
        browser.run(
            "window.real = window.fetch; window.fetch = (path, ...more) => path.startsWith('next') "
            "? Promise.reject(new TypeError('gone')) : window.real(path, ...more)"
        )
        save(browser)
        assert decided() == {"0": [("Anna", "PER")]}
        assert "still running" in browser.run("return document.getElementById('status').innerText")
        browser.run("window.fetch = window.real")
        save(browser)
        assert browser.run("return current.id") == "1"
        assert browser.run("return document.getElementById('status').className") == ""

    def test_what_is_changed_after_that_is_saved_too(self, browser, review):
        decided = review(("Anna sings", Span(0, 4, "PER", 0.5)), ("Bob sings",))
        browser.run(
            "window.real = window.fetch; window.fetch = (path, ...more) => path.startsWith('next') "
            "? Promise.reject(new TypeError('gone')) : window.real(path, ...more)"
        )
        save(browser)
        press(browser, "r")
        browser.run("window.fetch = window.real")
        save(browser)
        assert decided() == {"0": []}

    def test_an_answer_that_is_lost(self, browser, review):
        """The service has saved the decision, but the page does not know: it sends it again."""
        decided = review(("Anna sings", Span(0, 4, "PER", 0.5)), ("Bob sings",))
        browser.run(
            "window.real = window.fetch; window.fetch = async (...given) => {"
            "await window.real(...given); throw new TypeError('lost') }"
        )
        save(browser)
        browser.run("window.fetch = window.real")
        save(browser)
        assert browser.run("return current.id") == "1"
        assert decided() == {"0": [("Anna", "PER")]}

    def test_a_token_that_is_no_longer_valid(self, browser, review):
        """The page asks for the new one and keeps what the reviewer has done."""
        decided = review(("Anna sings", Span(0, 4, "PER", 0.5)), ("Bob sings",), token="new")
        press(browser, "2")
        browser.run("sessionStorage.setItem('token', 'old')")
        save(browser)
        assert decided() == {}
        assert browser.run("return document.activeElement.id") == "token"
        press(browser, "r", "Enter")  # Letters of a token are no commands.
        assert browser.run("return entities.length") == 1
        browser.run(
            "document.getElementById('token').value = 'new';"
            "document.querySelector('#start button').click()"
        )
        browser.wait("document.getElementById('start').hidden")
        browser.run("document.activeElement.blur()")
        save(browser)
        assert decided() == {"0": [("Anna", "LOC")]}

    def test_the_browser_asks_before_changes_are_lost(self, browser, review):
        review(("Anna sings", Span(0, 4, "PER", 0.5)), ("Bob sings",))
        leave = (
            "const leave = new Event('beforeunload', {cancelable: true});"
            "window.dispatchEvent(leave); return leave.defaultPrevented"
        )
        assert browser.run(leave) is False
        press(browser, "2")
        assert browser.run(leave) is True
        save(browser)
        assert browser.run(leave) is False


def test_a_decision_that_comes_twice_is_saved_once(tmp_path):
    documents = [Document("0", "Anna", (Span(0, 4, "PER", 0.5),))]
    decisions = Decisions(tmp_path / "d.jsonl", documents)
    client = TestClient(review_app(documents, decisions, TYPES))
    content = {"document": "0", "seen": 0, "reviewer": "a", "entities": []}
    answers = [client.post("/decisions", json=content).status_code for _ in range(2)]
    assert (answers, decisions.counts) == ([200, 200], {"0": 1})
    for other in ({"reviewer": "b"}, {"entities": [{"start": 0, "end": 4, "type": "PER"}]}):
        assert client.post("/decisions", json={**content, **other}).status_code == 409


def test_a_long_document_stays_quick(browser, review):
    """100,000 characters with 2,000 entities: a key takes less than half a second."""
    text = "Anna met Bob and Carla in New York today, 😀 and. " * 2000
    spans = [Span(n * 49, n * 49 + 4, "PER", 0.5 + n / 5000) for n in range(2000)]
    decided = review((text[:98_000], *spans))
    taken = browser.run(
        "const start = performance.now();"
        "for (const key of ['ArrowRight', '}', 'w', '2', 'ArrowLeft', 'u', 'r', 'u', '2', 'u']) "
        "document.dispatchEvent(new KeyboardEvent('keydown', {key}));"
        "void document.body.offsetHeight; return performance.now() - start"
    )
    assert taken < 10 * 500
    save(browser)
    browser.wait("document.getElementById('work').hidden")
    assert len(decided()["0"]) in (2000, 2001)
    assert {words for words, _ in decided()["0"]} <= {"Anna", "Anna met", "met", "Bob"}


def test_all_that_has_the_focus_has_a_name(browser, review):
    """In the tree of names and roles that screen readers get."""
    review(("Anna met Bob", Span(0, 4, "PER", 0.5), Span(9, 12, "PER")))
    browser.devtools("Accessibility.enable")
    nodes = browser.devtools("Accessibility.getFullAXTree")["nodes"]
    named = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if not node["ignored"]
        and any(p["name"] == "focusable" and p["value"]["value"] for p in node["properties"])
    ]
    assert ("group", "Anna: PER, 50 %") in named
    assert ("group", "Bob: PER, by hand") in named
    assert ("button", "1 PER") in named
    assert ("button", "Accept and next") in named
    assert [role for role, name in named if not name and role != "RootWebArea"] == []
