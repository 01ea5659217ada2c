"""``calibrant serve`` as a process: real models, real sockets, signals."""

import base64
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

import numpy as np
import pytest

from calibrant.errors import MissingExtraError
from calibrant.loading import load
from calibrant.serving.running import listen
from calibrant.tasks.scoring import OnnxScorer, TorchScorer

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")
Image = pytest.importorskip("PIL.Image")


@contextmanager
def serving(folder, *options, env=None, runtime="torch"):
    """Start the service; yield its address, and the process."""
    command = [sys.executable, "-m", "calibrant", "serve", str(folder), "--port", "0", *options]
    command += ["--runtime", runtime]
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


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs the address 127.0.0.2")
def test_slow_clients_do_not_stop_others_and_other_machines_need_a_token(runs, tmp_path):
    (tmp_path / "token").write_text("secret\n")
    # An address that no other machine reaches, but that is not the usual one of this machine.
    options = ("--host", "127.0.0.2", "--token-file", str(tmp_path / "token"))
    with serving(runs["text"], *options) as (address, process):
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
    folder = str(runs["text"])
    capsys.readouterr()  # What its training wrote.
    assert main(["serve", folder, *options]) == 2
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


INPUTS = {
    "ner": ({"texts": TEXTS, "top_k": 3, "target_risk": 0.5}, TEXTS),
    "text": ({"texts": TEXTS, "top_k": 2, "min_confidence": 0.5}, TEXTS),
    "image": (None, None),
    "segmentation": (None, None),
}


@pytest.mark.parametrize("task", INPUTS)
def test_answers_follow_the_schema_and_equal_predict_bit_for_bit(runs, task):
    """The same inputs that run together have the same numbers, here and there."""
    jsonschema = pytest.importorskip("jsonschema")
    from starlette.testclient import TestClient

    from calibrant.serving import app

    predictor = load(runs[task])
    asked, given = INPUTS[task]
    if asked is None:
        pixels = np.random.default_rng(0).integers(0, 255, (3, 16, 20), np.uint8)
        given = [Image.fromarray(one) for one in pixels]
        encoded = []
        for one in given:
            one.save(file := io.BytesIO(), "PNG")
            encoded.append(base64.b64encode(file.getvalue()).decode())
        asked = {"images": encoded, "target_risk": 0.5}
        asked |= {"maps": True} if predictor.makes_masks else {"top_k": 3}
    client = TestClient(app(predictor))
    schema = client.get("/openapi.json").json()["paths"]["/predict"]["post"]
    answer = client.post("/predict", json=asked)
    assert answer.status_code == 200
    content = answer.json()
    body = schema["requestBody"]["content"]["application/json"]["schema"]
    jsonschema.validate(asked, body, jsonschema.Draft202012Validator)
    declared = schema["responses"]["200"]["content"]["application/json"]["schema"]
    jsonschema.validate(content, declared, jsonschema.Draft202012Validator)
    options = {k: v for k, v in asked.items() if k not in ("texts", "images", "maps")}
    found = [p.to_dict() for p in predictor.predict(given, **options)]
    for one in content["predictions"]:
        for name in ("mask", "confidence_map"):
            assert (name in one) == predictor.makes_masks
            if predictor.makes_masks:
                picture = Image.open(io.BytesIO(base64.b64decode(one.pop(name))))
                assert picture.size == (20, 16)
    assert content["predictions"] == json.loads(json.dumps(found))
    error = client.post("/predict", json={}).json()
    refused = schema["responses"]["422"]["content"]["application/json"]["schema"]
    jsonschema.validate(error, refused, jsonschema.Draft202012Validator)


def test_a_model_that_cannot_predict_is_one_line_at_the_start(runs, tmp_path, capsys):
    """Weights of NaN: nothing is wrong with the file, but with what it holds."""
    from safetensors.numpy import load_file, save_file

    from calibrant.cli import main

    shutil.copytree(runs["ner"], tmp_path / "run")
    path = tmp_path / "run" / "model" / "model.safetensors"
    save_file({name: np.full_like(w, np.nan) for name, w in load_file(path).items()}, path)
    assert main(["serve", str(tmp_path / "run"), "--port", "0"]) == 2
    line = capsys.readouterr().err
    assert "cannot predict" in line
    assert line.count("\n") == 1


class TestRuntime:
    """What runs the model: onnxruntime if it can, with the same probabilities."""

    @pytest.fixture
    def start(self, runs, monkeypatch):
        """Start the service of a task without its socket; return the predictor that it serves."""
        from calibrant.cli import main
        from calibrant.serving import application, running

        served = []
        build = application.app
        monkeypatch.setattr(running, "run_application", lambda *_, prepare, **__: prepare())
        monkeypatch.setattr(
            "calibrant.serving.app",
            lambda given, **more: served.append(given) or build(given, **more),
        )

        def start(task, *options, folder=None):
            code = main(["serve", str(folder or runs[task]), *options])
            return code, served[-1] if served else None

        return start

    @pytest.mark.parametrize("task", ["ner", "text", "image", "segmentation"])
    def test_the_probabilities_are_those_of_torch(self, runs, start, task):
        pytest.importorskip("onnxscript")
        code, predictor = start(task)
        assert code == 0
        assert isinstance(predictor.scorer, OnnxScorer)
        for size in (1, 2, 7):
            example = {name: values for name, (values, _) in predictor.example(size).items()}
            ours, theirs = (
                np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
                for logits in (predictor.scorer(**example), load(runs[task]).scorer(**example))
            )
            np.testing.assert_allclose(ours, theirs, atol=1e-5)

    def test_the_policies_still_fit(self, runs, start):
        """They know the model by its weights, which are the same."""
        pytest.importorskip("onnxscript")
        _, predictor = start("text", "--runtime", "onnxruntime")
        assert predictor.fingerprints() == load(runs["text"]).fingerprints()

    def test_torch_if_wanted(self, start):
        _, predictor = start("text", "--runtime", "torch")
        assert isinstance(predictor.scorer, TorchScorer)

    @pytest.mark.parametrize(
        "failure",
        [
            MissingExtraError("Exporting needs onnx: pip install 'calibrant[onnx]'"),
            RuntimeError("no translation of\nthis operation"),
            OSError(28, "No space left on device"),
        ],
    )
    def test_what_onnxruntime_cannot_run(self, start, monkeypatch, capsys, failure):
        """The service runs by torch and says why; a runtime that was asked for is an error."""

        def fail(_):
            raise failure

        monkeypatch.setattr("calibrant.export.run_by_onnxruntime", fail)
        code, predictor = start("text")
        assert (code, type(predictor.scorer)) == (0, TorchScorer)
        reason = str(failure).replace("\n", " ")
        last = capsys.readouterr().err.splitlines()[-1]
        assert last.startswith("The model runs by torch.")
        assert reason in last
        assert start("text", "--runtime", "onnxruntime")[0] == 2
        assert reason in capsys.readouterr().err.splitlines()[-1]

    def test_without_the_packages_one_line_says_how_to_get_them(
        self, runs, start, monkeypatch, capsys
    ):
        monkeypatch.setitem(sys.modules, "onnxscript", None)  # As if it were not installed.
        folder = runs["text"]
        capsys.readouterr()  # What its training wrote.
        code, predictor = start("text", folder=folder)
        assert (code, type(predictor.scorer)) == (0, TorchScorer)
        (line,) = capsys.readouterr().err.splitlines()
        assert line.endswith("pip install 'calibrant[onnx]'")
        assert start("text", "--runtime", "onnxruntime")[0] == 2

    def test_a_model_that_differs_is_not_run(self, start, monkeypatch, capsys):
        pytest.importorskip("onnxscript")
        monkeypatch.setattr("calibrant.export.tracing._TOLERANCE", -1.0)
        code, predictor = start("text")
        assert (code, type(predictor.scorer)) == (0, TorchScorer)
        assert "differs from the run's" in capsys.readouterr().err

    def test_an_export_is_run_by_onnxruntime_alone(self, runs, start, tmp_path, capsys):
        from calibrant.cli import main

        pytest.importorskip("onnxscript")
        assert main(["export", str(runs["text"]), "-o", str(tmp_path / "export")]) == 0
        for runtime in ("auto", "onnxruntime"):
            assert start("text", "--runtime", runtime, folder=tmp_path / "export")[0] == 0
        assert start("text", "--runtime", "torch", folder=tmp_path / "export")[0] == 2
        assert "name its run" in capsys.readouterr().err

    def test_nothing_is_left_on_the_disk(self, start, tmp_path, monkeypatch):
        pytest.importorskip("onnxscript")
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        start("text")
        assert [path for path in tmp_path.iterdir() if path.name.startswith("calibrant")] == []


def test_a_report_outside_of_the_folder_is_not_shown(tmp_path):
    from calibrant.cli.serve import _report

    folder = tmp_path / "run"
    folder.mkdir()
    assert _report(folder) is None
    (tmp_path / "secret").write_text("secret")
    (folder / "report.html").symlink_to(tmp_path / "secret")
    assert _report(folder) is None
    (folder / "report.html").unlink()
    (folder / "report.html").write_text("<p>")
    assert _report(folder) == folder / "report.html"


def test_answers_are_sent_at_once():
    """Without this option of its socket, each answer waits 40 ms for an acknowledgement."""
    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        accepted.close()


def test_masks_with_a_policy_of_sets_are_refused_at_the_start(runs, tmp_path, capsys):
    from calibrant.cli import main
    from calibrant.policies import Policy, calibrator_fingerprint

    run = load(runs["segmentation"])
    known = {"label_names": run.labels, "calibrator": calibrator_fingerprint(run.calibrator)}
    known["classes"] = len(run.labels)
    path = tmp_path / "sets.json"
    Policy("coverage", 0.9, {"*": 0.8}, n=9, kept=0.5, **known).save(path)
    assert main(["serve", str(runs["segmentation"]), "--port", "0", "--policy", str(path)]) == 2
    assert "no mask shows" in capsys.readouterr().err
