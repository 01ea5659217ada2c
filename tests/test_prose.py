"""The prose stays plain: turns that read like a translation do not return."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TURNS = re.compile(
    r"\b(told|said|but for|whatever it|of those that|is passed over|goes on)\b", re.IGNORECASE
)
# The grammar writes the sentences of the embedded corpus; this file lists the turns.
EXEMPT = {"src/calibrant/tasks/language/grammar.py", "tests/test_prose.py"}


def tracked_files() -> list[str]:
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "*.md", "*.py"], cwd=ROOT, capture_output=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("The files are not in a git repository.")
    return [name for name in listed.stdout.decode().split("\0") if name and name not in EXEMPT]


@pytest.mark.parametrize(
    ("line", "turn"),
    [("But for digits, all agree.", True), ("It was told so.", True), ("A good sentence.", False)],
)
def test_the_pattern_finds_the_turns(line, turn):
    assert bool(TURNS.search(line)) is turn


def test_no_line_has_a_turn_that_reads_like_a_translation():
    found = [
        f"{name}:{number}: {line.strip()}"
        for name in tracked_files()
        if (ROOT / name).is_file()
        for number, line in enumerate((ROOT / name).read_text("utf-8").splitlines(), start=1)
        if TURNS.search(line)
    ]
    assert found == []
