"""The service and the review as processes: damaged folders, a full disk, kill −9, hostile requests.

``make campaign-service`` sets CALIBRANT_FAULTS, the number of damages of each file and of kills.
"""

import http.client
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.parse
from contextlib import contextmanager
from pathlib import Path

import pytest

from calibrant.cli import main
from calibrant.reviewing import Decisions, Document

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")
pytest.importorskip("transformers")

FAULTS = int(os.environ.get("CALIBRANT_FAULTS", "1"))
HOSTILE = [
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "../../../etc/passwd",
    "\u202eEVIL\u2066",
    "${7*7}{{7*7}}",
    "a\tb",
]


@contextmanager
def started(*command, limit=None, cwd=None):
    """Start a command that serves; yield its port and the process."""

    def limited():
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    process = subprocess.Popen(
        [sys.executable, "-m", "calibrant", *map(str, command), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limited,
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    logs = []
    reader = threading.Thread(target=lambda: logs.extend(process.stderr), daemon=True)
    reader.start()
    try:
        line = process.stdout.readline()
        port = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        process.reader, process.logs = reader, logs
        yield (None if port is None else int(port[1])), process
    finally:
        process.kill()
        process.wait(10)
        reader.join(10)
        process.stdout.close()
        process.stderr.close()


def ask(port, path, content=None, **headers):
    """Return status and content of an answer; the path goes out as it is."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    body = None if content is None else json.dumps(content).encode()
    kind = {"Content-Type": "application/json"} if content is not None else {}
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        method = "GET" if content is None else "POST"
        connection.request(method, path, body, {**kind, **names})
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8", "replace")
    finally:
        connection.close()


def damaged(content, place):
    """Yield some damages of a file, by name."""
    yield "removed", None
    for _ in range(FAULTS):
        cut = place.randrange(len(content) + 1)
        yield f"cut at {cut}", content[:cut]
        flipped = bytearray(content)
        where = place.randrange(len(content)) if content else 0
        if content:
            flipped[where] ^= 1 << place.randrange(8)
        yield f"bit flipped in byte {where}", bytes(flipped)


@pytest.fixture(scope="module")
def exports(runs, tmp_path_factory):
    """Exports by task: a process that serves one starts much faster than with torch."""
    folder, found = tmp_path_factory.mktemp("exports"), {}

    def export(task):
        if task not in found:
            found[task] = folder / task
            assert main(["export", str(runs[task]), "-o", str(found[task])]) == 0
        return found[task]

    return export


class TestDamagedFolders:
    @pytest.fixture
    def start(self, monkeypatch):
        """Start the service without its socket; return what it answers to a request."""
        from starlette.testclient import TestClient

        from calibrant.serving import running

        answers = []

        def request(application, *_, **__):
            client = TestClient(application, base_url="http://127.0.0.1")
            answer = client.post("/predict", json={"text": "Anna Holberg met Bob in Lindton ."})
            answers.append((answer.status_code, answer.text))
            assert client.get("/healthz").status_code == 200
            for path in ("/about", "/openapi.json", "/metrics", "/report"):
                assert client.get(path).status_code in (200, 404), path

        monkeypatch.setattr(running, "run_application", request)
        return lambda folder: (main(["serve", str(folder)]), answers)

    @pytest.mark.parametrize("kind", ["ner", "export"])
    def test_one_line_at_the_start_or_a_service_that_lives(
        self, kind, runs, exports, start, tmp_path, capsys
    ):
        folder = tmp_path / "run"
        shutil.copytree(exports("ner") if kind == "export" else runs["ner"], folder)
        place = random.Random(0)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        assert len(files) > 8
        for path in files:
            content = path.read_bytes()
            cases = list(damaged(content, place))
            if FAULTS == 1:
                cases = [place.choice(cases)]
            for name, bad in cases:
                path.unlink() if bad is None else path.write_bytes(bad)
                where = f"{path.relative_to(folder)} {name}"
                capsys.readouterr()
                code, answers = start(folder)
                line = capsys.readouterr().err
                assert code in (0, 2), where
                assert "Traceback" not in line, where
                if code == 2:
                    assert line.count("\n") == 1, (where, line)
                else:
                    status, text = answers[-1]
                    assert status == 200 or status >= 500, (where, text)
                    assert kind == "ner" or bad == content, f"{where} is not noticed"
                path.write_bytes(content)

    @pytest.mark.skipif(FAULTS == 1, reason="make campaign-service runs it")
    def test_as_processes(self, runs, tmp_path):
        """A damaged file may do more to a process than raise an error."""
        folder = tmp_path / "run"
        shutil.copytree(runs["ner"], folder)
        place = random.Random(1)
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            content = path.read_bytes()
            name, bad = place.choice(list(damaged(content, place)))
            path.unlink() if bad is None else path.write_bytes(bad)
            with started("serve", folder, "--runtime", "torch") as (port, process):
                if port is None:
                    code = process.wait(30)
                    process.reader.join(10)
                    found = (code, len(process.logs))
                    assert found == (2, 1), (path.name, name, process.logs[-5:])
                else:
                    status, text = ask(port, "/predict", {"text": "Anna met Bob"})
                    assert status == 200 or status >= 500, (path.name, name, text)
                    assert "Traceback" not in text
                    assert ask(port, "/healthz")[0] == 200
            path.write_bytes(content)


@pytest.fixture
def texts(tmp_path):
    """Texts with hostile words and ids, in a folder of their own."""
    folder = tmp_path / "given"
    folder.mkdir()
    lines = [
        {"id": f"{word} {n}", "text": f"Anna {n} met {word} in Rome ."}
        for n in range(12)
        for word in HOSTILE
    ]
    (folder / "texts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder / "texts.jsonl"


def next_one(port, reviewer):
    status, text = ask(port, f"/next?reviewer={urllib.parse.quote(reviewer)}")
    assert status == 200, text
    return json.loads(text).get("document")


def decide(port, document, reviewer):
    spans = [{"start": 0, "end": 4, "type": "PER"}]
    content = {"document": document["id"], "seen": document["seen"], "entities": spans}
    return ask(port, "/decisions", {**content, "reviewer": reviewer})


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of file sizes")
def test_a_full_disk_during_a_review(texts, exports):
    """A decision that is not on the disk is never shown as saved; the service stays alive."""
    path = Path(f"{texts}.review.jsonl")
    with started("review", texts, "--run", exports("ner"), limit=6000) as (port, _):
        saved = []
        while True:
            document = next_one(port, "a")
            status, text = decide(port, document, "a")
            if status != 200:
                break
            saved.append(document["id"])
        assert status == 507
        assert "not saved" in json.loads(text)["error"]
        assert saved
        assert list(Decisions(path).latest) == saved
        for _ in range(3):
            assert decide(port, document, "a")[0] == 507
        assert next_one(port, "a")["id"] == document["id"]
        assert ask(port, "/healthz")[0] == 200
    found = Decisions(path)
    assert (list(found.latest), found.damaged) == (saved, 0)


def test_two_reviewers_and_kill_9(texts, exports):
    """After each kill, the file has every answered decision once; the next start continues."""
    path, answered = Path(f"{texts}.review.jsonl"), {}
    wait = random.Random(0)
    for _ in range(FAULTS):
        with started("review", texts, "--run", exports("ner")) as (port, process):

            def work(reviewer, port=port):
                try:
                    while document := next_one(port, reviewer):
                        status, _ = decide(port, document, reviewer)
                        if status == 200:
                            assert document["id"] not in answered
                            answered[document["id"]] = reviewer
                except (OSError, http.client.HTTPException):
                    pass  # The process was killed.

            people = [threading.Thread(target=work, args=(name,)) for name in ("a", HOSTILE[0])]
            for person in people:
                person.start()
            time.sleep(wait.uniform(0.05, 0.4))
            process.send_signal(signal.SIGKILL)
            for person in people:
                person.join(30)
        found = Decisions(path)
        assert set(answered) <= set(found.latest)
        assert len(found.latest) <= len(answered) + 2 * FAULTS  # Two were under way at each kill.
        assert max(found.counts.values()) == 1
        assert all(found.latest[name].reviewer == who for name, who in answered.items())
    assert answered


class TestHostileRequests:
    @pytest.fixture
    def review(self, texts, exports):
        with started("review", texts, "--run", exports("ner"), cwd=texts.parent) as (port, process):
            yield port, process

    @pytest.fixture
    def service(self, exports, tmp_path):
        with started("serve", exports("ner"), cwd=tmp_path) as (port, process):
            yield port, process

    PATHS = (
        "/static/../application.py", "/static/..%2fapplication.py", "/static/%2e%2e/access.py",
        "/../../../../etc/passwd", "//etc/passwd", "/static/%00", "/static/page.js%00.py",
        "/static//etc/passwd", "/report/../recipe.json", "/recipe.json", "/model/config.json",
        "/texts.jsonl", "/.git/config", "/static/", "/static",
    )  # fmt: skip

    def refuse_all(self, port, reads):
        for path in self.PATHS:
            status, text = ask(port, path)
            assert status in (400, 404), (path, status)
            assert "root:" not in text
        for path, content in reads:
            evil = {"Host": "evil.example", "Origin": "http://evil.example"}
            assert ask(port, path, content, Host="evil.example")[0] == 421, path
            assert ask(port, path, content, Host=f"evil.example:{port}")[0] == 421, path
            assert ask(port, path, content, **evil)[0] == 421, path
            for origin in ("http://evil.example", "null", f"http://127.0.0.1:{port + 1}"):
                assert ask(port, path, content, Origin=origin)[0] == 403, (path, origin)
            assert ask(port, path, content, Sec_Fetch_Site="cross-site")[0] == 403, path

    def test_of_the_review(self, review, texts):
        port, _ = review
        before = sorted(path.name for path in texts.parent.rglob("*"))
        document = next_one(port, "a")
        spans = {"document": document["id"], "seen": 0, "entities": [], "reviewer": "a"}
        reads = [("/next?reviewer=a", None), ("/about", None), ("/decisions", spans)]
        self.refuse_all(port, reads)
        for word in HOSTILE:
            assert ask(port, f"/next?reviewer={urllib.parse.quote(word)}")[0] == 200
            status, text = ask(port, "/decisions", {**spans, "document": word})
            assert (status, json.loads(text)["error"]) == (404, "There is no such document.")
        assert decide(port, document, HOSTILE[2])[0] == 200
        assert Decisions(f"{texts}.review.jsonl").latest[document["id"]].reviewer == HOSTILE[2]
        assert sorted(path.name for path in texts.parent.rglob("*")) == before

    def test_of_the_service(self, service, tmp_path):
        port, _ = service
        self.refuse_all(port, [("/predict", {"text": "a"}), ("/about", None), ("/metrics", None)])
        for word in HOSTILE:
            status, text = ask(port, "/predict", {"text": word, word: 1})
            assert (status, json.loads(text)["error"][:13]) == (422, "Unknown field")
        assert list(tmp_path.iterdir()) == []


def test_a_link_to_another_folder_is_not_written(texts, tmp_path):
    target = tmp_path / "elsewhere"
    target.write_text("")
    link = texts.parent / "d.jsonl"
    link.symlink_to(target)
    with pytest.raises(ValueError, match="link to a file in another folder"):
        Decisions(link, [Document("1", "Anna", ())])
    assert target.read_text() == ""
