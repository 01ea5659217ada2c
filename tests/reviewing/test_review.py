"""The review: its page in a browser, its answers, its files, its command."""

import json
import time

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
from starlette.testclient import TestClient
from tests.browser import served

from calibrant.cli import main
from calibrant.entities import read_entities
from calibrant.errors import InputError
from calibrant.reviewing import Decisions, Document, Span, write_reviewed
from calibrant.reviewing.application import review_app
from calibrant.reviewing.journal import Journal

TYPES = ("PER", "LOC", "<b>")
DOCUMENTS = [
    Document("sure", "Anna sings.", (Span(0, 4, "PER", 0.99),)),
    Document(
        "unsure",
        "😀 Bob Dylan met <i>Carla</i> in New York.",
        (Span(2, 5, "PER", 0.6), Span(36, 40, "LOC", 0.4)),
    ),
    Document("middle", "In Rome.", (Span(3, 7, "LOC", 0.7),)),
]


@pytest.fixture
def decisions(tmp_path):
    return Decisions(tmp_path / "d.jsonl", DOCUMENTS)


@pytest.fixture
def client(decisions):
    return TestClient(review_app(DOCUMENTS, decisions, TYPES))


def next_one(client, reviewer="a", **more):
    return client.get("/next", params={"reviewer": reviewer, **more}).json()


def decide(client, document, entities, reviewer="a", seen=0):
    content = {"document": document, "entities": entities, "reviewer": reviewer, "seen": seen}
    return client.post("/decisions", json=content)


class TestAnswers:
    def test_the_queue_ends(self, client, decisions):
        order = []
        while "document" in (found := next_one(client)):
            order.append(found["document"]["id"])
            assert decide(client, order[-1], []).status_code == 200
        assert order == ["unsure", "middle", "sure"]
        assert (found["done"], found["left"], found["errors_left"]) == (3, 0, 0)
        assert set(Decisions(decisions.path).latest) == set(order)

    def test_what_is_left_to_find(self, client):
        assert next_one(client)["errors_left"] == pytest.approx(0.01 + 1.0 + 0.3)

    def test_two_reviewers_see_different_documents(self, client):
        assert next_one(client, "a")["document"]["id"] == "unsure"
        assert next_one(client, "b")["document"]["id"] == "middle"
        assert next_one(client, "a")["document"]["id"] == "unsure"

    def test_a_lease_ends(self, decisions):
        client = TestClient(review_app(DOCUMENTS, decisions, TYPES, lease=0.01))
        next_one(client, "a")
        time.sleep(0.02)
        assert next_one(client, "b")["document"]["id"] == "unsure"

    def test_later_means_after_all_others(self, client):
        assert next_one(client)["document"]["id"] == "unsure"
        found = [next_one(client, later="unsure")["document"]["id"]]
        for _ in range(3):
            found.append(next_one(client, later=found[-1])["document"]["id"])
        assert found == ["middle", "sure", "unsure", "middle"]
        assert next_one(client, "b")["document"]["id"] == "unsure"  # Postponed by a: free for b.
        decide(client, "middle", [])
        assert next_one(client)["document"]["id"] == "sure"
        assert next_one(client, later="no such")["document"]["id"] == "sure"

    def test_a_decided_document_again(self, client, decisions):
        assert client.get("/next", params={"reviewer": "a", "again": "unsure"}).status_code == 404
        kept = {"start": 36, "end": 40, "type": "LOC"}
        added = {"start": 6, "end": 11, "type": "PER"}
        decide(client, "unsure", [added, kept])
        found = next_one(client, again="unsure")["document"]
        assert found["entities"] == [added, {**kept, "confidence": 0.4}]
        assert decide(client, "unsure", [kept], seen=0).status_code == 409
        assert decide(client, "unsure", [kept], seen=found["seen"]).status_code == 200
        assert [span.start for span in decisions.latest["unsure"].entities] == [36]
        assert next_one(client)["done"] == 1

    def test_a_decision_after_somebody_elses(self, client, decisions):
        other = Decisions(decisions.path, DOCUMENTS)
        other.add("unsure", (), (), "other", 0)
        answer = decide(client, "unsure", [])
        assert answer.status_code == 409
        assert "Somebody else" in answer.json()["error"]
        assert decide(client, "unsure", [], seen=1).status_code == 200

    def test_a_full_disk(self, client, monkeypatch):
        def full(*_):
            raise InputError("d.jsonl cannot be written: No space left on device.")

        monkeypatch.setattr(Journal, "append", full)
        answer = decide(client, "unsure", [])
        assert answer.status_code == 507
        assert "not saved" in answer.json()["error"]
        monkeypatch.undo()
        assert decide(client, "unsure", []).status_code == 200

    def test_a_file_that_was_removed(self, client, decisions):
        decisions.path.unlink()
        answer = client.get("/next", params={"reviewer": "a"})
        assert answer.status_code == 503
        assert "removed or replaced" in answer.json()["error"]
        assert decide(client, "unsure", []).status_code == 507
        assert client.get("/healthz").status_code == 200

    @pytest.mark.parametrize(
        ("change", "status"),
        [
            ({"document": "nothing"}, 404),
            ({"entities": None}, 422),
            ({"entities": [1]}, 422),
            ({"entities": [{"start": 0, "end": 4}]}, 422),
            ({"entities": [{"start": 0.5, "end": 4, "type": "PER"}]}, 422),
            ({"entities": [{"start": True, "end": 4, "type": "PER"}]}, 422),
            ({"entities": [{"start": 0, "end": 400, "type": "PER"}]}, 422),
            ({"entities": [{"start": 0, "end": 4, "type": "DOG"}]}, 422),
            ({"reviewer": ""}, 422),
            ({"reviewer": "x" * 81}, 422),
            ({"reviewer": "\ud800"}, 422),
            ({"seen": True}, 422),
            ({"seen": None}, 422),
        ],
    )
    def test_bad_decisions(self, client, decisions, change, status):
        content = {"document": "sure", "entities": [], "reviewer": "a", "seen": 0, **change}
        headers = {"content-type": "application/json"}
        answer = client.post("/decisions", content=json.dumps(content), headers=headers)
        assert answer.status_code == status
        assert Decisions(decisions.path).latest == {}

    def test_bad_bodies_and_other_sites(self, client):
        headers = {"content-type": "application/json"}
        for body, status in ((b"{", 400), (b"[]", 422), (b"\xff", 400), (b"[" * 100_000, 400)):
            assert client.post("/decisions", content=body, headers=headers).status_code == status
        assert client.post("/decisions", data={"a": "b"}).status_code == 415
        assert client.get("/next", headers={"Origin": "http://evil.example"}).status_code == 403
        assert client.get("/static/decisions.py").status_code == 404


class TestFiles:
    @pytest.fixture
    def made(self, decisions):
        spans = (Span(2, 11, "PER"), Span(32, 40, "LOC"))
        decisions.add("unsure", spans, DOCUMENTS[1].entities, "a", 0)
        decisions.add("sure", (), DOCUMENTS[0].entities, "a", 0)
        return list(decisions.latest.values())

    def test_jsonl_and_predicted_are_the_two_files_of_an_audit(self, made, tmp_path, capsys):
        write_reviewed(tmp_path / "gold.jsonl", made, "jsonl")
        write_reviewed(tmp_path / "predicted.jsonl", made, "predicted")
        gold = [json.loads(x) for x in (tmp_path / "gold.jsonl").read_text().split("\n")[:-1]]
        assert gold[0]["entities"][0] == {"start": 2, "end": 11, "type": "PER"}
        files = [str(tmp_path / name) for name in ("predicted.jsonl", "gold.jsonl")]
        assert main(["audit", "--entities", *files, "--json", "--bootstrap", "0"]) == 0
        assert '"format"' in capsys.readouterr().out

    def test_conll(self, made, tmp_path):
        unfit = write_reviewed(tmp_path / "a.conll", made, "conll")
        lines = (tmp_path / "a.conll").read_text().split("\n")
        assert "Bob\tB-PER" in lines
        assert "Dylan\tI-PER" in lines
        assert "York\tI-LOC" in lines
        assert unfit == 0

    def test_label_studio(self, made, tmp_path):
        write_reviewed(tmp_path / "a.json", made, "label-studio")
        task = json.loads((tmp_path / "a.json").read_text())[0]
        value = task["annotations"][0]["result"][0]["value"]
        assert value == {"start": 2, "end": 11, "text": "Bob Dylan", "labels": ["PER"]}
        assert task["predictions"][0]["result"][0]["score"] == 0.6
        assert task["data"]["text"][2:11] == "Bob Dylan"  # Code points: the emoji is one.
        for region in (*task["annotations"][0]["result"], *task["predictions"][0]["result"]):
            assert set(region) - {"score"} == {"id", "from_name", "to_name", "type", "value"}
            value = region["value"]
            assert task["data"]["text"][value["start"] : value["end"]] == value["text"]
        ids = [region["id"] for region in task["annotations"][0]["result"]]
        assert len(set(ids)) == len(ids)

    def test_what_label_studio_gives_back_is_read_as_entities(self, made, tmp_path, capsys):
        """Its JSON export has the tasks that we import (recorded in tests/entities)."""
        write_reviewed(tmp_path / "gold.json", made, "label-studio")
        write_reviewed(tmp_path / "predicted.jsonl", made, "predicted")
        found = read_entities(tmp_path / "gold.json").documents
        assert {one.id: one.text for one in found} == {one.document: one.text for one in made}
        for one, decision in zip(found, made, strict=True):
            ours = [(span.start, span.end, span.type) for span in decision.entities]
            assert [entity.span for entity in one.entities] == ours
        files = [str(tmp_path / name) for name in ("predicted.jsonl", "gold.json")]
        assert main(["audit", "--entities", *files, "--bootstrap", "0"]) == 0

    def test_the_command_exports(self, made, decisions, tmp_path, capsys):
        target = str(tmp_path / "x.jsonl")
        options = ["texts.txt", "--decisions", str(decisions.path)]
        assert main(["review", *options, "--export", "jsonl", target]) == 0
        assert "2 reviewed documents" in capsys.readouterr().out
        assert main(["review", *options, "--export", "jsonl", target]) == 2
        assert main(["review", *options, "--export", "word", target]) == 2
        assert "Unknown format" in capsys.readouterr().err

    def test_bad_input_is_one_line(self, tmp_path, capsys):
        assert main(["review", "no.txt", "--export", "jsonl", "x"]) == 2
        assert main(["review", "no.txt"]) == 2
        assert "--run" in capsys.readouterr().err.splitlines()[-1]

    @pytest.mark.parametrize("name", ["", " ", "A ", "A\tB", "A\nB"])
    def test_types_that_no_tag_can_have(self, name, tmp_path, capsys):
        """They would spoil the columns of CoNLL."""
        assert main(["review", "no.txt", "--run", str(tmp_path), "--type", name]) == 2
        assert "--type takes a name" in capsys.readouterr().err


@pytest.fixture
def address(decisions):
    with served(review_app(DOCUMENTS, decisions, TYPES)) as address:
        yield address


class TestPage:
    @pytest.fixture
    def page(self, browser, address):
        browser.open(address)
        browser.run(
            "document.getElementById('reviewer').value = 'Zoë';"
            "document.querySelector('#start button').click()"
        )
        browser.wait("document.querySelectorAll('mark').length === 2")
        return browser

    def key(self, browser, key):
        browser.run(
            "document.dispatchEvent(new KeyboardEvent('keydown', {key: arguments[0]}))", key
        )

    def chosen(self, browser):
        return browser.run("return document.getElementById('entity').textContent")

    def test_fixed_by_keys_and_saved_before_the_next(self, page, decisions):
        assert self.chosen(page) == "York: LOC, 40 %"  # The least sure comes first.
        self.key(page, "[")
        assert self.chosen(page) == "New York: LOC, by hand"
        self.key(page, "ArrowLeft")
        self.key(page, "}")
        assert self.chosen(page) == "Bob Dylan: PER, by hand"
        self.key(page, "2")
        assert self.chosen(page) == "Bob Dylan: LOC, by hand"
        self.key(page, "u")
        assert self.chosen(page) == "Bob Dylan: PER, by hand"
        self.key(page, "Enter")
        page.wait("document.getElementById('entity').textContent.startsWith('Rome')")
        decisions.refresh()
        assert decisions.latest["unsure"].entities == (Span(2, 11, "PER"), Span(32, 40, "LOC"))
        assert decisions.latest["unsure"].reviewer == "Zoë"
        self.key(page, "r")
        self.key(page, "Enter")
        page.wait("document.getElementById('entity').textContent.startsWith('Anna')")
        self.key(page, "Enter")
        page.wait("document.getElementById('status').textContent.startsWith('All documents')")
        decisions.refresh()
        assert decisions.latest["middle"].entities == ()
        assert decisions.latest["sure"].entities == (Span(0, 4, "PER"),)
        assert page.logs() == []

    def test_selected_text_becomes_an_entity_and_nothing_is_markup(self, page):
        assert page.run("return document.querySelectorAll('#text i, #text b').length") == 0
        page.run(
            "const node = [...document.getElementById('text').childNodes]"
            ".find((n) => n.textContent.includes('Carla'));"
            "const range = document.createRange(); const at = node.textContent.indexOf('Carla');"
            "range.setStart(node, at); range.setEnd(node, at + 5);"
            "const s = getSelection(); s.removeAllRanges(); s.addRange(range)"
        )
        self.key(page, "1")
        assert self.chosen(page) == "Carla: PER, by hand"
        assert page.run("return document.querySelectorAll('mark').length") == 3

    def test_the_mouse_selects_and_presses_a_type(self, page):
        page.run(
            "const node = [...document.getElementById('text').childNodes]"
            ".find((n) => n.textContent.includes('Carla'));"
            "const range = document.createRange(); const at = node.textContent.indexOf('Carla');"
            "range.setStart(node, at); range.setEnd(node, at + 5);"
            "const s = getSelection(); s.removeAllRanges(); s.addRange(range)"
        )
        x, y = page.middle("#types button", 1)
        for kind in ("mousePressed", "mouseReleased"):
            page.devtools(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1
            )
        assert self.chosen(page) == "Carla: LOC, by hand"

    def test_later_and_keys_while_a_decision_is_saved(self, page, decisions):
        """Keys during a request act on nothing: the document may change under them."""
        page.run(
            "for (const key of ['Enter', 'r', 'n', 'Enter']) "
            "document.dispatchEvent(new KeyboardEvent('keydown', {key}))"
        )
        page.wait("document.getElementById('entity').textContent.startsWith('Rome')")
        decisions.refresh()
        assert list(decisions.latest) == ["unsure"]
        assert len(decisions.latest["unsure"].entities) == 2
        self.key(page, "n")
        page.wait("document.getElementById('entity').textContent.startsWith('Anna')")
        self.key(page, "n")
        page.wait("document.getElementById('entity').textContent.startsWith('Rome')")

    def test_marks_of_direction_turn_no_number(self, browser, tmp_path):
        """An unclosed override from right to left would show 40 % as % 04."""
        text = "\u202eevil\u2069 words here"
        documents = [Document("\u202e<b>", text, (Span(0, 6, "PER", 0.4),))]
        decisions = Decisions(tmp_path / "rtl.jsonl", documents)
        with served(review_app(documents, decisions, TYPES)) as address:
            browser.open(address)
            browser.run(
                "document.getElementById('reviewer').value = '\u202e<script>alert(1)</script>';"
                "document.querySelector('#start button').click()"
            )
            browser.wait("document.querySelectorAll('mark').length === 1")
            left_to_right = browser.run(
                "const node = document.getElementById('entity').lastChild;"
                "const text = node.textContent; const at = text.indexOf('40');"
                "const x = (i) => { const r = document.createRange(); r.setStart(node, i);"
                "r.setEnd(node, i + 1); return r.getBoundingClientRect().x };"
                "return x(at) < x(at + 1) && x(at + 1) < x(at + 3)"
            )
            assert left_to_right
            self.key(browser, "Enter")
            browser.wait("document.getElementById('status').textContent.startsWith('All')")
            assert browser.logs() == []
        decisions.refresh()
        (one,) = decisions.latest.values()
        assert (one.reviewer, one.text) == ("\u202e<script>alert(1)</script>", text)

    def test_an_entity_is_added_by_keys_alone(self, page):
        for _ in range(3):
            self.key(page, "w")
        selected = self.chosen(page)
        assert selected == "Selected: met"  # The emoji, Dylan, met.
        self.key(page, "W")
        assert self.chosen(page) == "Selected: Dylan"
        self.key(page, "2")
        assert self.chosen(page) == "Dylan: LOC, by hand"

    def test_enter_on_the_list_of_keys_accepts_nothing(self, page, decisions):
        page.run(
            "document.querySelector('summary').dispatchEvent(new KeyboardEvent('keydown', "
            "{key: 'Enter', bubbles: true}))"
        )
        decisions.refresh()
        assert decisions.latest == {}
        assert page.run("return document.getElementById('save').disabled") is False

    def test_a_decision_that_is_not_saved_stays_on_the_page(self, page, monkeypatch):
        def full(*_):
            raise InputError("d.jsonl cannot be written: No space left on device.")

        monkeypatch.setattr(Journal, "append", full)
        self.key(page, "Enter")
        page.wait("document.getElementById('status').className === 'error'")
        assert "York" in self.chosen(page)

    def test_back_to_what_was_accepted_by_mistake(self, page, decisions):
        self.key(page, "b")  # Nothing is decided yet.
        for done in (1, 2, 3):
            self.key(page, "Enter")
            page.wait(f"document.getElementById('bar').value === {done}")
            page.wait("!busy")
        page.wait("document.getElementById('work').hidden")
        self.key(page, "b")
        page.wait("!document.getElementById('work').hidden && !busy")
        assert "Anna: PER, 99 %" in self.chosen(page)
        self.key(page, "r")
        self.key(page, "Enter")
        page.wait("document.getElementById('work').hidden && !busy")
        decisions.refresh()
        assert decisions.latest["sure"].entities == ()
        assert decisions.counts == {"unsure": 1, "middle": 1, "sure": 2}

    def test_a_service_that_is_gone(self, page):
        page.run("window.fetch = () => Promise.reject(new TypeError('Failed to fetch'))")
        self.key(page, "Enter")
        page.wait("document.getElementById('status').textContent.includes('still running')")
        assert "York" in self.chosen(page)

    def test_a_phone_in_the_dark(self, browser, address):
        browser.open(address, width=360, height=700, dark=True)
        browser.run(
            "document.getElementById('reviewer').value = 'a';"
            "document.querySelector('#start button').click()"
        )
        browser.wait("document.querySelectorAll('mark').length === 2")
        assert browser.run("return document.documentElement.scrollWidth <= 360")
