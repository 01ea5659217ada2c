"""Sample weights on the command line: read, stated, kept, refused where they mean nothing."""

import json
from pathlib import Path

import numpy as np
import pytest

from calibrant.cli import main


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(200, 3))
    labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(1)
    rows = [
        f"{a:.4f},{b:.4f},{c:.4f},{y},{i % 2},{w:.3f}"
        for i, ((a, b, c), y, w) in enumerate(
            zip(logits.tolist(), labels.tolist(), rng.uniform(0, 3, 200).tolist(), strict=True)
        )
    ]
    path = tmp_path / "valid.csv"
    path.write_text("\n".join(["logits_0,logits_1,logits_2,label,site,weight", *rows]) + "\n")
    return path


def test_audit_states_what_it_counts(table: Path, tmp_path: Path, capsys) -> None:
    report = tmp_path / "r.html"
    assert main(["audit", str(table), "--per", "site", "--report", str(report)]) == 0
    assert "Examples count by their sample weights" in capsys.readouterr().out
    assert report.stat().st_size > 10_000
    assert main(["audit", str(table), "--json", "--bootstrap", "0"]) == 0
    weighted = json.loads(capsys.readouterr().out)["audit"]
    assert main(["audit", str(table), "--json", "--bootstrap", "0", "--weights-column", ""]) == 0
    plain = json.loads(capsys.readouterr().out)["audit"]
    assert weighted["provenance"]["effective_n"] < 200
    assert "effective_n" not in plain["provenance"]
    assert weighted["measures"]["ece"]["value"] != plain["measures"]["ece"]["value"]


def test_fit_and_apply(table: Path, tmp_path: Path, capsys) -> None:
    fitted, out = tmp_path / "t.json", tmp_path / "out.csv"
    assert main(["fit", str(table), "--calibrator", "temperature", "-o", str(fitted)]) == 0
    assert main(["apply", str(fitted), str(table), "-o", str(out)]) == 0
    weights = [[line.split(",")[-1] for line in path.read_text().split()] for path in (table, out)]
    assert weights[0] == weights[1]
    capsys.readouterr()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["guarantee", "{}", "--target-risk", "0.2", "-o", "{}.p.json"], "takes no sample weights"),
        (
            ["fit", "{}", "--calibrator", "shift-aware", "-o", "{}.s.json"],
            "takes no sample weights",
        ),
        (["watch", "{}", "--weights-column", "weight"], "takes no --weights-column"),
        (["audit", "{}", "--weights-column", "mass"], "no column 'mass'"),
    ],
)
def test_others_refuse_in_one_line(table: Path, capsys, command: list[str], words: str) -> None:
    assert main([part.replace("{}", str(table)) for part in command]) == 2
    printed = capsys.readouterr().err
    assert words in printed
    assert len(printed.strip().splitlines()) == 1
