"""``calibrant evaluate``: a table, a figure, JSON, and bad input in one line."""

import json

import pytest

from calibrant.cli import main


def test_a_table_and_a_figure(trained, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    folder, _, _ = trained
    command = ["evaluate", str(folder), "--device", "cpu", "--corrupt", "typos", "casing-3"]
    figure = tmp_path / "shift.svg"
    assert main([*command, "--figure", str(figure)]) == 0
    out = capsys.readouterr().out
    first = [line.split()[0] for line in out.splitlines() if line.strip()]
    assert first[2:9] == ["as", *(f"typos-{s}" for s in (1, 2, 3, 4, 5)), "casing-3"]
    assert f"Figure: {figure}" in out
    assert figure.read_text().startswith("<?xml")
    assert main([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    row = next(line.split() for line in out.splitlines() if line.startswith("typos-2"))
    numbers = told["results"]["identity"]["shift"]["typos-2"]
    assert row[1:4] == [f"{numbers[name]:.4f}" for name in ("entity_f1", "accuracy", "ece")]
    learned = list(told["results"].values())[-1]["entities"]["ece"]
    assert f"words: ECE {learned:.4f}" in out
    saved = json.loads((folder / "metrics.json").read_text())["results"]["identity"]["test"]
    assert told["results"]["identity"]["test"] == pytest.approx(saved, abs=1e-5)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--figure", "x.png"], "name some with --corrupt"),
        (["--corrupt", "typos", "--figure", "x.doc"], "A figure is .png, .svg or .pdf"),
        (["--corrupt", "jpeg-3"], "Unknown corruption 'jpeg'. Known: casing, "),
        (["none.conll"], "Unknown corpus 'none.conll'"),
    ],
)
def test_bad_input(trained, capsys, more, message):
    assert main(["evaluate", str(trained[0]), *more]) == 2
    assert message in capsys.readouterr().err
