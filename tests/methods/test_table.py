"""The table of methods, and the command that prints it."""

import argparse
import json
import subprocess
import sys

import pytest

from calibrant.cli import list as list_command
from calibrant.errors import InputError
from calibrant.methods import METHODS, NOISES, Method, Noise, create

SHOWN = [name.replace("_", "-") for name in METHODS]


def run(*words):
    parser = argparse.ArgumentParser()
    list_command.add_parser(parser.add_subparsers())
    args = parser.parse_args(["list", *words])
    return args.run(args)


def test_every_name_makes_a_method():
    for name in METHODS:
        assert isinstance(create(name), Method), name


def test_every_row_says_what_it_is():
    for name, entry in {**METHODS, **NOISES}.items():
        assert len(entry.summary) > 5, name
        assert "\n" not in entry.summary
        assert entry.paper


def test_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(InputError, match="Did you mean 'focal'"):
        create("focall")


@pytest.mark.parametrize("noise", NOISES)
def test_parts_as_data(noise):
    method = create("head_noise", task={"name": "focal", "gamma": 1.0}, noise={"name": noise})
    assert method.task.gamma == 1.0
    assert isinstance(method.noise, Noise)


def test_several_parts_as_data():
    parts = [{"name": "error_regularization", "weight": 1.0}, {"name": "mmce"}]
    method = create("head_noise", with_=parts)
    assert [type(part).__name__ for part in method.with_] == ["ErrorRegularization", "Mmce"]
    assert method.passes == 4


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("avuc", {"warm_up": 0}),
        ("gamma_net_sece", {"clusters": 0}),
        ("gamma_net_dece", {"temperature": 0.0}),
        ("head_noise", {"noise": {"name": "mixture", "parts": 0}}),
        ("head_noise", {"noise": {"name": "matched", "refresh": 0}}),
        ("head_noise", {"noise": {"name": "matched", "momentum": 2.0}}),
        ("head_noise", {"noise": {"name": "shell", "momentum": 0.0}}),
    ],
)
def test_options_that_make_no_sense_are_refused(name, options):
    with pytest.raises(InputError, match=r"or more|up to 1"):
        create(name, **options)


def test_list_prints_a_row_for_each(capsys):
    assert run("methods") == 0
    firsts = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert [name for name in firsts if name in SHOWN] == SHOWN


def test_list_prints_json(capsys):
    assert run("methods", "--json") == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["name"] for row in rows] == SHOWN
    assert rows[0]["about"] == next(iter(METHODS.values())).summary


def test_listing_does_not_load_torch():
    code = (
        "import sys, argparse; from calibrant.cli.list import run;"
        "run(argparse.Namespace(kind='methods', json=True)); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_unknown_attribute():
    import calibrant.methods

    with pytest.raises(AttributeError, match="Nonsense"):
        _ = calibrant.methods.Nonsense
