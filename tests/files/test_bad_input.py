"""Every bad file gets one clear line that names it, and says where and what."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calibrant import InputError, Predictions
from calibrant.files import Columns, arrow_text, read, rewrite, stream, suffixes, write

LOGITS = np.array([[2.0, 0.0, 1.0], [0.0, 1.0, 3.0], [3.0, 0.0, 0.5], [0.1, 0.2, 0.3]])
LABELS = np.array([0, 1, 2, 1])


def save(path: Path, columns: dict[str, Any]) -> Path:
    """A file as another program would write it, without calibrant."""
    if path.suffix == ".npz":
        np.savez(path, **columns)
    elif path.suffix == ".parquet":
        lists = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in columns.items()}
        pq.write_table(pa.table(lists), path)
    elif path.suffix == ".safetensors":
        from safetensors.numpy import save_file

        save_file({k: np.ascontiguousarray(v) for k, v in columns.items()}, path)
    elif path.suffix == ".jsonl":
        lists = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in columns.items()}
        rows = [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        table = {}
        for key, value in columns.items():
            wide = np.ndim(value) == 2
            table.update(
                {f"{key}_{k}": c for k, c in enumerate(np.transpose(value))}
                if wide
                else {key: value}
            )
        lines = [
            ",".join(table),
            *(",".join(map(str, row)) for row in zip(*table.values(), strict=True)),
        ]
        path.write_text("\n".join(lines) + "\n")
    return path


def message(call: Callable[[], object]) -> str:
    with pytest.raises(InputError) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    # No traceback of a library below.
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    return text


PLAIN = [".parquet", ".npz", ".safetensors", ".csv", ".jsonl"]


def place(suffix: str, row: int) -> str:
    """How the file counts: rows from 0, lines from 1, in csv after the header."""
    return {".csv": f"line {row + 2}", ".jsonl": f"line {row + 1}"}.get(suffix, f"row {row}")


@pytest.mark.parametrize("rows", [1, 2, None])
@pytest.mark.parametrize("suffix", PLAIN)
def test_label_outside_the_classes(tmp_path: Path, suffix: str, rows: int | None) -> None:
    labels = np.array([-100, 0, 1, 7])  # The ignored row counts as a row of the file.
    path = save(tmp_path / f"p{suffix}", {"logits": LOGITS, "label": labels})
    text = message(lambda: list(stream(path, rows=rows)))
    assert text == (
        f"{path}: Label 7 at {place(suffix, 3)} is outside 0..2 (K = 3 columns); "
        "−100 marks examples to ignore."
    )


@pytest.mark.parametrize("suffix", PLAIN)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_not_finite(tmp_path: Path, suffix: str, value: float) -> None:
    logits = LOGITS.copy()
    logits[2, 1] = value
    path = save(tmp_path / f"p{suffix}", {"logits": logits, "label": np.array([0, -100, 1, 1])})
    for rows in (1, None):
        text = message(lambda rows=rows: list(stream(path, rows=rows)))
        assert text.startswith(f"{path}: Logits must be finite, got {value} at")
        assert f"{place(suffix, 2)}, column 1" in text


@pytest.mark.parametrize("suffix", PLAIN)
def test_masked_options(tmp_path: Path, suffix: str) -> None:
    logits = LOGITS.copy()
    logits[2, 1] = -np.inf
    path = save(tmp_path / f"p{suffix}", {"logits": logits, "label": LABELS})
    assert np.array_equal(read(path).scores, logits)
    logits[2] = -np.inf
    path = save(tmp_path / f"q{suffix}", {"logits": logits, "label": LABELS})
    text = message(lambda: read(path))
    assert "at least one in a row must be finite" in text
    assert place(suffix, 2) in text


@pytest.mark.parametrize("suffix", PLAIN)
def test_not_finite_where_ignored_is_no_error(tmp_path: Path, suffix: str) -> None:
    logits = LOGITS.copy()
    logits[1, 1] = np.nan
    path = save(tmp_path / f"p{suffix}", {"logits": logits, "label": np.array([0, -100, 1, 1])})
    assert repr(read(path)) == "Predictions(n=3, classes=3, kind='logits', ignored=1)"


@pytest.mark.parametrize("suffix", PLAIN)
def test_probabilities_that_do_not_sum_to_one(tmp_path: Path, suffix: str) -> None:
    p = np.array([[0.5, 0.5], [0.5, 0.5], [0.5, 0.4]])
    path = save(tmp_path / f"p{suffix}", {"probabilities": p, "label": np.array([0, 1, 1])})
    assert f"{place(suffix, 2)} sums to 0.9" in message(lambda: read(path))


@pytest.mark.parametrize("suffix", PLAIN)
def test_logits_called_probabilities(tmp_path: Path, suffix: str) -> None:
    path = save(tmp_path / f"p{suffix}", {"probabilities": LOGITS, "label": LABELS})
    text = message(lambda: read(path))
    assert "must be in 0..1, got 2 at" in text
    assert place(suffix, 0) in text


@pytest.mark.parametrize("suffix", PLAIN)
def test_one_class(tmp_path: Path, suffix: str) -> None:
    path = save(tmp_path / f"p{suffix}", {"logits": LOGITS[:, :1], "label": LABELS * 0})
    assert "at least 2 classes, got 1 column" in message(lambda: read(path))


@pytest.mark.parametrize("suffix", PLAIN)
def test_no_rows(tmp_path: Path, suffix: str) -> None:
    if suffix == ".parquet":
        schema = pa.schema({"logits": pa.list_(pa.float32()), "label": pa.int64()})
        pq.write_table(schema.empty_table(), tmp_path / "p.parquet")
    else:
        save(tmp_path / f"p{suffix}", {"logits": LOGITS[:0], "label": LABELS[:0]})
    text = message(lambda: read(tmp_path / f"p{suffix}"))
    assert "no rows" in text


@pytest.mark.parametrize("suffix", PLAIN)
def test_all_rows_ignored(tmp_path: Path, suffix: str) -> None:
    path = save(tmp_path / f"p{suffix}", {"logits": LOGITS, "label": np.full(4, -100)})
    assert message(lambda: read(path)) == (
        f"{path}: all 4 rows are labelled −100, which marks rows to ignore."
    )
    assert "no rows" not in message(lambda: list(stream(path, rows=1)))


@pytest.mark.parametrize("suffix", suffixes())
def test_missing_file(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"valid{suffix}").touch()
    text = message(lambda: read(tmp_path / f"valit{suffix}"))
    assert text.startswith(f"{tmp_path / f'valit{suffix}'}: no such file. Did you mean")
    assert "no folder" in message(lambda: read(tmp_path / "none" / f"p{suffix}"))


@pytest.mark.parametrize("suffix", suffixes())
def test_empty_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"p{suffix}"
    path.touch()
    assert message(lambda: read(path)).startswith(f"{path}: ")


@pytest.mark.parametrize("suffix", [".parquet", ".npz", ".safetensors", ".csv.gz", ".jsonl.gz"])
def test_truncated_and_damaged(tmp_path: Path, suffix: str) -> None:
    rng = np.random.default_rng(0)
    whole = tmp_path / f"whole{suffix}"
    Predictions.from_logits(rng.normal(size=(5000, 3)), rng.integers(0, 3, 5000)).write(whole)
    data = whole.read_bytes()
    path = tmp_path / f"p{suffix}"
    for end in (1, 7, 50, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:end])
        assert str(path) in message(lambda: read(path))
    path.write_bytes(b"this is not such a file at all, but text" * 10)
    assert str(path) in message(lambda: read(path))
    if suffix in (".npz", ".csv.gz", ".jsonl.gz"):  # These have checksums.
        middle = bytearray(data)
        middle[len(data) // 2] ^= 0xFF
        path.write_bytes(bytes(middle))
        assert str(path) in message(lambda: read(path))


def test_a_damaged_gzip_says_how_far_it_got(tmp_path: Path) -> None:
    path = tmp_path / "p.csv.gz"
    path.write_bytes(gzip.compress(b"logits_0,logits_1,label\n1,2,0\n1,2,1\n")[:-8])
    assert "damaged after line 3" in message(lambda: read(path))


def test_npz_is_never_unpickled(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "exploded"),)

    np.savez(tmp_path / "p.npz", logits=LOGITS, labels=np.array([Bomb()] * 4, dtype=object))
    assert "Python objects" in message(lambda: read(tmp_path / "p.npz"))
    np.savez(tmp_path / "q.npz", logits=LOGITS, labels=LABELS, label_names=np.array([Bomb()] * 3))
    assert "Python objects" in message(lambda: read(tmp_path / "q.npz"))
    assert not (tmp_path / "exploded").exists()


def test_npz_arrays_of_different_length(tmp_path: Path) -> None:
    np.savez(tmp_path / "p.npz", logits=LOGITS, labels=LABELS[:3])
    assert "logits has 4, labels has 3" in message(lambda: read(tmp_path / "p.npz"))


@pytest.mark.parametrize("suffix", PLAIN)
def test_wrong_columns_list_what_is_there(tmp_path: Path, suffix: str) -> None:
    path = save(tmp_path / f"p{suffix}", {"scores": LOGITS[:, 0], "answer": LABELS})
    text = message(lambda: read(path))
    assert text.startswith(f"{path}: no column of logits or probabilities; it has ")
    assert "scores" in text
    assert "answer" in text
    text = message(lambda: read(path, Columns(logits="scores")))
    assert "no column 'label'" in text
    text = message(lambda: read(path, Columns(logits="scores", label="answet")))
    assert "no column 'answet'" in text
    assert "Did you mean 'answer'?" in text
    text = message(lambda: read(path, Columns(logits="score*", label="answer", groups=["x"])))
    assert "no column 'x'" in text
    assert "starts with 'q'" in message(lambda: read(path, Columns(logits="q*")))


def test_many_columns_are_not_all_listed(tmp_path: Path) -> None:
    path = save(tmp_path / "p.csv", {f"c{k}": LABELS for k in range(100)})
    assert "c7, … (88 more), c96, c97, c98, c99" in message(lambda: read(path))


@pytest.mark.parametrize("suffix", PLAIN)
def test_both_kinds_need_a_choice(tmp_path: Path, suffix: str) -> None:
    p = np.exp(LOGITS) / np.exp(LOGITS).sum(1, keepdims=True)
    path = save(tmp_path / f"p{suffix}", {"logits": LOGITS, "probabilities": p, "label": LABELS})
    assert "both logits and probabilities" in message(lambda: read(path))
    for kind in ("logits", "probabilities"):
        found = read(path, kind=kind)
        assert found.kind == kind
        assert found.groups == {}
    assert "not of both" in message(lambda: read(path, Columns("logits", "probabilities")))
    assert "kind is 'logits'" in message(
        lambda: read(path, Columns(probabilities="probabilities"), "logits")
    )


def test_kind_that_is_not_there(tmp_path: Path) -> None:
    path = save(tmp_path / "p.npz", {"logits": LOGITS, "label": LABELS})
    text = message(lambda: read(path, kind="probabilities"))
    assert "no column of probabilities" in text
    assert text.endswith("Name it (--probabilities-column).")


def test_the_advice_for_logits_that_are_called_probabilities_works(tmp_path: Path) -> None:
    path = save(tmp_path / "p.npz", {"probabilities": 10 * np.asarray(LOGITS), "label": LABELS})
    assert "or --logits-column NAME" in message(lambda: read(path))
    assert read(path, Columns(logits="probabilities")).kind == "logits"


@pytest.mark.parametrize("suffix", [".parquet", ".npz", ".csv", ".jsonl"])
def test_text_labels_without_names(tmp_path: Path, suffix: str) -> None:
    labels = np.array(["0", "cat", "dog", "cat"])
    path = save(tmp_path / f"p{suffix}", {"logits": LOGITS, "label": labels})
    text = message(lambda: read(path))
    assert "are text ('cat') and the label names are not known" in text
    assert place(suffix, 1) in text
    labels = np.array(["-100", "cat", "dog", "cat"])
    path = save(tmp_path / f"q{suffix}", {"logits": LOGITS, "label": labels})
    found = read(path, Columns(label_names=["dog", "cat", "cow"]))
    assert found.labels.tolist() == [1, 0, 1]
    assert found.ignored == 1
    text = message(lambda: read(path, Columns(label_names=["cat", "bird", "cow"])))
    assert "Label 'dog' in column 'label' is not one of the label names (cat, bird, cow)" in text
    assert place(suffix, 2) in text
    assert "3 columns, 2 names" in message(lambda: read(path, Columns(label_names=["cat", "dog"])))


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_missing_label(tmp_path: Path, suffix: str) -> None:
    labels: list[Any] = [0, 1, "" if suffix == ".csv" else None, 1]
    path = save(tmp_path / f"p{suffix}", {"logits": LOGITS, "label": labels})
    for rows in (1, 3, None):
        parts = list(stream(path, rows=rows))
        assert sum(part.unlabelled for part in parts) == 1
        assert np.concatenate([part.labels for part in parts]).tolist() == [0, 1, 1]
    path = save(tmp_path / f"q{suffix}", {"logits": LOGITS, "label": [labels[2]] * 4})
    assert message(lambda: read(path)) == f"{path}: all 4 rows are without a label."


@pytest.mark.parametrize("suffix", PLAIN)
def test_fractions_as_labels(tmp_path: Path, suffix: str) -> None:
    path = save(tmp_path / f"p{suffix}", {"logits": LOGITS, "label": LABELS + 0.5})
    assert str(path) in message(lambda: read(path))
    path = save(tmp_path / f"q{suffix}", {"logits": LOGITS, "label": LABELS.astype(float)})
    assert read(path).labels.tolist() == LABELS.tolist()


@pytest.mark.parametrize("suffix", PLAIN)
def test_shards_must_agree(tmp_path: Path, suffix: str) -> None:
    a = save(tmp_path / f"a{suffix}", {"logits": LOGITS, "label": LABELS})
    b = save(tmp_path / f"b{suffix}", {"logits": LOGITS[:, :2], "label": LABELS * 0})
    c = save(tmp_path / f"c{suffix}", {"probabilities": LOGITS[:, :2] * 0 + 0.5, "label": LABELS})
    text = message(lambda: read([a, b]))
    assert text.startswith(f"{b} has 2 classes")
    assert text.endswith(f"but {a} 3.")
    text = message(lambda: read([a, c]))
    assert text.startswith(f"{c} holds probabilities, but {a} logits")


@pytest.mark.parametrize("suffix", suffixes())
def test_label_names_of_shards_must_agree(tmp_path: Path, suffix: str) -> None:
    paths = [tmp_path / f"{name}{suffix}" for name in "abc"]
    for path, names in zip(paths, (["x", "y", "z"], ["x", "z", "y"], None), strict=True):
        Predictions.from_logits(LOGITS, LABELS, label_names=names).write(path)
    text = message(lambda: read(paths[:2]))
    assert text == (
        f"{paths[1]} has different label names from {paths[0]}: class 1 is 'z' against 'y'."
    )
    # A shard without names takes those of the others, whichever comes first.
    for order in ([0, 2], [2, 0]):
        chunks = list(stream([paths[i] for i in order]))
        assert {chunk.label_names for chunk in chunks} == {("x", "y", "z")}


def test_ragged_csv(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text('logits_0,logits_1,label,note\n1,2,0,"two\nlines"\n\n1,2,0\n')
    assert message(lambda: read(path)) == (
        f"{path}, line 5: 3 values, but the header has 4; text with a separator in it needs quotes."
    )


@pytest.mark.parametrize("arrow", [True, False])
@pytest.mark.parametrize("separator", [",", "\t"])
@pytest.mark.parametrize("later", ["", 'a "word"', 'begins" here'])
def test_a_quote_that_is_not_closed_takes_no_rows(
    arrow: bool, separator: str, later: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text such as "so bad, written without quotes: all rows up to the next quote were lost."""
    if not arrow:
        monkeypatch.setattr(arrow_text, "find_spec", lambda _: None)
    rows = [["confidence", "correct", "text"], *([".9", "1", f"text {i}"] for i in range(9))]
    rows[3][2] = '"so bad'
    rows[7][2] = later or rows[7][2]
    path = tmp_path / f"p.{'tsv' if separator == chr(9) else 'csv'}"
    path.write_text("".join(separator.join(row) + "\n" for row in rows))
    assert message(lambda: read(path)).startswith(f"{path}, line 4: a quote begins a cell and is")


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_a_quoted_cell_of_several_lines_is_one_cell(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"p.{suffix}"
    text = 'confidence,correct,text\n.9,1,"two\nlines; ""quoted"" "\n.8,0,x\n'
    path.write_text(text if suffix == "csv" else text.replace(",", "\t"))
    assert read(path).groups["text"].tolist() == ['two\nlines; "quoted" ', "x"]


def test_cells_of_a_csv(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    for cell in ("", "x", "1,5", '"1,5"'):
        path.write_text(f"logits_0,logits_1,label\n1,2,0\n{cell},2,1\n")
        assert "line 3" in message(lambda: read(path))
    for cell, advice in (("71.5%", "write 0.715."), ('"[0.1, 0.9]"', "one column per class, or a")):
        path.write_text(f"confidence,correct\n{cell},1\n")
        assert advice in message(lambda: read(path))
    path.write_text("logits_0,logits_0,label\n1,2,0\n")
    assert "two columns are called 'logits_0'" in message(lambda: read(path))
    path.write_bytes(b"logits_0,logits_1,label\n1,2,\xff\n")
    assert "not UTF-8" in message(lambda: read(path))
    path.write_text("logits_0,logits_2,label\n1,2,0\n")
    assert "without a gap, got logits_0, logits_2" in message(lambda: read(path))


def test_lines_of_a_jsonl(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    good = '{"logits": [1, 2.5], "label": 0}\n\n'
    bad = {
        '{"logits": [1, 2], "label": ': "line 3: not JSON",
        "[1, 2]": "line 3: expected a JSON object, got [1, 2]",
        '{"logits": [1, 2, 3], "label": 0}': "expected a list of 2 numbers in 'logits' at line 3",
        '{"logits": [1, null], "label": 0}': "expected a list of 2 numbers in 'logits' at line 3",
        '{"logits": [1, "2"], "label": 0}': "expected a list of 2 numbers in 'logits' at line 3",
        '{"logits": 1, "label": 0}': "expected a list of 2 numbers in 'logits' at line 3",
        '{"label": 0}': "expected a list of 2 numbers in 'logits' at line 3",
        '{"logits": [1, NaN], "label": 0}': "got nan at line 3",
    }
    for line, expected in bad.items():
        path.write_text(good + line + "\n")
        for rows in (1, None):
            assert expected in message(lambda rows=rows: list(stream(path, rows=rows)))
    path.write_text(
        '{"logits": {"a": 1, "b": 2}, "label": "a"}\n{"logits": {"a": 1}, "label": "a"}'
    )
    assert "the 2 names of the first line in 'logits' at line 2" in message(lambda: read(path))


def test_ragged_and_missing_values_in_parquet(tmp_path: Path) -> None:
    path = tmp_path / "p.parquet"
    save(path, {"logits": [[1.0, 2.0], [1.0, 2.0], [1.0]], "label": [0, 1, 0]})
    assert "2 values at row 0 but 1 at row 2" in message(lambda: read(path))
    save(path, {"logits": [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0, 3.0]], "label": [0, 1, 0]})
    assert "3 classes from row 2 on" in message(lambda: list(stream(path, rows=2)))
    save(path, {"logits": [[1.0, 2.0], [1.0, 2.0], None], "label": [0, 1, 0]})
    assert "a missing value in 'logits' at row 2" in message(lambda: read(path))
    save(path, {"logits": [[1.0, 2.0], [None, 2.0], [1.0, 2.0]], "label": [0, 1, 0]})
    for rows in (1, None):
        text = message(lambda rows=rows: list(stream(path, rows=rows)))
        assert "a missing value in 'logits' at row 1" in text
    save(path, {"logits_0": [1.0, None], "logits_1": [1.0, 2.0], "label": [0, 1]})
    assert "a missing value in 'logits_0' at row 1" in message(lambda: read(path))
    save(path, {"logits_0": ["a", "b"], "logits_1": [1.0, 2.0], "label": [0, 1]})
    assert "'logits_0' must hold one number per row" in message(lambda: read(path))
    save(path, {"logits": [["a", "b"]], "label": [0]})
    assert "no column of logits" in message(lambda: read(path))


def test_folders_and_globs(tmp_path: Path) -> None:
    folder = tmp_path / "shards"
    folder.mkdir()
    assert "no .parquet, .npz, .arrow or .feather shards" in message(lambda: read(folder))
    assert "no file matches" in message(lambda: read(str(tmp_path / "*.npz")))
    assert "No file was named" in message(lambda: read([]))
    save(folder / "part-1.parquet", {"logits": LOGITS, "label": LABELS})
    save(folder / "part-0.parquet", {"logits": LOGITS[:2], "label": LABELS[:2]})
    for name in (".part-2.parquet.77.tmp", "_SUCCESS", "_metadata.parquet", ".part-3.parquet"):
        (folder / name).write_bytes(b"half")
    assert np.array_equal(read(folder).labels, np.concatenate([LABELS[:2], LABELS]))
    assert len(read(str(tmp_path / "sh*"))) == 6


def test_unknown_suffix(tmp_path: Path) -> None:
    path = tmp_path / "p.pkl"
    path.touch()
    for call in (lambda: read(path), lambda: write(Predictions.from_logits(LOGITS, LABELS), path)):
        assert "unknown kind of file '.pkl'; expected one of .parquet, .npz" in message(call)


def test_rows_per_chunk(tmp_path: Path) -> None:
    assert "at least 1" in message(lambda: stream(tmp_path, rows=0))
    assert "at least 1" in message(lambda: rewrite(tmp_path, tmp_path, lambda p: p, rows=0))
