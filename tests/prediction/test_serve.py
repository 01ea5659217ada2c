"""``calibrant serve`` as a process: real models, real sockets, signals."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest

from calibrant.loading import load
from calibrant.serving.running import listen

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")


@contextmanager
def serving(folder, *options, env=None):
    """Start the service; yield its address, and the process."""
    command = [sys.executable, "-m", "calibrant", "serve", str(folder), "--port", "0", *options]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})},
    )
    logs = []
    reader = threading.Thread(target=lambda: logs.extend(process.stderr), daemon=True)
    reader.start()
    try:
        line = process.stdout.readline()
        assert line.startswith("Serving"), "".join(logs)
        process.logs, process.reader = logs, reader
        yield re.search(r"http://\S+", line)[0], process
    finally:
        process.kill()
        process.wait(10)
        reader.join(10)
        process.stdout.close()
        process.stderr.close()


def ask(address, content=None, path="/predict", **headers):
    data = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(address + path, data, headers)
    request.add_header("Content-Type", "application/json")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


TEXTS = ["Anna Miller works in Paris .", "😀 Bob met Carla in Rome.", "", "東京で Anna"]


def test_equal_to_predict_and_nothing_is_lost_at_the_end(runs):
    """Requests that are under way when SIGTERM comes are all answered."""
    expected = [p.to_dict() for p in load(runs["ner"]).predict(TEXTS, top_k=3)]
    expected = json.loads(json.dumps(expected))
    with serving(runs["ner"]) as (address, process):
        status, found = ask(address, {"texts": TEXTS, "top_k": 3})
        assert status == 200
        for ours, theirs in zip(found["predictions"], expected, strict=True):
            assert [e["text"] for e in ours["entities"]] == [e["text"] for e in theirs["entities"]]
            assert [e["confidence"] for e in ours["entities"]] == pytest.approx(
                [e["confidence"] for e in theirs["entities"]], abs=1e-5
            )
        assert ask(address, path="/healthz")[0] == 200
        answers = []

        def client():
            answers.append(ask(address, {"texts": TEXTS * 20})[0])

        threads = [threading.Thread(target=client) for _ in range(12)]
        for thread in threads:
            thread.start()
        while ask(address, path="/healthz")[1]["waiting"] == 0 and not answers:
            time.sleep(0.005)
        process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join(60)
        assert answers == [200] * 12
        assert process.wait(30) == 0
        process.reader.join(10)
        events = [json.loads(line) for line in process.logs if line.startswith("{")]
        assert sum(e.get("path") == "/predict" for e in events) == 13
        assert "Anna" not in "".join(process.logs)


def test_slow_clients_do_not_stop_others_and_other_machines_need_a_token(runs, tmp_path):
    (tmp_path / "token").write_text("secret\n")
    options = ("--host", "0.0.0.0", "--token-file", str(tmp_path / "token"))
    with serving(runs["text"], *options) as (address, process):
        address = address.replace("0.0.0.0", "127.0.0.1")
        key = {"Authorization": "Bearer secret"}
        assert ask(address, {"text": "a"})[0] == 401
        host, port = address.removeprefix("http://").split(":")
        head = f"POST /predict HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: 500\r\n"
        head += "Authorization: Bearer secret\r\nContent-Type: application/json\r\n\r\n{"
        slow = []
        for _ in range(int(os.environ.get("CALIBRANT_SLOW_REQUESTS", "200"))):
            one = socket.create_connection((host, int(port)))
            one.sendall(head.encode())
            slow.append(one)
        start = time.monotonic()
        assert ask(address, {"text": "ball goal team"}, **key)[0] == 200
        assert time.monotonic() - start < 5
        for one in slow[:100]:  # Half of them leave in the middle.
            one.close()
        assert ask(address, {"text": "ball goal team"}, **key)[0] == 200
        slow[150].settimeout(30)
        assert b"408" in slow[150].recv(100)
        for one in slow[100:]:
            one.close()
        assert process.poll() is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--host", "0.0.0.0"], "token"),
        (["--token-file", "no-such-file"], "cannot be read"),
        (["--port", "70000"], "65535"),
        (["--policy", "no-such.json"], "no-such.json"),
        (["--max-queue", "0"], "queue"),
    ],
)
def test_bad_options_are_one_line(runs, options, words, capsys, monkeypatch):
    from calibrant.cli import main

    monkeypatch.delenv("CALIBRANT_TOKEN", raising=False)
    assert main(["serve", str(runs["text"]), *options]) == 2
    line = capsys.readouterr().err
    assert words in line
    assert line.count("\n") == 1


def test_a_port_in_use(runs, capsys):
    from calibrant.cli import main

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", str(runs["text"]), "--port", str(port)]) == 2
    assert "Choose another --port" in capsys.readouterr().err


def test_a_damaged_folder(runs, tmp_path, capsys):
    from calibrant.cli import main

    assert main(["serve", str(tmp_path)]) == 2
    assert "no recipe.json" in capsys.readouterr().err


def test_answers_are_sent_at_once():
    """Without this option of its socket, each answer waits 40 ms for an acknowledgement."""
    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        accepted.close()
