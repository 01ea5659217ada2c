"""Files of predicted labels with one confidence each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from calibrant import Claims, InputError, Predictions, audit, read
from calibrant.calibrators import load_calibrator
from calibrant.cli import main
from calibrant.files import Columns, count_rows, rewrite, stream, suffixes
from calibrant.files.columns import find_layout
from calibrant.files.format import Layout
from calibrant.files.formats import open_source
from calibrant.files.parquet import _truth_values
from calibrant.policies import load_policy

TRUE = ["cat", "dog", "", "cow", "dog", "cat"]
PREDICTED = ["cat", "cat", "dog", "cow", "dog", "dog"]
CONFIDENCE = [0.9, 0.8, 0.7, 0.6, 0.35, 1.0]


def save(path: Path, columns: dict[str, Any]) -> Path:
    """A file as another program would write it."""
    if path.suffix == ".npz":
        np.savez(path, **{name: np.array(column) for name, column in columns.items()})
    elif path.suffix == ".parquet":
        missing = {n: [None if v == "" else v for v in c] for n, c in columns.items()}
        pq.write_table(pa.table(missing), path)
    elif path.suffix == ".jsonl":
        rows = zip(*columns.values(), strict=True)
        records = [dict(zip(columns, row, strict=True)) for row in rows]
        path.write_text("".join(json.dumps(r).replace('""', "null") + "\n" for r in records))
    else:
        rows = [map(str, row) for row in zip(*columns.values(), strict=True)]
        path.write_text("\n".join([",".join(columns), *map(",".join, rows)]) + "\n")
    return path


@pytest.mark.parametrize("rows", [1, 4, None])
@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".npz", ".parquet"])
def test_predicted_and_true_labels(tmp_path: Path, suffix: str, rows: int | None) -> None:
    table = {"id": list(range(6)), "true_label": TRUE, "pred_label": PREDICTED}
    path = save(tmp_path / f"p{suffix}", {**table, "confidence": CONFIDENCE})
    claims = Claims.concatenate(stream(path, rows=rows))
    assert claims.correct.tolist() == [True, False, True, True, False]
    assert claims.confidence.tolist() == [0.9, 0.8, 0.6, 0.35, 1.0]
    assert (claims.ignored, claims.unlabelled, list(claims.groups)) == (1, 1, ["id"])
    about = claims.text("about")
    assert about is not None
    assert about.tolist() == ["cat", "cat", "cow", "dog", "dog"]
    assert count_rows(path) in (None, 6)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".npz", ".parquet"])
@pytest.mark.parametrize("values", [[1, 0, 1], [True, False, True]])
def test_predicted_labels_and_correct(tmp_path: Path, suffix: str, values: list[Any]) -> None:
    table = {"prediction": [3, 4, 3], "score": [0.9, 0.5, 0.4], "correct": values}
    path = save(tmp_path / f"p{suffix}", table)
    claims = read(path)
    assert isinstance(claims, Claims)
    assert claims.correct.tolist() == [True, False, True]
    assert claims.names == ("3", "4")
    del table["prediction"]
    claims = read(save(tmp_path / f"q{suffix}", table))
    assert isinstance(claims, Claims)
    assert (len(claims), claims.about) == (3, None)


@pytest.mark.parametrize("suffix", suffixes())
def test_round_trip(tmp_path: Path, suffix: str) -> None:
    if suffix in (".pt", ".pth"):
        pytest.importorskip("torch")
    claims = Claims.from_top_label(
        PREDICTED, CONFIDENCE, TRUE, groups={"site": list("ABABAB")}, signals={"length": range(6)}
    )
    claims.write(tmp_path / f"p{suffix}")
    again = read(tmp_path / f"p{suffix}")
    assert isinstance(again, Claims)
    assert again.confidence.tolist() == claims.confidence.tolist()
    assert again.correct.tolist() == claims.correct.tolist()
    assert again.groups["site"].tolist() == claims.groups["site"].tolist()
    assert again.signals["length"].tolist() == claims.signals["length"].tolist()
    Claims.from_top_label(None, [0.5, 0.75], correct=[1, 0]).write(tmp_path / f"q{suffix}")
    judged = read(tmp_path / f"q{suffix}")
    assert isinstance(judged, Claims)
    assert judged.correct.tolist() == [True, False]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".npz", ".parquet"])
def test_the_predicted_label_of_a_pipeline_is_called_label(tmp_path: Path, suffix: str) -> None:
    table = {"label": ["A", "B"], "score": [0.9, 0.8], "y_true": ["A", "A"]}
    claims = read(save(tmp_path / f"p{suffix}", table))
    assert isinstance(claims, Claims)
    assert claims.correct.tolist() == [True, False]


def test_named_columns(tmp_path: Path) -> None:
    table = {"guess": ["A", "B"], "sure": [0.9, 0.8], "answer": ["A", "A"], "ok": [0, 0]}
    path = save(tmp_path / "p.csv", table)
    columns = Columns(predicted="guess", confidence="sure", label="answer")
    claims = read(path, columns)
    assert isinstance(claims, Claims)
    assert (claims.correct.tolist(), list(claims.groups)) == ([True, False], ["ok"])
    judged = read(path, Columns(confidence="sure", correct="ok"))
    assert isinstance(judged, Claims)
    assert judged.correct.tolist() == [False, False]


def test_scores_of_all_classes_come_first(tmp_path: Path) -> None:
    table = {"logits_0": [1.0, 0.0], "logits_1": [0.0, 2.0], "label": [0, 1]}
    path = save(tmp_path / "p.csv", {**table, "prediction": [0, 1], "confidence": [0.7, 0.9]})
    p = read(path)
    assert isinstance(p, Predictions)
    assert list(p.groups) == ["prediction", "confidence"]
    assert isinstance(read(path, kind="top-label"), Claims)


def test_bad_files(tmp_path: Path) -> None:
    good: dict[str, Any] = {"true_label": ["A", "B"], "pred_label": ["A", "A"]}
    for column, expected in [
        ({"confidence": [0.9, 1.7]}, "confidence must be in 0..1, got 1.7 at line 3"),
        ({"confidence": [0.9, "x"]}, "expected a number in column 'confidence' at line 3"),
        ({"probability": [0.9, 0.8]}, "may belong to class 1, or to the label in 'pred_label'"),
        ({"weird": [0.9, 0.8]}, "no column of logits or probabilities; it has true_label"),
        ({"weird": [0.9, 0.8]}, "one confidence each, --confidence-column and --predicted-column"),
    ]:
        path = save(tmp_path / "p.csv", {**good, **column})
        with pytest.raises(InputError, match=expected) as caught:
            read(path)
        assert "\n" not in str(caught.value)
    path = save(tmp_path / "p.csv", {"pred_label": ["A"], "confidence": [0.5]})
    with pytest.raises(InputError, match="no column of true labels for 'confidence'"):
        read(path)
    path = save(tmp_path / "p.csv", {"truth_of_it": ["A"], "confidence": [0.5], "guess": ["A"]})
    named = r"Name them \(--predicted-column and --label-column\)"
    with pytest.raises(InputError, match=f"no columns of predicted and true labels.*{named}"):
        read(path)
    path = save(tmp_path / "p.csv", {**good, "confidence": [0.9, 0.8]})
    with pytest.raises(InputError, match="no column 'sure'"):
        read(path, Columns(confidence="sure"))


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".npz", ".parquet", ".safetensors"])
def test_rewrite_keeps_all_rows_and_columns(tmp_path: Path, suffix: str) -> None:
    table: dict[str, Any] = {"pred_label": [1, 2, 1], "confidence": [0.5, 0.75, 1.0]}
    if suffix == ".safetensors":
        from safetensors.numpy import save_file

        save_file({k: np.array(v) for k, v in table.items()}, tmp_path / f"p{suffix}")
    else:
        save(tmp_path / f"p{suffix}", {**table, "note": ["x", "", "z"]})
    path, target = tmp_path / f"p{suffix}", tmp_path / f"q{suffix}"
    rewrite(path, target, lambda claims: claims.with_confidence(claims.confidence / 2))
    block = next(open_source(target).blocks(9, _layout(target)))
    assert block.columns["confidence"].tolist() == [0.25, 0.375, 0.5]
    assert [int(value) for value in block.columns["pred_label"]] == [1, 2, 1]
    assert list(open_source(target).columns) == list(open_source(path).columns)


def _layout(path: Path) -> Layout:
    return find_layout(open_source(path), Columns(), None, labelled=False)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet", ".arrow"])
def test_commands_that_need_no_label_take_text(
    tmp_path: Path, suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Some formats give labels as a dictionary, which every command must know."""
    random = np.random.default_rng(0)
    c = random.uniform(0.4, 1, 600)
    right, predicted = random.random(600) < c, np.where(random.random(600) < 0.5, "A", "NA")
    table = {"true_label": np.where(right, predicted, "C").tolist()}
    table |= {"pred_label": predicted.tolist(), "confidence": c.tolist()}
    path, plain = tmp_path / f"p{suffix}", save(tmp_path / "plain.csv", table)
    if suffix == ".arrow":
        feather.write_feather(pa.table(table), path, compression="uncompressed")
    elif suffix != ".csv":
        save(path, table)
    path = plain if suffix == ".csv" else path
    fitted, policy = str(tmp_path / "c.json"), str(tmp_path / "p.json")
    assert main(["fit", str(plain), "--calibrator", "platt", "-o", fitted]) == 0
    assert main(["guarantee", str(plain), "--target-risk", "0.3", "-o", policy]) == 0
    out = tmp_path / f"out{suffix}"
    assert main(["apply", fitted, str(path), "-o", str(out)]) == 0
    expected = load_calibrator(fitted).transform(read(plain))
    np.testing.assert_allclose(read(out).confidence, expected.confidence, rtol=1e-12)
    assert read(out).text("about").tolist() == predicted.tolist()
    assert main(["apply", str(path), "--policy", policy, "-o", str(tmp_path / "d.csv")]) == 0
    decided = load_policy(policy).decide(read(plain))
    lines = (tmp_path / "d.csv").read_text().splitlines()[1:]
    assert ["rue" in line for line in lines] == decided.tolist()
    capsys.readouterr()
    assert main(["watch", str(path), "--reference", str(plain), "--json"]) == 0
    total = json.loads(capsys.readouterr().out)["total"]
    assert (total["labelled"], total["drift"]["classes"]) == (600, 0)
    assert total["labelled_accuracy"] == pytest.approx(right.mean())


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    random = np.random.default_rng(0)
    paths = []
    for name in ("valid", "test"):
        c = random.uniform(0.4, 1, 600)
        right = random.random(600) < c**2
        table = {"true_label": np.where(right, "A", "B").tolist(), "pred_label": ["A"] * 600}
        paths.append(save(tmp_path / f"{name}.csv", {**table, "confidence": c.tolist()}))
    valid, test = map(str, paths)
    fitted, out = str(tmp_path / "map.json"), str(tmp_path / "out.csv")
    assert main(["audit", test, "--report", str(tmp_path / "r.html"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["audit"]["provenance"]["kind"] == "top-label"
    assert (tmp_path / "r.html").exists()
    assert main(["compare", valid, test, "--calibrators", "platt,matrix"]) == 0
    assert "matrix was skipped: these need the scores of all" in capsys.readouterr().out
    assert main(["fit", valid, "--calibrator", "platt", "-o", fitted]) == 0
    assert main(["apply", fitted, test, "-o", out]) == 0
    before, after = read(test), read(out)
    assert isinstance(before, Claims)
    assert isinstance(after, Claims)
    assert after.confidence.mean() < before.confidence.mean()
    capsys.readouterr()
    assert main(["audit", test, "--calibrator", fitted]) == 0
    assert "after platt" in capsys.readouterr().out
    assert main(["fit", valid, "--calibrator", "vector", "-o", str(tmp_path / "v.json")]) == 2
    assert "vector needs the scores of all classes" in capsys.readouterr().err
    assert not (tmp_path / "v.json").exists()


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".npz", ".parquet"])
@pytest.mark.parametrize("name", ["none", "NONE", "na", "NA", "N/A", "null", "None"])
def test_a_class_may_have_the_name_of_nothing(tmp_path: Path, suffix: str, name: str) -> None:
    """A text of the predicted labels is a class: stance 'none', relation 'NA', country NA."""
    true, predicted = [name, "hate", name, "hate"], [name, name, "hate", "hate"]
    columns = {"true_label": true, "pred_label": predicted, "confidence": CONFIDENCE[:4]}
    claims = read(save(tmp_path / f"p{suffix}", columns))
    assert isinstance(claims, Claims)
    assert claims.correct.tolist() == [True, False, False, True]


def test_only_what_programs_write_for_nothing_is_a_missing_label() -> None:
    true = ["none", "NA", "None", "nan", "", "hate"]
    claims = Claims.from_top_label(["hate"] * 6, [0.5] * 6, true)
    assert (len(claims), claims.unlabelled) == (2, 4)
    assert claims.correct.tolist() == [False, True]
    binary = Predictions.from_probabilities([0.9, 0.2, 0.3], ["hate", "none", ""], positive="hate")
    assert (binary.labels.tolist(), binary.unlabelled) == ([1, 0], 1)


TEXTS = ["b", "a", None, "NA", "a", "1.0", "b", ""]
FOUND = ["a", "a", "b", "b", "a", "1", "b", "c"]


@pytest.mark.parametrize("rows", [1, 3, None])
@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
@pytest.mark.parametrize("kind", ["string", "large_string", "dictionary"])
def test_text_that_arrow_stores_as_a_dictionary(tmp_path, kind, suffix, rows) -> None:
    types = {
        "string": pa.string(),
        "large_string": pa.large_string(),
        "dictionary": pa.dictionary(pa.int8(), pa.string()),
    }
    columns = {"true_label": TEXTS, "pred_label": FOUND, "site": TEXTS}
    table = {name: pa.array(column, types[kind]) for name, column in columns.items()}
    table["confidence"] = pa.array(np.linspace(0.2, 0.9, 8))
    path = tmp_path / f"p{suffix}"
    if suffix == ".parquet":
        pq.write_table(pa.table(table), path, row_group_size=5)
    else:
        with pa.ipc.new_file(path, pa.table(table).schema) as writer:
            writer.write_table(pa.table(table))
    found = Claims.concatenate(stream(path, rows=rows))
    expected = Claims.from_top_label(FOUND, table["confidence"].to_numpy(), TEXTS)
    assert (found.correct == expected.correct).all()
    assert (found.unlabelled, found.names) == (3, expected.names)
    for column in ("about", "truth"):
        assert (found.text(column) == expected.text(column)).all()
    assert found.groups["site"].tolist() == ["b", "a", "a", "1.0", "b"]


@pytest.mark.parametrize("kernels", ["numpy", "numba"])
@pytest.mark.parametrize("rows", [255, 256, 257, 1009, None])
def test_every_row_counts_once_across_row_groups_and_chunks(
    tmp_path, monkeypatch, rows, kernels
) -> None:
    """Chunks end beside row groups, pages and the tiles of the compiled kernels (256 rows)."""
    if kernels == "numba":
        pytest.importorskip("numba")
    monkeypatch.setenv("CALIBRANT_KERNELS", kernels)
    monkeypatch.setattr("calibrant.auditing.run.MOST_SORTED", 1000)  # Above: a sketch of all.
    random, n = np.random.default_rng(0), 6007
    confidence = random.uniform(0.01, 0.99, n).astype(np.float32)
    label, right = random.integers(0, 20, n).astype(np.int32), random.random(n) < confidence
    missing = random.random(n) < 0.1
    correct = pa.array(np.where(missing, None, right).tolist(), pa.bool_())
    table = pa.table({"pred_label": label, "confidence": confidence, "correct": correct})
    path = tmp_path / "p.parquet"
    pq.write_table(table, path, row_group_size=1009, data_page_size=700)
    found = audit(stream(path, rows=rows), bootstrap=0)
    about = found.provenance
    assert (about["n"], about["ignored"]) == ((~missing).sum(), missing.sum())
    kept = confidence[~missing].astype(float)
    assert found.state.top_count.sum() == found.confidences.count.sum() == len(kept)
    assert found.state.top_correct.sum() == found.confidences.correct.sum() == right[~missing].sum()
    assert found.state.top_confidence.sum() == pytest.approx(kept.sum(), rel=1e-12)
    likely = np.where(right[~missing], kept, 1 - kept)
    assert found.state.nll == pytest.approx(-np.log(likely).sum(), rel=1e-12)
    assert found.state.brier == pytest.approx(2 * ((1 - likely) ** 2).sum(), rel=1e-12)
    counts = dict(zip(found.label_names, found.state.predicted_count, strict=True))
    assert counts == {str(k): (label[~missing] == k).sum() for k in range(20)}


def test_a_category_that_no_row_has_is_no_label(tmp_path) -> None:
    codes = pa.array([2, 0, 2, 0], pa.int8())
    coded = pa.DictionaryArray.from_arrays(codes, ["x", "unused", "y"])
    table = {"pred_label": coded, "true_label": coded, "confidence": [0.9, 0.8, 0.7, 0.6]}
    pq.write_table(pa.table(table), tmp_path / "p.parquet")
    assert read(tmp_path / "p.parquet").names == ("y", "x")


def _answers(path: Path, rows: list[tuple[str, str]]) -> Path:
    lines = (f"{true},{found},0.8" for true, found in rows)
    path.write_text("true_label,pred_label,confidence\n" + "\n".join(lines) + "\n")
    return path


def test_an_audit_says_which_texts_it_read_as_no_label(tmp_path: Path) -> None:
    path = _answers(tmp_path / "a.csv", [("NA", "a"), ("a", "a"), ("None", "b"), ("b", "b")])
    claims = read(path)
    assert (len(claims), claims.unlabelled, claims.missing_texts) == (2, 2, ("NA", "None"))
    assert any("'NA', 'None' were read as no label" in line for line in audit(claims).warnings)
    named = read(path, Columns(label_names=["a", "b", "NA", "None"]))
    assert (len(named), named.unlabelled, named.correct.sum()) == (4, 0, 2)
    assert not audit(named).warnings
    (tmp_path / "names.txt").write_text("a\nb\nNA\nNone\n")
    assert main(["audit", str(path), "--labels", str(tmp_path / "names.txt"), "--json"]) == 0


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_class_called_na_is_one_in_all_chunks(tmp_path: Path, suffix: str) -> None:
    rows = [("NA", "NA"), ("a", "a"), ("NA", "a"), ("a", "a")]
    path = _answers(tmp_path / "a.csv", rows)
    if suffix == ".parquet":
        table = {"true_label": [r[0] for r in rows], "pred_label": [r[1] for r in rows]}
        path = tmp_path / "a.parquet"
        pq.write_table(pa.table({**table, "confidence": [0.8] * 4}), path)
    for size in (1, 2, 4):
        assert sum(len(part) for part in stream(path, rows=size)) == 4
    late = _answers(tmp_path / "late.csv", rows[::-1])
    assert len(read(late)) == 4
    with pytest.raises(InputError, match="'NA' is predicted, but was read as a missing label"):
        list(stream(late, rows=1))
    names = Columns(label_names=["a", "NA"])
    assert sum(len(part) for part in stream(late, names, rows=1)) == 4


@pytest.mark.parametrize(("start", "rows"), [(0, 0), (0, 7), (3, 5), (5, 30), (8, 8), (17, 3)])
def test_bits_of_a_slice_are_those_of_arrow(start: int, rows: int) -> None:
    """Arrow packs eight truth values into a byte, and a slice may start at any of them."""
    column = pa.array(np.random.default_rng(0).random(40) < 0.5).slice(start, rows)
    found = _truth_values(column)
    assert found.dtype == bool
    assert found.tolist() == column.to_pylist()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_labels_of_any_whole_type_have_the_same_names(dtype: str) -> None:
    """The least and the largest number of a type, whose difference the type may not hold."""
    low, high = (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype[-1] in "86" else (0, 3)
    predicted, labels = np.array([high, low, low], dtype), np.array([high, high, low], dtype)
    claims = Claims.from_top_label(predicted, [0.9, 0.8, 0.7], labels)
    assert claims.correct.tolist() == [True, False, True]
    assert claims.text("about").tolist() == [str(high), str(low), str(low)]  # type: ignore[union-attr]
    assert claims.text("truth").tolist() == [str(high), str(high), str(low)]  # type: ignore[union-attr]


def test_a_score_of_the_positive_class_needs_its_kind(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("score,label\n.9,spam\n.2,ham\n")
    with pytest.raises(InputError, match=r"'spam' \(--probabilities-column score\)"):
        read(path, Columns(positive="spam"))
    found = read(path, Columns(positive="spam", probabilities="score"))
    assert found.labels.tolist() == [1, 0]
