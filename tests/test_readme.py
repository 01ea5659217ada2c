"""The README takes two minutes; its links, commands, picture and numbers are true."""

import json
import re
import runpy
import shlex
from collections import defaultdict
from pathlib import Path
from statistics import mean

import numpy as np
import pytest

from calibrant import Predictions, audit
from calibrant.cli import COMMANDS, main
from calibrant.demo import digit_predictions
from calibrant.metrics.table import with_new_names

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)
COMMAND_LINES = [
    shlex.split(line, comments=True)
    for kind, block in BLOCKS
    for line in block.splitlines()
    if kind == "sh"
]
ABOUT_FILES = ("audit", "compare", "fit", "apply", "watch", "adapt", "guarantee")


def section(title):
    return re.split(r"^## ", README.split(f"## {title}\n")[1], flags=re.MULTILINE)[0]


def table_rows(title):
    rows = re.findall(r"^\|(.*)\|$", section(title), re.MULTILINE)
    return [[cell.strip().strip("*") for cell in row.split("|")] for row in rows]


def test_it_takes_two_minutes():
    prose = re.sub(r"```.*?```|^\|.*$|\]\([^)]*\)", " ", README, flags=re.DOTALL | re.MULTILINE)
    assert len(prose.split()) <= 600


def test_links_lead_somewhere():
    local = [link for link in re.findall(r"\]\(([^)#]+)", README) if "://" not in link]
    assert "docs/images/demo.png" in local
    assert [link for link in local if not (ROOT / link).exists()] == []


def test_the_commands_on_files_work(tmp_path, monkeypatch, capsys):
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    for name in ("valid", "test", "stream", "new"):
        labels = random.integers(0, 3, 600)
        logits = 4 * (random.normal(size=(600, 3)) + 2 * np.eye(3)[labels])
        Predictions.from_logits(logits, labels).write(f"{name}.parquet")
    commands = [
        words[1:] for words in COMMAND_LINES if words[0] == "calibrant" and words[1] in ABOUT_FILES
    ]
    assert [words[0] for words in commands] == list(ABOUT_FILES)
    for words in commands:
        assert main(words) == 0, capsys.readouterr().err


def test_the_other_commands_have_these_options(capsys):
    for words in COMMAND_LINES:
        if words[0] == "calibrant" and words[1] not in ABOUT_FILES:
            assert words[1] in COMMANDS
            with pytest.raises(SystemExit, match="0"):
                main([words[1], "--help"])
            known = capsys.readouterr().out
            assert all(word in known for word in words if word.startswith("-"))


def test_the_audit_prints_these_lines():
    pytest.importorskip("sklearn")
    (shown,) = [block for kind, block in BLOCKS if kind == "text"]
    _, test = digit_predictions()
    assert list(audit(test, bootstrap=0).verdict)[:2] == shown.splitlines()


def test_the_table_of_what_to_use_has_the_means_of_the_records():
    head, _, *rows = table_rows("What to use")
    found = defaultdict(list)
    for line in (ROOT / "benchmarks/results/table1.jsonl").read_text("utf-8").splitlines():
        record = json.loads(line)
        if record["recipe"]["head_width"] == 128:
            for calibrator, result in record["results"].items():
                place = record["recipe"]["data"], record["recipe"]["method"], calibrator
                found[place].append(with_new_names(result["test"]))
    corpora = ("conll2003", "ncbi-disease", "wikiann-en", "gum", "wnut17")
    ways = [
        ("cross_entropy", "identity"),
        ("head_noise", "identity"),
        ("cross_entropy", "temperature"),
        ("cross_entropy", "auto"),
    ]
    for way, row in zip(ways, rows, strict=True):
        means = [mean(100 * r["ece"] for r in found[(corpus, *way)]) for corpus in corpora]
        assert [f"{value:.1f}" for value in means] == row[1:]
    scores = [mean(r["entity_f1"] for r in found[c, "cross_entropy", "identity"]) for c in corpora]
    assert re.findall(r"\((\.\d+)\)", " ".join(head)) == [f"{s:.3f}"[1:] for s in scores]
    assert {len(found[(corpus, *way)]) for corpus in corpora for way in ways} == {5}


def test_the_measurements_are_those_of_the_benchmarks():
    page = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    for _, ours, others in table_rows("Fast")[2:]:
        figures = [ours, *re.findall(r"[\d.]+×", others)]
        assert [figure for figure in figures if figure not in page] == []


def test_the_picture_can_be_drawn_again_and_is_small(tmp_path):
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    runpy.run_path(str(ROOT / "examples" / "readme_picture.py"))["draw"](str(tmp_path / "demo.png"))
    for picture in (tmp_path / "demo.png", ROOT / "docs" / "images" / "demo.png"):
        content = picture.read_bytes()
        assert content.startswith(b"\x89PNG")
        assert 20_000 < len(content) < 120_000
