"""Seconds that the tutorial of the review takes: its commands, its page, and the keys to press.

    python benchmarks/review_tutorial.py OUT -o FILE.json

OUT is the folder of ``calibrant demo``. The commands are those of docs/review-tutorial.md. The
reviewer is a program in Chromium that knows the true entities of the posts and enters them by keys.
So it measures what commands and page take, and how often a person presses a key. How long a person
reads is not measured: ``--reading`` seconds for each post are assumed.
"""

import argparse
import json
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from calibrant.tasks.language.synthetic import generate_splits
from machine import circumstances

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.browser import Browser

PAGE = Path(__file__).parents[1] / "docs" / "review-tutorial.md"
POST = "current && current.text.join('')"
STATE = "return [current && current.id, entities.map((e) => [e.start, e.end, e.type]), types]"


def commands(out):
    """Return the commands of the page after 'make demo', by the word that follows calibrant."""
    run = next((out / "runs").glob("synthetic-cross_entropy-*-s0-*"))
    text = PAGE.read_text("utf-8").replace("out/demo", str(out)).replace("$RUN", str(run))
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("calibrant ")]


def truth():
    """Return the entities of each post of the demo: start, end and type by text."""
    found = {}
    for post in generate_splits(1, train=0, dev=0, test=0, ood=20)["ood"]:
        spans, place = [], 0
        for word, tag in zip(post.words, post.tags, strict=True):
            end = place + len(word)
            if tag.startswith("I-"):
                spans[-1][1] = end
            elif tag != "O":
                spans.append([place, end, tag[2:]])
            place = end + 1
        found[" ".join(post.words)] = spans
    return found


class Reviewer:
    """Presses keys, and counts them."""

    def __init__(self, browser, address):
        self.browser, self.keys = browser, 0
        browser.open(address + "/")
        browser.run("document.getElementById('reviewer').value = 'me'")
        browser.run("document.querySelector('#start button').click()")

    def press(self, key):
        text = "\r" if key == "Enter" else key if len(key) == 1 else ""
        for kind in ("keyDown", "keyUp"):
            more = {"text": text} if text and kind == "keyDown" else {}
            self.browser.devtools("Input.dispatchKeyEvent", type=kind, key=key, **more)
        self.keys += 1

    def state(self):
        return self.browser.run(STATE)

    def correct(self, wanted):
        """Reject what is wrong, add what is missing, and accept."""
        while wrong := [e for e in self.state()[1] if e not in wanted]:
            self.choose(self.state()[1].index(wrong[0]))
            self.press("r")
        for one in wanted:
            if one not in self.state()[1]:
                self.add(one)
        document = self.state()[0]
        self.press("Enter")
        self.browser.wait(f"(!current || current.id !== {json.dumps(document)}) && !busy")

    def choose(self, number):
        while (chosen := self.browser.run("return chosen")) != number:
            self.press("ArrowLeft" if chosen > number else "ArrowRight")

    def add(self, wanted):
        """Select the first word, press the number of the type, and move the end."""
        start, end, kind = wanted
        place = (
            "const r = getSelection().getRangeAt(0); return position(r.startContainer, "
            "r.startOffset)"
        )
        self.press("w")
        while self.browser.run(place) != start:
            self.press("w")
        self.press(str(self.state()[2].index(kind) + 1))
        while next(e for e in self.state()[1] if e[0] == start)[1] < end:
            self.press("}")


def review(command, folder, posts):
    """Review all posts; return the seconds until the page, those of the page, and the keys."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "calibrant", *command, "--port", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    browser = Browser(folder / "profile")
    try:
        address = re.search(r"http://\S+", process.stdout.readline())[0]
        ready = time.perf_counter()
        person = Reviewer(browser, address)
        for _ in posts:
            person.correct(posts[browser.wait(POST)])
        browser.wait("document.getElementById('status').textContent.startsWith('All documents')")
        return ready - start, time.perf_counter() - ready, person.keys
    finally:
        browser.close()
        process.terminate()
        process.wait(30)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="folder of 'calibrant demo'")
    parser.add_argument("--reading", type=float, default=10.0, help="seconds for each post")
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args()
    posts, rows = truth(), []
    (args.out / "texts.txt.review.jsonl").unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for command in commands(args.out.absolute()):
            if command[0] == "review" and "--export" not in command:
                ready, page, keys = review(command, Path(folder), posts)
                rows += [
                    {"what": "review: until the page", "seconds": ready},
                    {"what": "review: the page", "seconds": page, "keys": keys},
                ]
            else:
                start = time.perf_counter()
                subprocess.run(
                    [sys.executable, "-m", "calibrant", *command],
                    check=True, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                )  # fmt: skip
                rows.append({"what": command[0], "seconds": time.perf_counter() - start})
        made = Path(folder) / "reviewed.conll"
        reviewed = len(made.read_text("utf-8").strip().split("\n\n"))
    machine = sum(row["seconds"] for row in rows)
    found = {
        "rows": rows, "posts": len(posts), "reviewed": reviewed, "machine_seconds": machine,
        "with_reading": machine + args.reading * len(posts), "reading": args.reading,
    }  # fmt: skip
    print(json.dumps(found, indent=1))
    if args.output is not None:
        known = circumstances(["calibrant", "torch", "starlette", "uvicorn"])
        args.output.write_text(json.dumps({"circumstances": known, **found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
