"""The script of ``calibrant completion`` completes in a shell."""

import os
import select
import shutil
import subprocess
import time

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
    loads, start, rest = capsys.readouterr().out.split("\n", 2)
    assert "compinit" in loads
    assert start == "autoload -U +X bashcompinit && bashcompinit"
    main(["completion", "bash"])
    assert capsys.readouterr().out == rest


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("calibrant aud", "calibrant audit "),
        ("calibrant audit --label-c", "--label-column "),
        ("calibrant fit --calibrator tempe", "temperature "),
    ],
)
def test_a_fresh_zsh_completes(tmp_path, capsys, typed, expected):
    """A terminal of an account whose .zshrc has nothing else."""
    if shutil.which("zsh") is None:
        pytest.skip("There is no zsh.")
    main(["completion", "zsh"])
    (tmp_path / ".zshrc").write_text(capsys.readouterr().out + "PROMPT='ready> '\n")
    assert expected in _typed(["zsh", "-i"], tmp_path, typed + "\t", expected)


def _typed(shell, home, keys, expected):
    """What a terminal shows after the prompt and the keys."""
    pty = pytest.importorskip("pty")  # Not on Windows.
    terminal, end = pty.openpty()
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), end)
    environment = {"HOME": str(home), "PATH": os.defpath, "TERM": "dumb"}
    child = subprocess.Popen(shell, env=environment, start_new_session=True, **streams)
    try:
        _read_until(terminal, "ready> ")
        os.write(terminal, keys.encode())
        return _read_until(terminal, expected)
    finally:
        child.kill()
        child.wait()
        os.close(terminal)
        os.close(end)


def _read_until(terminal, expected, seconds=60):
    shown, end = "", time.monotonic() + seconds
    while expected not in shown and time.monotonic() < end:
        if select.select([terminal], [], [], 1)[0]:
            shown += os.read(terminal, 4096).decode(errors="replace")
    return shown


def test_fish_has_one_line_per_command_and_option(capsys):
    assert main(["completion", "fish"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("complete -c calibrant -n ") for line in lines)
    assert sum("__fish_use_subcommand" in line for line in lines) == len(COMMANDS)
    assert any("from list' -xa 'tasks methods" in line for line in lines)
    assert any("from audit' -l report -d" in line for line in lines)
