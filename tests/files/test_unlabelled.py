"""Files with some or all labels missing."""

import json

import numpy as np
import pytest

from calibrant import InputError, Predictions
from calibrant.files import Columns, stream_unlabelled

SCORES = [[0.9, 0.1], [0.2, 0.8], [0.3, 0.7]]


def read(path, **options):
    return Predictions.concatenate(stream_unlabelled(path, **options))


def write(tmp_path, suffix, labels):
    """A file of three rows; ``labels`` is None for no column."""
    path = tmp_path / f"new{suffix}"
    if suffix == ".npz":
        more = {} if labels is None else {"labels": np.array(labels, float)}
        np.savez(path, probabilities=np.array(SCORES), day=np.array([1, 1, 2]), **more)
    elif suffix == ".jsonl":
        rows = [{"day": d, "probabilities": p} for d, p in zip((1, 1, 2), SCORES, strict=True)]
        for row, label in zip(rows, labels or (), strict=False):
            row["label"] = label
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif suffix == ".csv":
        head = "day,probabilities_0,probabilities_1" + (",label" if labels else "")
        rows = [f"{d},{p[0]},{p[1]}" for d, p in zip((1, 1, 2), SCORES, strict=True)]
        if labels:
            rows = [f"{r},{'' if v is None else v}" for r, v in zip(rows, labels, strict=True)]
        path.write_text("\n".join([head, *rows]) + "\n")
    else:
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame({"day": [1, 1, 2], "probabilities": SCORES})
        if labels:
            frame["label"] = pandas.array(labels, dtype="Int64")
        frame.to_parquet(path)
    return path


formats = pytest.mark.parametrize("suffix", [".npz", ".jsonl", ".csv", ".parquet"])


@formats
def test_no_labels_at_all(tmp_path, suffix):
    found = read(write(tmp_path, suffix, None))
    assert found.groups["labelled"].tolist() == [False] * 3
    assert found.groups["day"].tolist() == [1, 1, 2]
    np.testing.assert_allclose(found.scores, SCORES)


@formats
def test_some_labels_are_missing(tmp_path, suffix):
    found = read(write(tmp_path, suffix, [None, 1, None]))
    assert found.groups["labelled"].tolist() == [False, True, False]
    assert found.labels[1] == 1
    assert found.ignored == 0


@formats
def test_ignored_rows_are_dropped_and_gaps_are_not(tmp_path, suffix):
    found = read(write(tmp_path, suffix, [-100, None, 0]))
    assert found.groups["labelled"].tolist() == [False, True]
    assert found.ignored == 1


def test_names_a_class_called_none_and_the_line_of_a_wrong_label(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("probabilities:none,probabilities:some,label\n0.9,0.1,none\n0.2,0.8,\n")
    found = read(path)
    assert found.names == ("none", "some")
    assert found.groups["labelled"].tolist() == [True, False]
    path.write_text("probabilities:none,probabilities:some,label\n0.9,0.1,\n0.2,0.8,cow\n")
    with pytest.raises(InputError, match=r"'cow' in column 'label'.* at line 3"):
        read(path)


def test_written_again_and_read_again(tmp_path):
    found = read(write(tmp_path, ".csv", [None, 1, None]))
    found.write(tmp_path / "again.npz")
    assert read(tmp_path / "again.npz").groups["labelled"].tolist() == [False, True, False]


def test_words_of_sentences_and_blocks(tmp_path):
    np.savez(tmp_path / "words.npz", logits=np.zeros((2, 3, 4)))
    found = read(tmp_path / "words.npz")
    assert found.groups["sentence"].tolist() == [0, 0, 0, 1, 1, 1]
    assert not found.groups["labelled"].any()
    path = write(tmp_path, ".csv", [None, 1, None])
    parts = list(stream_unlabelled(path, rows=1))
    assert [len(part) for part in parts] == [1, 1, 1]


def test_bad_input(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("day,p\n1,0.9\n")
    with pytest.raises(InputError, match="no column of logits or probabilities"):
        read(path)
    assert read(path, columns=Columns(probabilities="p")).classes == 2
    with pytest.raises(InputError, match="no column 'gold'"):
        read(path, columns=Columns(probabilities="p", label="gold"))
    with pytest.raises(InputError, match="rows"):
        stream_unlabelled(path, rows=0)
