"""A stopped command ends with 130 or 143 and no message; closed streams do no harm."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from calibrant import Predictions

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs signals")

# A program that runs a command whose work is ``{work}``.
PROGRAM = """
import sys, time
from calibrant.__main__ import main
import calibrant.cli.list
def wait():  # Not one long sleep: a signal just before it begins would be seen at its end.
    for _ in range(600):
        time.sleep(0.05)
def run(args):
    {work}
    return 0
calibrant.cli.list.run = run
sys.argv = ["calibrant", "list", "methods"]
sys.exit(main())
"""


def stopped(work, number=signal.SIGINT, times=1, **given):
    """The exit code of the work, stopped when it prints, and what it printed."""
    code = PROGRAM.format(work=work.replace("\n", "\n    "))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # Interrupts may be ignored here, as they are for a job in the background of a shell.
    given.setdefault("preexec_fn", lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    with subprocess.Popen([sys.executable, "-c", code], **pipes, **given) as process:
        assert process.stdout.readline() == b"begun\n"
        for _ in range(times):
            process.send_signal(number)
            time.sleep(0.3)  # Two that wait together are one.
        return process.wait(20), process.stderr.read()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_work_is_stopped(number, code):
    assert stopped("print('begun', flush=True); wait()", number) == (code, b"")


def test_what_swallows_the_first_does_not_swallow_the_second():
    work = "try:\n    print('begun', flush=True); wait()\nexcept BaseException:\n    wait()"
    assert stopped(work, times=2) == (130, b"")


@pytest.mark.parametrize("caught", ["ImportError", "BaseException"])
def test_an_interrupt_while_a_module_is_imported_is_not_swallowed(tmp_path, caught):
    """transformers and numba go on without what they could not import."""
    (tmp_path / "slow.py").write_text(
        "import time\nprint('begun', flush=True)\nfor _ in range(600):\n    time.sleep(0.05)\n"
    )
    (tmp_path / "outer.py").write_text(
        f"try:\n    import slow\nexcept {caught}:\n    slow = None\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    assert stopped("import outer; print('went on')", env=environment) == (130, b"")


def test_an_interrupt_where_nothing_can_be_raised_is_not_lost():
    work = (
        "class Last:\n    def __del__(self):\n        print('begun', flush=True)\n"
        "        wait()\nlast = Last()\ndel last\nprint('went on')"
    )
    assert stopped(work) == (130, b"")


def test_an_error_caused_by_the_interrupt_is_not_printed():
    work = (
        "try:\n    print('begun', flush=True); wait()\n"
        "except KeyboardInterrupt:\n    raise RuntimeError('a library gave up') from None"
    )
    code, printed = stopped(work)
    assert code == 130
    assert b"Traceback" not in printed


def test_what_is_unfinished_goes(tmp_path):
    work = (
        "from calibrant.outputs import new_file\n"
        "with new_file('a.txt') as own:\n    print('begun', flush=True); wait()"
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        assert stopped(work, number, cwd=tmp_path)[0] == 128 + number
        assert not list(tmp_path.iterdir())


def test_who_started_it_to_ignore_interrupts_is_obeyed():
    """As nohup does, or a shell for what runs in the background."""
    code = PROGRAM.format(work="print('begun', flush=True); time.sleep(1)")
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    ) as process:
        assert process.stdout.readline() == b"begun\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


@pytest.mark.parametrize("closed", [[0], [1], [2], [0, 1, 2]])
def test_closed_streams(tmp_path, closed):
    """The file that is written does not become standard output or standard error."""
    rng = np.random.default_rng(0)
    Predictions.from_logits(rng.normal(size=(50, 3)), rng.integers(0, 3, 50)).write(
        tmp_path / "p.csv"
    )
    done = subprocess.run(
        [sys.executable, "-m", "calibrant", "fit", "p.csv", "-o", "m.json"],
        cwd=tmp_path,
        capture_output=True,
        preexec_fn=lambda: [os.close(number) for number in closed],
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "m.json").read_text().startswith('{\n "signature"')
    wrong = subprocess.run(
        [sys.executable, "-m", "calibrant", "fit", "none.csv", "-o", "n.json"],
        cwd=tmp_path,
        capture_output=True,
        preexec_fn=lambda: [os.close(number) for number in closed],
    )
    assert wrong.returncode == 2
    assert b"Traceback" not in wrong.stdout + wrong.stderr
