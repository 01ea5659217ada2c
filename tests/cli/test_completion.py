"""The script of ``calibrant completion`` completes in a shell."""

import shutil
import subprocess

import pytest

from calibrant.cli import COMMANDS, main

TRY = """
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMPREPLY=(); _calibrant
echo "${{COMPREPLY[*]}}"
"""


@pytest.fixture
def bash(capsys):
    if shutil.which("bash") is None:
        pytest.skip("There is no bash.")
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out

    def complete(words):
        tried = script + TRY.format(words=words)
        done = subprocess.run(["bash", "-c", tried], capture_output=True, text=True, check=True)
        assert not done.stderr
        return done.stdout.split()

    return complete


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("calibrant aud", ["audit"]),
        ("calibrant list me", ["methods", "metrics"]),
        ("calibrant audit --repo", ["--report"]),
        ("calibrant train --engi", ["--engine"]),  # An option that the parser adds when it is used.
        ("calibrant audit --match s", ["strict"]),
        ("calibrant fit --calibrator temp", ["temperature"]),
        ("calibrant train --calibrator au", ["auto"]),
        ("calibrant train --method foc", ["focal"]),
        ("calibrant train --task im", ["image"]),
        ("calibrant corrupt --kind typ", ["typos"]),
        ("calibrant audit --calibrator temp", []),  # A file.
        ("calibrant audit ''", []),  # bash then completes names of files.
        ("calibrant audit --report ''", []),
        ("calibrant nonsense --x", []),
    ],
)
def test_bash_completes(bash, words, expected):
    assert bash(words) == expected


def test_bash_offers_every_command(bash):
    assert bash("calibrant ''") == [*COMMANDS, "--help", "--version"]


def test_zsh_reads_the_script_of_bash(capsys):
    assert main(["completion", "zsh"]) == 0
    start, rest = capsys.readouterr().out.split("\n", 1)
    assert start == "autoload -U +X bashcompinit && bashcompinit"
    main(["completion", "bash"])
    assert capsys.readouterr().out == rest


def test_fish_has_one_line_per_command_and_option(capsys):
    assert main(["completion", "fish"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("complete -c calibrant -n ") for line in lines)
    assert sum("__fish_use_subcommand" in line for line in lines) == len(COMMANDS)
    assert any("from list' -xa 'tasks methods" in line for line in lines)
    assert any("from audit' -l report -d" in line for line in lines)
