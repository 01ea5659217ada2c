"""The command line as a whole: quick, quiet, and clear about what it lacks."""

import os
import re
import subprocess
import sys

import pytest

from calibrant import __version__
from calibrant.cli import COMMANDS, main
from calibrant.cli.list import KINDS

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


def test_a_wrong_choice_names_the_nearest_one(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["audit", "x.npz", "--closed", "rigth"])
    assert "(choose from" in (error := capsys.readouterr().err)
    assert "Did you mean 'right'? 'calibrant audit --help' shows the options." in error


@pytest.mark.parametrize("kind", KINDS)
def test_list_takes_one_or_many(kind, capsys):
    assert main(["list", kind]) == 0
    many = capsys.readouterr().out
    assert main(["list", kind.removesuffix("s")]) == 0
    assert capsys.readouterr().out == many


def test_list_suggests_the_nearest_kind(capsys):
    assert main(["list", "calibratr"]) == 2
    assert "Did you mean 'calibrators'?" in capsys.readouterr().err


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


def test_without_arguments_it_greets_with_four_commands_that_exist(capsys):
    assert main([]) == 0
    named = re.findall(r"^  calibrant (\w+)", capsys.readouterr().out, re.MULTILINE)
    assert len(named) == 4
    assert set(named) <= set(COMMANDS)


def test_options_without_a_command_are_an_error(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--json"])
    assert end.value.code == 2


def test_wrong_options_are_one_line(capsys):
    for arguments in (["audit"], ["audit", "x.csv", "--bins", "many"], ["audti"]):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert end.value.code == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        assert "--help" in err
    assert "Unknown command 'audti'. Did you mean 'audit'?" in err


def test_a_lack_of_memory_is_one_line(monkeypatch, capsys):
    def run(_):
        raise MemoryError("Unable to allocate 745. GiB for an array")

    monkeypatch.setattr("calibrant.cli.list.run", run)
    assert main(["list", "methods"]) == 2
    assert capsys.readouterr().err.startswith("calibrant list: out of memory (Unable to allocate")


def test_a_torchvision_of_another_torch_is_one_line(monkeypatch, capsys):
    """transformers says "Could not import module 'ModernBertFor…'", from an error that says why."""

    def run(_):
        try:
            raise RuntimeError("operator torchvision::nms does not exist")
        except RuntimeError as error:
            raise ModuleNotFoundError("Could not import module 'ModernBert'.") from error

    monkeypatch.setattr("calibrant.cli.list.run", run)
    assert main(["list", "methods"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("calibrant list: The torchvision that is installed was made for another")
    assert "torchvision::nms" in err


def test_a_defect_is_one_line_with_an_exit_code_of_its_own(monkeypatch, capsys):
    def run(_):
        raise RuntimeError("something\nelse" + "!" * 5000)

    monkeypatch.setattr("calibrant.cli.list.run", run)
    monkeypatch.delenv("CALIBRANT_DEBUG", raising=False)
    assert main(["list", "methods"]) == 70
    err = capsys.readouterr().err
    assert err.startswith("calibrant list: this is a defect of calibrant, not of your input")
    assert "RuntimeError: something else!" in err
    assert err.count("\n") == 1
    assert len(err) < 500
    monkeypatch.setenv("CALIBRANT_DEBUG", "1")
    with pytest.raises(RuntimeError, match="something"):
        main(["list", "methods"])


def test_a_refusal_of_the_system_is_one_line(monkeypatch, capsys):
    def run(_):
        raise PermissionError(13, "Permission denied", "secret.npz")

    monkeypatch.setattr("calibrant.cli.list.run", run)
    assert main(["list", "methods"]) == 2
    assert capsys.readouterr().err == "calibrant list: secret.npz: Permission denied.\n"


def test_a_poor_terminal_gets_what_it_can_show(tmp_path):
    (tmp_path / "p.jsonl").write_text('{"logits": {"\\ud800": 1.0, "b": 2.0}, "label": "b"}\n' * 30)
    for encoding in ("ascii", "utf-8"):
        done = subprocess.run(
            [sys.executable, "-m", "calibrant", "audit", str(tmp_path / "p.jsonl")],
            capture_output=True,
            env={**os.environ, "PYTHONIOENCODING": encoding},
        )
        assert done.returncode == 0, done.stderr
        assert b"30 examples" in done.stdout


@pytest.mark.parametrize("taken", ["a file", "nothing"])
def test_the_demo_writes_nothing_where_it_cannot_end(tmp_path, monkeypatch, capsys, taken):
    if taken == "a file":
        pytest.importorskip("torch")
        (tmp_path / "out").write_text("mine")
        assert main(["demo", "-o", str(tmp_path / "out")]) == 2
        assert "cannot be made" in capsys.readouterr().err
    else:
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        assert main(["demo", "-o", str(tmp_path / "out")]) == 2
        assert "pip install 'calibrant[demo]'" in capsys.readouterr().err
        assert not (tmp_path / "out").exists()


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


def test_options_are_not_abbreviated(capsys):
    """'evaluate RUN --data X' was taken for --data-dir, and measured on the run's own data."""
    with pytest.raises(SystemExit) as end:
        main(["evaluate", "run", "--data", "x"])
    assert end.value.code == 2
    # Python 3.14 names the option alone, earlier ones also what follows it.
    assert capsys.readouterr().err.replace("--data x.", "--data.") == (
        "calibrant evaluate: unknown: --data. Did you mean '--data-dir'? "
        "'calibrant evaluate --help' shows the options.\n"
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["--reprot", "x.html"], "--reprot x.html. Did you mean '--report'? "),
        (["--label", "y"], "--label y. Did you mean '--label-column'? "),  # Not '--labels'.
        (["--lable-column=y"], "--lable-column=y. Did you mean '--label-column'? "),
        (["--qqq"], "--qqq; "),
    ],
)
def test_an_unknown_option_names_the_nearest(given, expected, capsys):
    with pytest.raises(SystemExit):
        main(["audit", "p.csv", *given])
    help_ = "'calibrant audit --help' shows the options."
    assert capsys.readouterr().err == f"calibrant audit: unknown: {expected}{help_}\n"


def test_errors_are_one_line_without_escapes_of_the_terminal(tmp_path, capsys):
    name = str(tmp_path / "a\nb\x1b[31m\udcff.csv")
    assert main(["audit", name]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "a\\nb\\x1b[31m\\udcff.csv" in err
    with pytest.raises(SystemExit):
        main(["audit", "x.csv", "--nonsense", "a\nb"])
    assert "--nonsense a\\nb; " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("module", "words"),
    [("jaxtyping", "pip install 'calibrant[torch]'"), ("einops", "pip install einops")],
)
def test_a_missing_package_is_named_in_one_line(monkeypatch, capsys, module, words):
    """It is no defect: a model or a part of calibrant needs something that is not installed."""

    def fail(_):
        raise ModuleNotFoundError(f"No module named '{module}'", name=module)

    monkeypatch.setattr("calibrant.cli.list.run", fail)
    assert main(["list", "metrics"]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_letters_that_take_two_cells_do_not_shift_a_table():
    from calibrant.cli.table import render_table

    lines = render_table(["class", "n", "about"], [["猫", "1", "a"], ["dog", "12", "b"]], right=[1])
    assert lines.splitlines()[2:] == ["猫      1  a", "dog    12  b"]
