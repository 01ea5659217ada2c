"""A message about predictions of another kind says what to do with them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from calibrant import InputError, Predictions, audit
from calibrant.calibrators import Identity
from calibrant.claims import Claims
from calibrant.cli import main

TOP = "true_label,pred_label,confidence\ncat,cat,0.9\ndog,cat,0.6\n"


def refusal(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """Return the one line that a command is refused with."""
    assert main([str(word) for word in words]) == 2
    [line] = capsys.readouterr().err.strip().splitlines()
    return line


def saved(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_top_labels_where_all_classes_are_needed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    top = saved(tmp_path / "top.csv", TOP)
    valid, fitted = tmp_path / "valid.npz", tmp_path / "map.json"
    Predictions.from_logits([[1.0, 0.0], [0.0, 1.0]], [0, 1]).write(valid)
    Identity().fit(Predictions.read(valid)).save(fitted)
    for given, new in ((valid, top), (top, valid)):
        words = ("--valid", given, "--unlabelled", new, "-o", tmp_path / "new.json")
        line = refusal(capsys, "adapt", fitted, *words)
        assert "needs the scores of all classes, got top-label predictions" in line
        assert line.endswith("audit, compare, fit, apply, guarantee and watch take these.")


def test_labels_of_another_shape(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, scores = tmp_path / "p.npz", np.full((4, 2), 0.5)
    np.savez(path, probabilities=scores, labels=np.eye(2, dtype=int)[[0, 1, 1, 0]])
    line = refusal(capsys, "audit", path)
    assert "--kind multi-label" in line
    assert "labels.argmax(1)" in line
    np.savez(path, probabilities=scores, labels=np.zeros((4, 1), int))
    assert "labels.ravel()" in refusal(capsys, "audit", path)


def test_text_labels_of_one_score(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(tmp_path / "spam.csv", "label,y_prob\nspam,0.9\nham,0.2\n")
    assert "--positive LABEL" in refusal(capsys, "audit", path)


def test_a_score_above_one_is_in_the_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = saved(tmp_path / "p.csv", "y_true,y_prob\n1,0.9\n0,1.3\n")
    assert "1.3 at line 3" in refusal(capsys, "audit", path)


def test_entities_without_their_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = {"text": "Anna", "entities": [{"start": 0, "end": 4, "type": "PER", "score": 0.9}]}
    path = saved(tmp_path / "found.jsonl", json.dumps(record) + "\n")
    for command in ("audit", "guarantee"):
        more = ("--target-risk", 0.1, "-o", tmp_path / "x.json") if command == "guarantee" else ()
        assert "--entities PREDICTED GOLD" in refusal(capsys, command, path, *more)


def test_calibrators_of_entities_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = saved(tmp_path / "e.json", json.dumps({"signature": "calibrant entity calibrator"}))
    top = saved(tmp_path / "top.csv", TOP)
    assert "is a calibrant entity calibrator" in refusal(capsys, "watch", top, "--calibrator", path)


def test_labels_that_are_spelled_differently() -> None:
    found = audit(Claims.from_top_label(["LABEL_0", "LABEL_1"], [0.9, 0.8], ["0", "1"]))
    assert any("No prediction is right" in warning for warning in found.warnings)
    found = audit(Claims.from_top_label(["a", "b"], [0.9, 0.8], ["a", "a"]))
    assert found.warnings == ()


def test_many_labels_where_one_class_is_needed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.npz"
    np.savez(path, probabilities=np.full((4, 2), 0.5), labels=np.ones((4, 2), int))
    line = refusal(capsys, "watch", path, "--kind", "multi-label")
    assert "not many labels; audit, compare, fit and apply" in line


def test_many_labels_are_not_called_predictions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.npz"
    np.savez(path, probabilities=np.full((4, 2), 0.5), labels=np.eye(2, dtype=int)[[0, 1, 1, 0]])
    assert main(["audit", str(path), "--kind", "multi-label", "--bootstrap", "0"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("8 labels of 4 examples, 2 classes, 0 ignored")
    assert "Labels that apply" in printed
    assert "Accuracy" not in printed


def test_standard_input_of_arrays(tmp_path: Path) -> None:
    from calibrant.files.standard_input import suffix_of

    np.save(tmp_path / "p.npy", np.zeros(3))
    with pytest.raises(InputError, match="one npy array, without labels; name its file"):
        suffix_of((tmp_path / "p.npy").read_bytes())
    np.savez(tmp_path / "p.npz", logits=np.zeros(3))
    assert suffix_of((tmp_path / "p.npz").read_bytes()) == ".npz"
    torch = pytest.importorskip("torch")
    torch.save({"logits": torch.zeros(3)}, tmp_path / "p.pt")
    assert suffix_of((tmp_path / "p.pt").read_bytes()) == ".pt"
