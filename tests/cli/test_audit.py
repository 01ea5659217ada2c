"""``calibrant audit`` as a person and as a program uses it."""

import io
import json
import os
import shlex
import shutil

import numpy as np
import pytest

from calibrant import Predictions, audit
from calibrant.calibrators import Temperature
from calibrant.cli import main
from calibrant.files.standard_input import standard_input
from calibrant.metrics import ece
from calibrant.metrics.selective import threshold_text

QUICK = ["--bootstrap", "20"]


@pytest.fixture
def predictions():
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 400)
    logits = 4 * (random.normal(size=(400, 3)) + np.eye(3)[labels])
    return Predictions.from_logits(logits, labels, label_names=["ant", "bee", "<script>cat"])


@pytest.fixture
def file(predictions, tmp_path):
    predictions.write(tmp_path / "dev.npz")
    return str(tmp_path / "dev.npz")


def test_prints_a_table(file, capsys):
    assert main(["audit", file, "--bootstrap", "50"]) == 0
    out = capsys.readouterr().out
    assert "400 examples, 3 classes, 0 ignored" in out
    assert "Overconfident" in out
    assert "what it means" in out
    assert f"\nNext: calibrant compare VALID {file} " in out


def test_after_a_calibrator_the_next_command_applies_it(file, predictions, tmp_path, capsys):
    saved = tmp_path / "my map.json"
    Temperature().fit(predictions).save(saved)
    assert main(["audit", file, "--calibrator", str(saved), *QUICK]) == 0
    assert f"\nNext: calibrant apply '{saved}' {file} -o OUTPUT " in capsys.readouterr().out


def test_the_next_command_has_the_options_about_columns(tmp_path, capsys, monkeypatch):
    path = tmp_path / "my log.csv"
    path.write_text("s,p,t\n0.9,a,a\n0.8,b,a\n0.7,a,a\n")
    given = ["--label-column", "t", "--predicted-column", "p", "--confidence-column", "s"]
    assert main(["audit", str(path), *given, "--bootstrap", "0"]) == 0
    (line,) = [x for x in capsys.readouterr().out.splitlines() if x.startswith("Next: ")]
    command = shlex.split(line.partition("#")[0])[2:]
    command[command.index("VALID")] = str(path)
    assert main([*command, "--force", "--bootstrap", "0", "--calibrators", "platt"]) == 0
    standard_input.cache_clear()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    capsys.readouterr()
    assert main(["audit", "-", *given, "--bootstrap", "0"]) == 0
    assert "\nNext: calibrant compare VALID FILE --" in capsys.readouterr().out


def test_a_corpus_is_no_file_of_predictions(tmp_path, capsys):
    (tmp_path / "x.conll").write_text("Paris B-LOC\n")
    assert main(["audit", str(tmp_path / "x.conll")]) == 2
    error = capsys.readouterr().err
    assert "words and tags" in error
    assert "calibrant train" in error
    assert "calibrant evaluate" in error


def test_json(file, predictions, capsys):
    assert main(["audit", file, "--json", "--bootstrap", "50", "--bins", "10"]) == 0
    document = json.loads(capsys.readouterr().out)["audit"]
    assert document["measures"]["ece"]["value"] == pytest.approx(ece(predictions, 10))
    assert document["provenance"]["files"][0]["sha256"]
    assert document["provenance"]["bins"] == 10


def test_report(file, tmp_path, capsys):
    page = tmp_path / "out.html"
    assert main(["audit", file, "--report", str(page), "--bootstrap", "0"]) == 0
    assert "<script>cat" not in page.read_text()
    assert "&lt;script&gt;cat" in page.read_text()
    assert main(["audit", file, "--report", str(page), "--bootstrap", "0"]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert main(["audit", file, "--report", str(page), "--bootstrap", "0", "--overwrite"]) == 0


def test_what_is_read_is_never_written_over(file, tmp_path, capsys):
    before = (tmp_path / "dev.npz").read_bytes()
    for command in (["audit", file, "--report", file], ["fit", file, "-o", file]):
        assert main([*command, "--overwrite"]) == 2
        assert "cannot overwrite itself" in capsys.readouterr().err
    assert (tmp_path / "dev.npz").read_bytes() == before


def test_a_device_is_not_replaced(file, tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    assert main(["audit", file, "--report", str(tmp_path / "pipe"), "--overwrite"]) == 2
    assert "device or a pipe" in capsys.readouterr().err
    assert (tmp_path / "pipe").is_fifo()


def test_json_has_no_constants_that_json_lacks(tmp_path, capsys):
    p = Predictions.from_probabilities(
        [[1.0, 0.0], [0.4, 0.6]], [1, 1], groups={"x": [np.inf, np.nan]}
    )
    p.write(tmp_path / "p.npz")
    assert main(["audit", str(tmp_path / "p.npz"), "--json", "--bootstrap", "20"]) == 0
    document = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)["audit"]
    assert document["mistakes"][0]["groups"] == {"x": "inf"}


def test_before_and_after(file, predictions, tmp_path, capsys):
    Temperature().fit(predictions).save(tmp_path / "map.json")
    assert main(["audit", file, "--calibrator", str(tmp_path / "map.json"), "--json", *QUICK]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["map"] == "temperature"
    before, after = (document[part]["measures"]["nll"]["value"] for part in ("audit", "after"))
    assert after < before


def test_several_files_are_one(file, predictions, tmp_path, capsys):
    predictions[:150].write(tmp_path / "a.npz")
    predictions[150:].write(tmp_path / "b.npz")
    assert main(["audit", str(tmp_path / "a.npz"), str(tmp_path / "b.npz"), "--json", *QUICK]) == 0
    parts = json.loads(capsys.readouterr().out)["audit"]["measures"]
    assert main(["audit", file, "--json", *QUICK]) == 0
    whole = json.loads(capsys.readouterr().out)["audit"]["measures"]
    for name, measure in whole.items():
        assert parts[name]["value"] == pytest.approx(measure["value"]), name


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["missing.npz"], "no such file"),
        (["dev.npz", "--label-column", "gold"], "gold"),
        (["dev.npz", "--bins", "0"], "bins"),
        (["dev.npz", "--keep-together", "sentence"], "sentence"),
        (["dev.npz", "--per", "sentence"], "sentence"),
        (["dev.npz", "--calibrator", "missing.json"], "missing.json"),
        (["dev.npz", "--report", "nowhere/x.html"], "nowhere"),
        (["dev.npz", "--level", "2"], "level"),
        (["dev.npz", "--bootstrap", "-1"], "replicate"),
    ],
)
def test_bad_input_is_one_line(file, tmp_path, monkeypatch, capsys, arguments, says):
    monkeypatch.chdir(tmp_path)
    assert main(["audit", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("calibrant audit: ")
    assert captured.err.count("\n") == 1
    assert says in captured.err


def test_a_map_for_other_classes_is_refused(file, tmp_path, capsys):
    other = Predictions.from_probabilities([0.9, 0.2, 0.6], [1, 0, 0], label_names=["no", "yes"])
    Temperature().fit(other).save(tmp_path / "map.json")
    assert main(["audit", file, "--calibrator", str(tmp_path / "map.json")]) == 2
    assert "classes" in capsys.readouterr().err


def test_folder_of_shards(predictions, tmp_path, capsys):
    pytest.importorskip("pyarrow")
    (tmp_path / "shards").mkdir()
    for i, part in enumerate(predictions.chunks(100)):
        part.write(tmp_path / "shards" / f"{i}.parquet")
    assert main(["audit", str(tmp_path / "shards"), "--bootstrap", "0"]) == 0
    assert "400 examples" in capsys.readouterr().out
    shutil.rmtree(tmp_path / "shards")


def test_the_threshold_of_each_risk_is_shown(capsys, tmp_path):
    """In the terminal, the document and the report; of entities where labels are tags."""
    random = np.random.default_rng(0)
    confidence = random.uniform(0.5, 1, 400)
    labels = (random.random(400) < confidence).astype(int)
    p = Predictions.from_probabilities(confidence, labels)
    p.write(tmp_path / "p.npz")
    found = audit(p, bootstrap=0)
    assert [point.risk for point in found.at_risk] == [0.01, 0.02, 0.05, 0.1, 0.2]
    point = found.at_risk[3]
    kept = confidence >= point.threshold
    assert kept.mean() == point.coverage
    assert (labels[kept] == 0).mean() <= 0.1
    report = tmp_path / "report.html"
    assert (
        main(["audit", str(tmp_path / "p.npz"), "--bootstrap", "0", "--report", str(report)]) == 0
    )
    assert threshold_text(point.threshold) in capsys.readouterr().out
    assert "From confidence" in report.read_text()
    assert f">{threshold_text(point.threshold)}<" in report.read_text()
    tags = Predictions.from_probabilities(confidence, labels, label_names=["O", "B-X"])
    view = audit(tags, bootstrap=0).entities
    assert view.at_risk[3].threshold == point.threshold
