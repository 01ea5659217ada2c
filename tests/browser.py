"""A real browser, driven over the WebDriver protocol with urllib alone."""

import asyncio
import base64
import json
import re
import shutil
import subprocess
import threading
import time
import urllib.request
from contextlib import contextmanager
from io import BytesIO

from matplotlib.image import imread

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


@contextmanager
def served(application):
    """Serve an application at a free port of this machine; yield its address."""
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(application, port=0, log_level="error"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    server.should_exit = True
    thread.join(10)


def _start_driver():
    """Return chromedriver and its port, which another process may take while it starts."""
    for _ in range(5):
        driver = subprocess.Popen(
            [shutil.which("chromedriver"), "--port=0"], stdout=subprocess.PIPE, text=True
        )
        for line in driver.stdout:
            if found := re.search(r"successfully on port (\d+)", line):
                return driver, found[1]
        driver.stdout.close()
        driver.wait(10)
    raise RuntimeError("chromedriver finds no free port.")


class Browser:
    """One headless Chromium: the few words of WebDriver that the tests need."""

    def __init__(self, profile):
        self.driver, port = _start_driver()
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
        data = None if method != "POST" else json.dumps(content or {}).encode()
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
        address = path if isinstance(path, str) else path.resolve().as_uri()
        self._send("/url", {"url": address})
        # The driver does not wait where the page before had asked to confirm that it is left.
        self.wait(f"location.href === {json.dumps(address)} && document.readyState === 'complete'")

    def run(self, script, *arguments):
        return self._send("/execute/sync", {"script": script, "args": list(arguments)})

    def logs(self):
        return [entry["message"] for entry in self._send("/se/log", {"type": "browser"})]

    def requests(self):
        """The addresses asked for since the last call; the browser's own pages ask for others."""
        events = self._send("/se/log", {"type": "performance"})
        messages = [json.loads(event["message"])["message"] for event in events]
        sent = [m for m in messages if m["method"] == "Network.requestWillBeSent"]
        own = [m["params"] for m in sent if not m["params"]["documentURL"].startswith("chrome://")]
        return [one["request"]["url"] for one in own]

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

    @contextmanager
    def new_window(self):
        """Look into the window that the page has opened, then close it."""
        own = self._send("/window", method="GET")
        for _ in range(400):
            if others := [w for w in self._send("/window/handles", method="GET") if w != own]:
                break
            time.sleep(0.02)
        self._send("/window", {"handle": others[0]})
        try:
            yield
        finally:
            self._send("/window", method="DELETE")
            self._send("/window", {"handle": own})

    def wait(self, script):
        """Return the value of a script as soon as it has one."""
        for _ in range(400):
            if found := self.run(f"return {script}"):
                return found
            time.sleep(0.02)
        raise AssertionError(f"{script}: {self.run('return document.body.innerText')}")

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
