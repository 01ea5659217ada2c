"""Columns of sample weights: found by name, kept, refused in one line."""

from pathlib import Path

import numpy as np
import pytest

from calibrant import Claims, InputError, Predictions, read
from calibrant.files import Columns, from_frame, rewrite, stream


def _csv(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["weight", "weights", "sample_weight", "sample_weights"])
def test_usual_names_are_known(tmp_path: Path, name: str) -> None:
    path = _csv(tmp_path / "a.csv", f"probability,label,{name}\n0.9,1,2\n0.2,0,0\n0.4,1,0.5\n")
    p = read(path)
    assert p.weights.tolist() == [2, 0.5]
    assert (p.ignored, p.rows.tolist(), list(p.groups)) == (1, [0, 2], [])


def test_top_labels_and_many_labels(tmp_path: Path) -> None:
    top = _csv(tmp_path / "a.csv", "pred_label,confidence,correct,weight\na,0.9,1,2\nb,0.2,0,3\n")
    assert read(top).weights.tolist() == [2, 3]
    frame = {"probabilities": [[0.9, 0.1], [0.2, 0.3]], "label": [[1, 0], [0, 1]], "weight": [1, 4]}
    many = from_frame(frame, kind="multi-label")
    assert many.weights.tolist() == [1, 1, 4, 4]


def test_another_name_and_none(tmp_path: Path) -> None:
    path = _csv(tmp_path / "a.csv", "probability,label,weight,w\n0.9,1,80,2\n0.2,0,60,1\n")
    assert read(path, Columns(weights="w")).weights.tolist() == [2, 1]
    for columns in (Columns(weights=""), Columns(groups=("weight",))):
        found = read(path, columns)
        assert found.weights is None
        assert found.groups["weight"].tolist() == [80, 60]


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (("1", "-2"), "line 3"),
        (("nan", "1"), "finite"),
        (("inf", "1"), "finite"),
        (("0", "0"), "weight 0"),
        (("a", "b"), "weight"),
    ],
)
def test_bad_weights_are_one_line(tmp_path: Path, cells: tuple[str, str], words: str) -> None:
    rows = "\n".join(f"0.9,1,{cell}" for cell in cells)
    path = _csv(tmp_path / "a.csv", f"probability,label,weight\n{rows}\n")
    with pytest.raises(InputError, match=words) as caught:
        read(path)
    assert "\n" not in str(caught.value)


def test_a_block_without_weight_is_no_error(tmp_path: Path) -> None:
    path = _csv(tmp_path / "a.csv", "probability,label,weight\n0.9,1,0\n0.8,1,0\n0.2,0,3\n")
    chunks = list(stream(path, rows=2))
    assert [len(chunk) for chunk in chunks] == [0, 1]
    whole = Predictions.concatenate(chunks)
    assert (whole.ignored, whole.weights.tolist()) == (2, [3])


def test_a_block_whose_weights_are_of_rows_without_a_label_is_no_error(tmp_path: Path) -> None:
    rows = "0.9,,2\n0.8,1,0\n0.7,-100,1\n0.6,0,0\n0.2,0,3\n"
    path = _csv(tmp_path / "a.csv", f"probability,label,weight\n{rows}")
    for size in (1, 2, 3, 4, 5):
        whole = Predictions.concatenate(list(stream(path, rows=size)))
        assert (whole.ignored, whole.unlabelled, whole.weights.tolist()) == (4, 1, [3])


def test_shards_have_weights_or_have_none(tmp_path: Path) -> None:
    one = _csv(tmp_path / "a.csv", "probability,label,weight\n0.9,1,2\n")
    other = _csv(tmp_path / "b.csv", "probability,label\n0.9,1\n")
    with pytest.raises(InputError, match=r"a.csv has sample weights, but .*b.csv has none"):
        read([one, other])
    assert len(read([one, other], Columns(weights="", groups=()))) == 2


def test_a_rewritten_file_keeps_every_row_and_weight(tmp_path: Path) -> None:
    path = _csv(tmp_path / "a.csv", "probability,label,weight\n0.9,1,0\n0.8,,2\n0.2,-100,-1\n")
    rewrite(path, tmp_path / "b.csv", lambda p: p)
    lines = (tmp_path / "b.csv").read_text().splitlines()
    assert [line.split(",")[2].strip('"') for line in lines] == ["weight", "0", "2", "-1"]


def test_claims_are_written_with_weights(tmp_path: Path) -> None:
    claims = Claims.from_top_label(["a", "b"], [0.9, 0.2], ["a", "a"], weights=[2, 0.5])
    for suffix in (".csv", ".npz", ".jsonl", ".parquet"):
        claims.write(tmp_path / f"c{suffix}")
        assert read(tmp_path / f"c{suffix}").weights.tolist() == [2, 0.5]


def test_a_group_may_not_be_taken_for_weights(tmp_path: Path) -> None:
    p = Predictions.from_probabilities([0.9], [1], groups={"weight": np.array([80.0])})
    with pytest.raises(InputError, match="may not be called 'weight'"):
        p.write(tmp_path / "p.npz")


@pytest.mark.parametrize("name", ["weight", "weights", "sample_weight", "sample_weights"])
def test_an_npy_of_weights_belongs_to_its_scores(tmp_path: Path, name: str) -> None:
    np.save(tmp_path / "test_probs.npy", [[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]])
    np.save(tmp_path / "test_labels.npy", [0, 1, 1])
    np.save(tmp_path / f"test_{name}.npy", [1.0, 0.0, 2.5])
    every = [tmp_path / f"test_{word}.npy" for word in ("probs", "labels", name)]
    for paths in (every[0], every, every[::-1]):
        assert read(paths).weights.tolist() == [1, 2.5]
    assert read(every[0], Columns(weights="")).weights is None
    np.save(every[2], [1.0, 2.0])
    with pytest.raises(InputError, match="different length"):
        read(every[0])
