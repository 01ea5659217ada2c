"""``calibrant doctor`` finds what is there, what is missing and what is broken."""

import json
import re
from importlib import metadata
from pathlib import Path

import pytest

from calibrant.cli import doctor, main

ROOT = Path(__file__).parents[2]
NO_USE_OF_THEIR_OWN = {"all", "demo", "dev", "docs"}  # Sums of others, and what developers need.


def found(capsys):
    code = main(["doctor", "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_every_extra_is_explained():
    section = (ROOT / "pyproject.toml").read_text().split("[project.optional-dependencies]")[1]
    names = set(re.findall(r"^([\w-]+) = \[", section.split("\n[")[0], re.MULTILINE))
    assert set(doctor.EXTRAS) == names - NO_USE_OF_THEIR_OWN


def test_what_works_here(capsys, tmp_path, monkeypatch):
    (tmp_path / "ner").mkdir()
    monkeypatch.setenv("CALIBRANT_DATA", str(tmp_path))
    monkeypatch.setenv("CALIBRANT_KERNELS", "numpy")
    code, report = found(capsys)
    states = {check["name"]: check["state"] for check in report["checks"]}
    assert code == 0
    assert report["works"]
    assert states["NumPy"] == states["CALIBRANT_DATA"] == "ok"
    assert states["kernels"] == "none"


def test_compiled_kernels_are_tried_and_the_choice_is_kept(monkeypatch):
    pytest.importorskip("numba")
    monkeypatch.setenv("CALIBRANT_KERNELS", "auto")
    (check,) = doctor._kernels()
    assert check.state == "ok"
    assert doctor.os.environ["CALIBRANT_KERNELS"] == "auto"


def test_a_data_directory_that_is_not_there_is_broken(capsys, monkeypatch):
    monkeypatch.setenv("CALIBRANT_DATA", "no/such/folder")
    monkeypatch.setenv("CALIBRANT_KERNELS", "numpy")
    code, report = found(capsys)
    assert code == 1
    assert not report["works"]
    assert main(["doctor"]) == 1
    assert re.search(r"CALIBRANT_DATA +BROKEN +FileNotFoundError", capsys.readouterr().out)


def test_missing_and_old_packages_of_an_extra(monkeypatch):
    versions = {"pyarrow": "14.0.2", "matplotlib": "3.10.0+local"}
    monkeypatch.setattr(doctor, "_version", versions.get)
    lines = ["pyarrow>=15; extra == 'files'", "matplotlib>=3.8; extra == 'plots'"]
    lines += [
        "torch>=2.4; extra == 'torch'",
        "old>=1; (python_version < '3.10') and extra == 'torch'",
    ]
    monkeypatch.setattr(metadata, "requires", lambda _: lines)
    extras = {extra.name: extra for extra in doctor._extras()}
    assert extras["files"].too_old == ["pyarrow"]
    assert extras["plots"].complete
    assert extras["torch"].missing == ["torch"]
    assert doctor._extra_cells(extras["files"])[1] == "partly there"
    assert "lacks torch: pip install 'calibrant[torch]'" in doctor._extra_cells(extras["torch"])[2]


def test_a_source_tree_that_was_never_installed(monkeypatch, capsys):
    def requires(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", requires)
    monkeypatch.setenv("CALIBRANT_KERNELS", "numpy")
    monkeypatch.delenv("CALIBRANT_DATA", raising=False)
    assert found(capsys)[1]["extras"] == []
