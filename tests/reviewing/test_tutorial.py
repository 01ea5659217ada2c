"""The commands of the tutorial work as they stand, on what ``calibrant demo`` leaves."""

import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("transformers")
pytest.importorskip("uvicorn")
from calibrant.cli import main

PAGE = (Path(__file__).parents[2] / "docs" / "review-tutorial.md").read_text("utf-8")
COMMANDS = [
    line.strip()
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
    if line.strip()
]


@pytest.fixture
def demo(tmp_path, monkeypatch):
    """What the demo leaves, with one run, barely trained, instead of 24."""
    from calibrant.cli import demo
    from calibrant.experiments.run import train

    monkeypatch.chdir(tmp_path)
    recipe = replace(demo.demo_recipes(1)[0], epochs=1)
    train(recipe, tmp_path / "out" / "demo" / "runs" / recipe.key, device="cpu", bootstrap=0)
    demo.write_texts(Path("out/demo/texts.txt"))
    return tmp_path


def test_the_commands(demo, monkeypatch, capsys):
    """A reviewer who accepts each post stands for the person at the page."""
    assert COMMANDS[:2] == ["make demo", "source .venv/bin/activate"]
    (run,) = demo.glob(re.search(r"ls -d (\S+)", COMMANDS[2])[1])
    monkeypatch.setattr("calibrant.serving.running.run_application", accept_all)
    for line in COMMANDS[3:]:
        words = shlex.split(line.replace("$RUN", str(run)))
        assert words[0] == "calibrant"
        assert main(words[1:]) == 0, line
    assert "20 reviewed documents" in capsys.readouterr().out
    assert (demo / "reviewed.conll").read_text().count("\n\n") >= 19
    assert (demo / "calibrator.json").is_file()


def accept_all(application, *_, **__):
    from starlette.testclient import TestClient

    client = TestClient(application, base_url="http://127.0.0.1")
    while document := client.get("/next?reviewer=me").json().get("document"):
        spans = [{k: e[k] for k in ("start", "end", "type")} for e in document["entities"]]
        content = {"document": document["id"], "seen": 0, "entities": spans, "reviewer": "me"}
        assert client.post("/decisions", json=content).status_code == 200


def test_the_types_that_it_explains_are_those_of_the_corpus():
    from calibrant.tasks.language.synthetic import generate_splits

    posts = generate_splits(1, train=0, dev=0, test=0, ood=20)["ood"]
    types = {tag[2:] for post in posts for tag in post.tags if tag != "O"}
    assert types <= set(re.findall(r"\b[A-Z]{3,4}\b", PAGE))
