"""npy files with their label files, and pt files of torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrant import InputError, Predictions, Temperature
from calibrant.cli import main
from calibrant.files import Columns, fingerprints, read

PROBABILITIES = np.array([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]])
LABELS = np.array([0, 1, 1])


def save_pair(folder: Path, scores: str, labels: str) -> Path:
    np.save(folder / scores, np.asfortranarray(PROBABILITIES))
    np.save(folder / labels, LABELS)
    return folder / scores


@pytest.mark.parametrize(
    ("scores", "labels"),
    [
        ("probs.npy", "labels.npy"),
        ("test_probs.npy", "test_y_true.npy"),
        ("y_prob-dev.npy", "target-dev.npy"),
        ("run.1_predictions.npy", "run.1_ground_truth.npy"),
    ],
)
def test_pairs(tmp_path: Path, scores: str, labels: str) -> None:
    path = save_pair(tmp_path, scores, labels)
    for named in (path, [path, tmp_path / labels], [tmp_path / labels, path]):
        found = read(named)
        assert isinstance(found, Predictions)
        assert found.kind == "probabilities"
        assert np.array_equal(found.scores, PROBABILITIES)
        assert found.labels.tolist() == LABELS.tolist()


def test_pairs_do_not_mix(tmp_path: Path) -> None:
    save_pair(tmp_path, "probs.npy", "labels.npy")
    path = save_pair(tmp_path, "test_probs.npy", "test_labels.npy")
    np.save(tmp_path / "test_labels.npy", [1, 1, 0])
    found = read(path)
    assert isinstance(found, Predictions)
    assert found.labels.tolist() == [1, 1, 0]
    assert len(read([path, tmp_path / "probs.npy"])) == 6
    names = [Path(found.path).name for found in fingerprints(path)]
    assert names == ["test_probs.npy", "test_labels.npy"]


def test_scores_of_another_name_need_their_kind(tmp_path: Path) -> None:
    path = save_pair(tmp_path, "scores.npy", "labels.npy")
    with pytest.raises(InputError, match=r"it has scores, labels\. Name it"):
        read(path)
    assert len(read(path, Columns(probabilities="scores"))) == 3


def test_apply_writes_the_scores(tmp_path: Path) -> None:
    path = save_pair(tmp_path, "probs.npy", "labels.npy")
    valid = Predictions.from_probabilities(PROBABILITIES, LABELS)
    fitted = Temperature().fit(valid)
    fitted.save(tmp_path / "map.json")
    target = tmp_path / "honest_probs.npy"
    assert main(["apply", str(tmp_path / "map.json"), str(path), "-o", str(target)]) == 0
    assert np.allclose(np.load(target), fitted.transform(valid).scores)


def test_bad_npy(tmp_path: Path) -> None:
    path = save_pair(tmp_path, "a_logits.npy", "b_labels.npy")
    with pytest.raises(InputError, match=r"no labels for it.*test_labels\.npy"):
        read(path)
    np.save(tmp_path / "a_labels.npy", LABELS[:2])
    with pytest.raises(InputError, match="different length: logits has 3, labels has 2"):
        read(path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match="not a whole npy file"):
        read(path)
    np.save(path, np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="Python objects, which are never loaded"):
        read(path)
    np.save(path, np.array(3.0))
    with pytest.raises(InputError, match="a single number"):
        read(path)
    with pytest.raises(InputError, match=r"write \.npz instead"):
        Predictions.from_probabilities(PROBABILITIES, LABELS).write(tmp_path / "out.npy")


def test_pt_of_somebody_else(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    logits = torch.tensor(PROBABILITIES).log().bfloat16()
    content = {"logits": logits, "target": torch.tensor(LABELS), "epoch": 3}
    torch.save(content | {"label_names": ["cat", "dog"]}, tmp_path / "p.pt")
    found = read(tmp_path / "p.pt")
    assert isinstance(found, Predictions)
    assert np.array_equal(found.scores, logits.float().numpy())
    assert (found.names, found.labels.tolist()) == (("cat", "dog"), LABELS.tolist())
    Temperature().fit(found).save(tmp_path / "map.json")
    command = ["apply", tmp_path / "map.json", tmp_path / "p.pt", "-o", tmp_path / "q.pt"]
    assert main([str(word) for word in command]) == 0
    again = torch.load(tmp_path / "q.pt", weights_only=True)
    assert again["epoch"] == 3
    assert again["target"].tolist() == LABELS.tolist()


def test_bad_pt(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    many = torch.zeros(1, 2).expand(10**9, 2)
    cases: list[tuple[Any, str]] = [
        ((torch.zeros(2, 2), torch.zeros(2)), "a tuple without names; save a dict"),
        (torch.zeros(2, 2), "a Tensor without names"),
        (torch.nn.Linear(2, 2), "Python objects, which are never loaded; save a dict"),
        ({"weight": torch.zeros(2)}, "no column of logits or probabilities; it has weight"),
        ({"logits": many, "labels": torch.zeros(1)}, "repeats its values"),
    ]
    for content, words in cases:
        torch.save(content, tmp_path / "p.pt")
        with pytest.raises(InputError, match=words):
            read(tmp_path / "p.pt")
