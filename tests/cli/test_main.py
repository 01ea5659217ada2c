"""The command line as a whole: quick, quiet, and clear about what it lacks."""

import subprocess
import sys

import pytest

from calibrant import __version__
from calibrant.cli import COMMANDS, main

HEAVY = ("torch", "matplotlib", "transformers", "pyarrow", "sklearn", "numba", "scipy")


def loaded_by(code):
    """The heavy modules that a fresh interpreter has loaded after ``code``."""
    probe = f"{code}\nimport sys\nprint([m for m in {HEAVY} if m in sys.modules], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    return done.stderr.strip().splitlines()[-1]


def test_import_loads_numpy_alone():
    assert loaded_by("import calibrant, calibrant.metrics, calibrant.calibrators") == "[]"


def test_help_loads_numpy_alone():
    code = (
        "from calibrant.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass"
    )
    assert loaded_by(code) == "[]"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command, capsys):
    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    assert end.value.code == 0
    assert f"calibrant {command}" in capsys.readouterr().out


def test_version(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert __version__ in capsys.readouterr().out


def test_no_command_is_an_error(capsys):
    with pytest.raises(SystemExit) as end:
        main([])
    assert end.value.code == 2


def test_a_missing_extra_is_named(tmp_path):
    code = (
        "import sys\n"
        "sys.modules['pyarrow'] = None\n"
        "from calibrant.cli import main\n"
        f"sys.exit(main(['audit', {str(tmp_path / 'x.parquet')!r}]))"
    )
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert "pip install 'calibrant[files]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_reader_may_leave(tmp_path):
    code = "from calibrant.cli import main; import sys; sys.exit(main(['list', 'methods']))"
    shell = f'"{sys.executable}" -c "{code}" | true'
    done = subprocess.run(shell, shell=True, capture_output=True, text=True)
    assert "Traceback" not in done.stderr
