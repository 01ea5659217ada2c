"""Audits to report on, and a real browser driven over the WebDriver protocol with urllib only."""

import base64
import json
import re
import shutil
import subprocess
import urllib.request
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
from matplotlib.image import imread

from calibrant import Predictions
from calibrant.auditing import Audit, ClassRow, EntityView, Measure, Mistake
from calibrant.metrics import accumulate, accuracy, confidences, ece, nll, top_label

FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--hide-scrollbars",
]


def predictions_of(stretch=4.5, classes=10, n=2000, names=None):
    """Predictions that a stretch of about 1.8 would calibrate."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, n)
    logits = rng.normal(size=(n, classes))
    logits[np.arange(n), labels] += 1.8
    groups = {"sentence": np.arange(n) // 9, "position": np.arange(n) % 9}
    return Predictions.from_logits(stretch * logits, labels, label_names=names, groups=groups)


def audit_of(predictions, bins=15, **provenance):
    state = accumulate(predictions, bins)
    names = predictions.names
    count = state.predicted_count
    classes = [
        ClassRow(
            names[k],
            int(state.label_count[k]),
            int(count[k]),
            float(state.predicted_confidence[k] / count[k]) if count[k] else float("nan"),
            float(state.predicted_correct[k] / count[k]) if count[k] else float("nan"),
        )
        for k in range(state.classes)
    ]
    classes.sort(key=lambda row: -abs(np.nan_to_num(row.gap)))
    confidence, predicted, correct = top_label(predictions)
    wrong = np.flatnonzero(~correct)
    wrong = wrong[np.argsort(-confidence[wrong])][:30]
    mistakes = [
        Mistake(
            int(i),
            float(confidence[i]),
            names[predicted[i]],
            names[predictions.labels[i]],
            {name: column[i] for name, column in predictions.groups.items()},
        )
        for i in wrong
    ]
    error = ece(state)
    measures = (
        Measure("accuracy", "Accuracy", accuracy(state), 0.55, 0.61, "58.2 % are right."),
        Measure("ece", "Expected calibration error", error, error - 0.01, error + 0.01, "Far off."),
        Measure("nll", "Negative log-likelihood", nll(state), None, None, "Surprise in nats."),
        Measure("apcr", "APCR", float("inf"), None, None, "Undefined where ECE is 0."),
    )
    return Audit(
        names,
        state,
        confidences(predictions),
        measures,
        ("Overconfident by 24 points: it says 84 % and is right 60 %.", "2 of 15 bins are empty."),
        tuple(classes),
        tuple(mistakes),
        None,
        {
            "files": [{"name": "predictions.parquet", "sha256": "9f86d081" * 8}],
            "n": len(predictions),
            "edges": state.bins.edges().tolist(),
            "dtype": "float64",
            "versions": {"calibrant": "0.1.0", "numpy": np.__version__},
            **provenance,
        },
    )


@pytest.fixture(scope="session")
def make_predictions():
    return predictions_of


@pytest.fixture(scope="session")
def make_audit():
    return audit_of


@pytest.fixture(scope="session")
def overconfident():
    return audit_of(predictions_of())


@pytest.fixture(scope="session")
def calibrated():
    return audit_of(predictions_of(stretch=1.8))


@pytest.fixture(scope="session")
def entities():
    """An audit of BIO tags with its view of whole entities."""
    tags = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
    plain = audit_of(predictions_of(classes=5, names=tags))
    state = accumulate(predictions_of(classes=5, n=300))
    measures = (Measure("entity_f1", "Entity F1", 0.61, 0.55, 0.66, "Exact spans and types."),)
    types = (ClassRow("PER", 120, 130, 0.91, 0.7), ClassRow("LOC", 90, 80, 0.8, 0.81))
    return replace(plain, entities=EntityView(measures, state, "product", types))


class Browser:
    """One headless Chromium: the few words of WebDriver that the tests need."""

    def __init__(self, profile):
        self.driver = subprocess.Popen(
            [shutil.which("chromedriver"), "--port=0"], stdout=subprocess.PIPE, text=True
        )
        line = next(line for line in self.driver.stdout if "successfully on port" in line)
        port = re.search(r"port (\d+)", line)[1]
        self.url = f"http://127.0.0.1:{port}/session"
        flags = [*FLAGS, f"--user-data-dir={profile}"]
        wanted = {
            "goog:chromeOptions": {"args": flags, "binary": shutil.which("chromium")},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        try:
            session = self._send("", {"capabilities": {"alwaysMatch": wanted}})
        except OSError:
            self.stop()
            raise
        self.url += "/" + session["sessionId"]

    def _send(self, command, content=None, method="POST"):
        data = None if method == "DELETE" else json.dumps(content or {}).encode()
        request = urllib.request.Request(self.url + command, data, method=method)
        request.add_header("Content-Type", "application/json")
        # No proxy of the environment stands between two processes of one machine.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def close(self):
        self._send("", method="DELETE")
        self.stop()

    def stop(self):
        self.driver.terminate()
        self.driver.wait(10)
        self.driver.stdout.close()

    def devtools(self, command, **params):
        return self._send("/goog/cdp/execute", {"cmd": command, "params": params})

    def open(self, path, width=1200, height=900, dark=False):
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.devtools("Emulation.setDeviceMetricsOverride", **metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.devtools("Emulation.setEmulatedMedia", features=[scheme])
        self.logs()
        self.requests()
        self._send("/url", {"url": path.resolve().as_uri()})

    def run(self, script, *arguments):
        return self._send("/execute/sync", {"script": script, "args": list(arguments)})

    def logs(self):
        return [entry["message"] for entry in self._send("/se/log", {"type": "browser"})]

    def requests(self):
        """The addresses asked for since the last call."""
        events = self._send("/se/log", {"type": "performance"})
        messages = [json.loads(event["message"])["message"] for event in events]
        sent = [m for m in messages if m["method"] == "Network.requestWillBeSent"]
        return [m["params"]["request"]["url"] for m in sent]

    def middle(self, selector, number=0):
        """Scroll an element into view and say where its middle lies."""
        script = (
            "const e = document.querySelectorAll(arguments[0])[arguments[1]];"
            "e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
            "return [b.x + b.width / 2, b.y + b.height / 2]"
        )
        return self.run(script, selector, number)

    def hover(self, selector, number=0):
        """Move the mouse onto the middle of an element, as a person would."""
        x, y = self.middle(selector, number)
        self.devtools("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def press(self, key):
        for kind in ("rawKeyDown", "keyUp"):
            code = {"Tab": 9, "Escape": 27, "ArrowLeft": 37, "ArrowRight": 39}[key]
            self.devtools("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code)

    def tip(self):
        return self.run(
            "const t = document.getElementById('tip');"
            "return t.hidden ? null : [...t.children].map((line) => line.textContent)"
        )

    def png(self, whole=False):
        shot = self.devtools("Page.captureScreenshot", captureBeyondViewport=whole)
        return base64.b64decode(shot["data"])

    def pixels(self):
        return (255 * imread(BytesIO(self.png()))).astype(int)


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()
