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
    printed = json.loads(capsys.readouterr().out)
    row = next(line.split() for line in out.splitlines() if line.startswith("typos-2"))
    results = {row["calibrator"]: row for row in printed["results"]}
    numbers = results["identity"]["shift"]["typos-2"]
    assert row[1:4] == [f"{numbers[name]:.4f}" for name in ("entity_f1", "accuracy", "ece")]
    learned = results[printed["calibrator"]]["entities"]["ece"]
    assert f"words: ECE {learned:.4f}" in out
    saved = json.loads((folder / "metrics.json").read_text())["results"]["identity"]["test"]
    measured = results["identity"]["test"]
    assert {name: measured[name] for name in saved} == pytest.approx(saved, abs=1e-5)


def test_words_of_types_that_the_run_does_not_know_are_counted(trained, tmp_path, capsys):
    """They are in no number, and the command says how many they are."""
    path = tmp_path / "a.conll"
    path.write_text("Anna\tB-PER\nsings\tO\n\nA\tB-DISEASE\nflu\tI-DISEASE\n")
    assert main(["evaluate", str(trained[0]), str(path), "--device", "cpu"]) == 0
    note = "2 words are left out of all numbers: the run knows no type DISEASE."
    assert note in capsys.readouterr().err


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


def run_evaluate(results, tmp_path, monkeypatch, capsys):
    """What the command prints and draws of made-up results."""
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("calibrant.experiments.evaluation.evaluate", lambda *_, **__: results)
    figure = tmp_path / "shift.svg"
    corrupt = ["--corrupt", "typos-2", "--figure", str(figure)]
    assert main(["evaluate", "run", *corrupt]) == 0
    return capsys.readouterr().out, figure.read_text()


@pytest.mark.parametrize("chosen", ["identity", "isotonic"])
def test_table_and_figure_are_of_the_map_of_the_run(tmp_path, monkeypatch, capsys, chosen):
    def numbers(ece):
        return {"accuracy": 0.5, "ece": ece, "nll": 1.0, "aurc": 0.2, "auroc": 0.7}

    made = {
        name: {"test": numbers(ece), "shift": {"typos-2": numbers(2 * ece)}}
        for name, ece in (("identity", 0.11), ("temperature", 0.13), ("isotonic", 0.17))
    }
    made[chosen]["entities"] = {"examples": 9, "reduction": "product", "ece": 0.0123}
    results = {**{name: made[name] for name in made if name != chosen}, chosen: made[chosen]}
    out, figure = run_evaluate(results, tmp_path, monkeypatch, capsys)
    assert "ECE 0.0123 (data as it is)\n" in out
    row = next(line.split() for line in out.splitlines() if line.startswith("typos-2"))
    if chosen == "identity":
        assert row == ["typos-2", "0.5000", "0.2200", "1.0000", "0.2000", "0.7000"]
        assert "(C)" not in out
        assert "The run's calibrator is the identity" in out
        assert "ECE with temperature" in figure
    else:
        assert row[:4] == ["typos-2", "0.5000", "0.2200", "0.3400"]
        assert "(C): with the calibrator of the run, isotonic," in out
        assert "ECE with isotonic" in figure
