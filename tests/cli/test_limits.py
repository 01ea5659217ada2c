"""Extreme numbers, missing packages, and data with nothing to find."""

import sys

import pytest

from calibrant.cli import main
from calibrant.errors import MissingExtraError
from calibrant.experiments.recipe_file import read_recipes

BIG = "99999999999"


@pytest.mark.parametrize(
    "option", ["--head-width", "--head-depth", "--epochs", "--batch", "--image-size"]
)
def test_a_number_beyond_all_measure_is_refused(option, tmp_path, capsys):
    pytest.importorskip("transformers")
    where = ["--data", "synthetic", "--model", "tiny", "-o", str(tmp_path / "run")]
    assert main(["train", *where, option, BIG]) == 2
    err = capsys.readouterr().err
    assert f"{option.removeprefix('--').replace('-', '_')} is at most" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("missing", ["torch", "transformers"])
def test_bench_names_what_it_lacks(missing, tmp_path, monkeypatch, capsys):
    (tmp_path / "grid.toml").write_text('[defaults]\ndata = "synthetic"\nmodel = "tiny"\n')
    monkeypatch.setitem(sys.modules, missing, None)
    command = ["bench", str(tmp_path / "grid.toml"), "-o", str(tmp_path / "runs")]
    assert main(command) == 2
    err = capsys.readouterr().err
    assert f"needs {missing}, which is not installed: pip install" in err
    assert "Traceback" not in err
    assert main([*command, "--dry-run"]) == 0


def test_a_recipe_names_what_reads_it(tmp_path, monkeypatch):
    (tmp_path / "grid.toml").write_text("")
    monkeypatch.setattr(sys, "version_info", (3, 10))
    monkeypatch.setitem(sys.modules, "tomli", None)
    with pytest.raises(MissingExtraError, match=r"needs tomli.*calibrant\[transformers\]"):
        read_recipes(tmp_path / "grid.toml")


def test_a_corpus_in_which_nothing_is_to_be_found(tmp_path, capsys):
    pytest.importorskip("transformers")
    for name in ("train", "dev", "test"):
        (tmp_path / f"{name}.conll").write_text("Anna\tO\nlives\tO\nhere\tO\n\n" * 8)
    command = [
        "train",
        "--data",
        str(tmp_path),
        "--model",
        "tiny",
        "--epochs",
        "1",
        "--device",
        "cpu",
    ]
    assert main([*command, "-o", str(tmp_path / "run")]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "Traceback" not in err
