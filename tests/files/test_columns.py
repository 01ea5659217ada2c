"""Which columns are what: the usual names, one column per class, names of labels, groups."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calibrant import InputError, Predictions, audit
from calibrant.cli.options import add_file_options, columns_from
from calibrant.files import Columns, count_rows, read, read_label_names, rewrite, stream

P = [[0.75, 0.25], [0.5, 0.5], [0.125, 0.875]]
P0, P1 = zip(*P, strict=True)
LABEL = [0, 1, 1]


def parquet(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def csv(path: Path, text: str) -> Path:
    path.write_text(text.replace(" ", ""))
    return path


@pytest.mark.parametrize("name", ["probabilities", "probability", "probs", "prob"])
def test_usual_names_of_probabilities(tmp_path: Path, name: str) -> None:
    for columns in (
        {name: P},
        {f"{name}_1": P1, f"{name}_0": P0},  # in the order of the numbers, not of the file
        {f"{name}:cat": P0, f"{name}:dog": P1},
    ):
        found = read(parquet(tmp_path / "p.parquet", **columns, label=LABEL))
        assert found.kind == "probabilities"
        assert found.scores.tolist() == P
        assert found.names == (("cat", "dog") if f"{name}:cat" in columns else ("0", "1"))


_NUMBERS = [2, 1, 2]
POSITIVES: list[tuple[Any, list[Any]]] = [
    ("2", _NUMBERS),
    ("2.0", _NUMBERS),
    ("2", [2.0, 1.0, 2.0]),
    ("0", [0, 1, 0]),
    ("true", [True, False, True]),
    ("False", [False, True, False]),
    ("1", [True, False, True]),
    ("yes", ["yes", "no", "yes"]),
    ("yes", ["yes ", "no", "yes"]),
]


@pytest.mark.parametrize(("positive", "labels"), POSITIVES)
def test_the_positive_label_is_found_however_a_format_writes_it(
    tmp_path: Path, positive: str, labels: list[Any]
) -> None:
    """Labels of 2.0 where the positive one is 2 were all negative, and 0 was class 0 in parquet."""
    path = tmp_path / "p.csv"
    path.write_text(
        "y_prob,label\n" + "".join(f"{p},{y}\n" for p, y in zip(P1, labels, strict=True))
    )
    lines = tmp_path / "p.jsonl"
    rows = ({"y_prob": p, "label": y} for p, y in zip(P1, labels, strict=True))
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = parquet(tmp_path / "p.parquet", y_prob=P1, label=labels)
    for given in (path, lines, table):
        for size in (None, 1):
            parts = stream(given, Columns(positive=positive), rows=size)
            assert np.concatenate([part.labels for part in parts]).tolist() == [1, 0, 1], given
    for array in (labels, np.array(labels), [*labels, None], [*labels, -100]):
        more = [0.5] * (len(array) - 3)
        found = Predictions.from_probabilities([*P1, *more], array, positive=positive)
        assert found.labels.tolist() == [1, 0, 1]
        assert found.ignored == len(more)


def test_a_calibrated_copy_keeps_labels_that_are_numbers(tmp_path: Path) -> None:
    given = parquet(tmp_path / "p.parquet", y_prob=P1, label=[0, 1, 0])
    columns, copy = Columns(positive="0"), tmp_path / "copy.parquet"
    rewrite(given, copy, lambda part: part, columns)
    assert read(copy, columns).labels.tolist() == [1, 0, 1]
    assert read(copy).labels.tolist() == read(given).labels.tolist() == [0, 1, 0]
    assert read(copy).label_names is None  # Not "0" for class 1.


def test_numbers_are_classes_where_the_positive_label_is_a_text(tmp_path: Path) -> None:
    named = parquet(tmp_path / "n.parquet", y_prob=[0.9, 0.2], label=[1, 0])
    assert read(named, Columns(positive="spam")).labels.tolist() == [1, 0]


def test_the_audit_warns_of_a_positive_label_that_never_occurs() -> None:
    found = Predictions.from_probabilities([0.9, 0.2], ["yes", "no"], positive="Yes")
    assert found.labels.tolist() == [0, 0]
    assert any(
        "No example is labelled 'Yes'" in line for line in audit(found, bootstrap=0).warnings
    )


@pytest.mark.parametrize("name", ["logits", "logit"])
def test_usual_names_of_logits(tmp_path: Path, name: str) -> None:
    for columns in (
        {name: P},
        {f"{name}_0": P0, f"{name}_1": P1},
        {f"{name}:a": P0, f"{name}:b": P1},
    ):
        found = read(parquet(tmp_path / "p.parquet", **columns, labels=LABEL))
        assert found.kind == "logits"
        assert found.scores.tolist() == P


def test_more_than_ten_numbered_columns(tmp_path: Path) -> None:
    columns = {f"logit_{k}": [float(k)] for k in sorted(range(12), key=str)}
    found = read(parquet(tmp_path / "p.parquet", **columns, label=[11]))
    assert found.scores.tolist() == [list(range(12))]


def test_columns_named_by_the_user(tmp_path: Path) -> None:
    path = csv(tmp_path / "p.csv", "cat,dog,gold,fold\n0.75,0.25,cat,1\n0.5,0.5,dog,2\n")
    found = read(path, Columns(probabilities=("cat", "dog"), label="gold"))
    assert found.names == ("cat", "dog")
    assert found.labels.tolist() == [0, 1]
    assert found.groups["fold"].tolist() == [1, 2]
    path = csv(tmp_path / "q.csv", "p_cat,p_dog,gold\n0.75,0.25,cat\n0.5,0.5,dog\n")
    assert read(path, Columns(probabilities="p_*", label="gold")).names == ("cat", "dog")
    path = csv(tmp_path / "r.csv", "p1,p0,gold\n0.75,0.25,0\n0.5,0.5,1\n")
    found = read(path, Columns(probabilities="p*", label="gold"))
    assert found.scores.tolist() == [[0.25, 0.75], [0.5, 0.5]]
    path = parquet(tmp_path / "s.parquet", scores=P, label=LABEL)
    assert read(path, Columns(logits="scores")).kind == "logits"


def test_one_score_per_row_is_a_binary_classifier(tmp_path: Path) -> None:
    path = csv(tmp_path / "p.csv", "probability,label\n0.25,1\n0.5,0\n")
    assert read(path).scores.tolist() == [[0.75, 0.25], [0.5, 0.5]]
    np.savez(tmp_path / "p.npz", logits=np.array([1.5, -2.0]), labels=[1, 0])
    assert read(tmp_path / "p.npz").scores.tolist() == [[0, 1.5], [0, -2]]


def test_every_other_scalar_column_is_a_group(tmp_path: Path) -> None:
    columns = {
        "sentence": [0, 0, 1],
        "word": ["a", None, "c"],
        "tokens": [["x"], ["y"], []],
        "embedding": [[1.0], [2.0], [3.0]],
        "right": [True, False, True],
        "fold": pa.array([1, None, 3]),
        "tag": pa.array(["a", "b", "a"]).dictionary_encode(),
        "day": pa.array([1, 2, 3], pa.date32()),
    }
    path = parquet(tmp_path / "p.parquet", probs=P, label=LABEL, **columns)
    groups = read(path).groups
    assert list(groups) == ["sentence", "word", "right", "fold", "tag", "day"]
    assert groups["word"].tolist() == ["a", "", "c"]
    assert groups["fold"].tolist() == ["1", "", "3"]
    assert groups["tag"].tolist() == ["a", "b", "a"]
    assert groups["right"].dtype == bool
    assert groups["day"].astype(str).tolist() == ["1970-01-02", "1970-01-03", "1970-01-04"]
    # A column with missing values is text as a whole, however it is cut.
    chunked = Predictions.concatenate(stream(path, rows=1))
    assert {k: v.tolist() for k, v in chunked.groups.items()} == {
        k: v.tolist() for k, v in groups.items()
    }
    assert list(read(path, Columns(groups=["word"])).groups) == ["word"]
    assert read(path, Columns(groups=())).groups == {}
    with pytest.raises(InputError, match="'tokens' must hold one value per row"):
        read(path, Columns(groups=["tokens"]))


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_groups_of_a_csv_are_what_they_look_like_as_a_whole(tmp_path: Path, rows: int) -> None:
    text = "logits_0,logits_1,label,i,f,mixed,zeros,big\n"
    text += "1,2,0,1,0.5,1,007,1\n1,2,0,-2,1.0,2.5,8,99999999999999999999\n1,2,0,3,1e+20,a7,9,2\n"
    path = csv(tmp_path / "p.csv", text)
    groups = Predictions.concatenate(stream(path, rows=rows)).groups
    assert groups["i"].tolist() == [1, -2, 3]
    assert groups["f"].tolist() == [0.5, 1.0, 1e20]
    assert groups["mixed"].tolist() == ["1", "2.5", "a7"]
    assert groups["zeros"].tolist() == ["007", "8", "9"]
    assert groups["big"].tolist() == ["1", "99999999999999999999", "2"]


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_names_that_look_like_numbers_are_names(tmp_path: Path, suffix: str) -> None:
    """A model of the digits 1 to 3: label "1" is the name of class 0, not the number of class 1."""
    digits = Predictions.from_logits(np.eye(3), [0, 1, 2], label_names=["1", "2", "3"])
    digits.write(tmp_path / f"p.{suffix}")
    found = read(tmp_path / f"p.{suffix}")
    assert found.labels.tolist() == [0, 1, 2]
    path = csv(tmp_path / "q.csv", "logits:1,logits:2,label\n1,2,0\n")
    with pytest.raises(InputError, match=r"Label '0' .* is not one of the label names"):
        read(path)
    path = csv(tmp_path / "r.csv", "logits:1,logits:2,label\n1,2,2\n1,2,-100\n")
    assert read(path).labels.tolist() == [1]


def test_numbers_are_class_numbers_where_names_are_words(tmp_path: Path) -> None:
    path = csv(
        tmp_path / "p.csv", "logits:cat,logits:dog,label\n1,2,0\n1,2,dog\n1,2,-100\n1,2,1.0\n"
    )
    found = read(path)
    assert found.labels.tolist() == [0, 1, 1]
    assert found.ignored == 1


def test_names_from_hugging_face_metadata(tmp_path: Path) -> None:
    label = {"names": ["cat", "dog"], "_type": "ClassLabel"}
    meta = {"info": {"features": {"label": label, "probs": {"_type": "Sequence"}}}}
    table = pa.table({"probs": P, "label": LABEL})
    pq.write_table(
        table.replace_schema_metadata({"huggingface": json.dumps(meta)}), tmp_path / "p.parquet"
    )
    assert read(tmp_path / "p.parquet").names == ("cat", "dog")
    pq.write_table(table.replace_schema_metadata({"huggingface": "{"}), tmp_path / "q.parquet")
    assert read(tmp_path / "q.parquet").label_names is None


@pytest.mark.parametrize(
    "column",
    [
        pa.array(P, pa.list_(pa.float32())),
        pa.array(P, pa.large_list(pa.float64())),
        pa.array(P, pa.list_(pa.float32(), 2)),
        pa.array([[np.float16(v) for v in row] for row in P], pa.list_(pa.float16())),
    ],
    ids=str,
)
def test_kinds_of_lists_in_parquet_also_sliced(tmp_path: Path, column: pa.Array) -> None:
    for start in (0, 1):
        table = pa.table({"probs": column.slice(start), "label": LABEL[start:]})
        pq.write_table(table, tmp_path / "p.parquet", row_group_size=2)
        for rows in (1, 2, 3):
            found = Predictions.concatenate(stream(tmp_path / "p.parquet", rows=rows))
            assert found.scores.tolist() == P[start:]


def test_names_with_dots_in_parquet(tmp_path: Path) -> None:
    path = parquet(tmp_path / "p.parquet", **{"prob:a.b": P0, "prob:a.c": P1}, label=["a.b"] * 3)
    assert read(path).names == ("a.b", "a.c")
    assert read(path).labels.tolist() == [0, 0, 0]


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_sentences_of_tokens(tmp_path: Path, suffix: str) -> None:
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(5, 4, 3)), rng.integers(0, 3, (5, 4))
    labels[:, 3] = -100
    position, document = np.tile(np.arange(4), (5, 1)), np.array([7, 7, 8, 8, 8])
    arrays = {"logits": logits, "labels": labels, "position": position, "document": document}
    path = tmp_path / f"p.{suffix}"
    if suffix == "npz":
        np.savez(path, **arrays, edges=np.linspace(0, 1, 16), seed=np.array(3))
    else:
        from safetensors.numpy import save_file

        save_file(arrays, path)
    found = Predictions.concatenate(stream([path, path], rows=2))
    assert count_rows([path, path]) == 40
    assert np.array_equal(found.scores[:15], logits[:, :3].reshape(-1, 3))
    assert found.groups["sentence"].tolist() == np.repeat(np.arange(10), 3).tolist()
    assert found.groups["position"].tolist() == [0, 1, 2] * 10
    assert found.groups["document"].tolist() == np.repeat([7, 7, 8, 8, 8] * 2, 3).tolist()
    assert set(found.groups) == {"sentence", "position", "document"}
    assert found.ignored == 10
    logits[4, 1, 2] = np.nan
    np.savez(tmp_path / "q.npz", logits=logits, labels=labels)
    with pytest.raises(InputError, match="got nan at row 4, position 1, column 2"):
        list(stream(tmp_path / "q.npz", rows=2))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_in_any_order_of_memory(tmp_path: Path, save: Any) -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(50, 3))
    for scores in (logits, np.asfortranarray(logits), logits.astype(">f4"), logits[:, ::-1]):
        save(tmp_path / "p.npz", logits=scores, labels=rng.integers(0, 3, 50))
        found = Predictions.concatenate(stream(tmp_path / "p.npz", rows=7))
        assert np.array_equal(found.scores, scores)


def test_safetensors_agrees_with_its_own_library(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from safetensors import safe_open
    from safetensors.torch import save_file

    logits = torch.randn(9, 4)
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        tensors = {"logits": logits.to(dtype), "labels": torch.arange(9) % 4}
        save_file(tensors, tmp_path / "p.safetensors", {"label_names": '["a", "b", "c", "d"]'})
        found = Predictions.concatenate(stream(tmp_path / "p.safetensors", rows=4))
        assert np.array_equal(found.scores, logits.to(dtype).float().numpy())
        assert found.names == ("a", "b", "c", "d")
    groups = {"tag": ["x", "y", "x"] * 3, "small": np.arange(9, dtype=np.int8)}
    Predictions.from_logits(logits, torch.arange(9) % 4, groups=groups).write(
        tmp_path / "q.safetensors"
    )
    with safe_open(tmp_path / "q.safetensors", "numpy") as file:
        assert np.array_equal(file.get_tensor("logits"), logits.numpy())
        assert file.get_tensor("small").tolist() == list(range(9))
        assert json.loads(file.metadata()["texts"]) == {"tag": ["x", "y"]}


def test_label_names_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("O\nB-PER\n\n")
    (tmp_path / "names.json").write_text('["O", "B-PER"]')
    (tmp_path / "config.json").write_text('{"id2label": {"1": "B-PER", "0": "O"}, "x": 1}')
    for name in ("names.txt", "names.json", "config.json"):
        assert read_label_names(tmp_path / name) == ("O", "B-PER")
    bad = {
        "a.txt": ("", "no label names"),
        "b.txt": ("O\nO\n", "'O' occurs twice"),
        "c.json": ("{}", "expected a JSON list"),
        "d.json": ("[1, 2]", "expected a JSON list"),
        "e.json": ("[", "cannot be read"),
        "f.json": ('{"id2label": {"1": "a"}}', "expected a JSON list"),
    }
    for name, (text, expected) in bad.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(InputError, match=expected):
            read_label_names(tmp_path / name)
    with pytest.raises(InputError, match="There is no file"):
        read_label_names(tmp_path / "none.txt")


def test_options_of_the_command_line(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    add_file_options(parser)
    (tmp_path / "names.txt").write_text("cat\ndog\n")
    line = ["a.csv", "b.csv", "--label-column", "gold", "--probabilities-column", "p_*"]
    line += ["--group-columns", "sentence,fold", "--labels", str(tmp_path / "names.txt")]
    args = parser.parse_args([*line, "--kind", "probabilities"])
    assert args.files == ["a.csv", "b.csv"]
    assert args.kind == "probabilities"
    assert columns_from(args) == Columns(
        probabilities="p_*",
        label="gold",
        groups=("sentence", "fold"),
        label_names=("cat", "dog"),
    )
    assert columns_from(parser.parse_args(["a.csv"])) == Columns()
    assert columns_from(parser.parse_args(["a.csv", "--group-columns", ""])).groups == ()
    assert columns_from(parser.parse_args(["a", "--logits-column", "x,y"])).logits == ("x", "y")
    other = argparse.ArgumentParser()
    add_file_options(other, files=None)
    assert not hasattr(other.parse_args([]), "files")


@pytest.mark.parametrize("label", ["y_true", "ground_truth", "target", "true_label", "gold"])
@pytest.mark.parametrize("scores", ["y_prob", "probs", "softmax", "predictions", "predict_proba"])
def test_names_of_others(tmp_path: Path, label: str, scores: str) -> None:
    probabilities = np.array([[0.9, 0.1], [0.25, 0.75]])
    np.savez(tmp_path / "p.npz", **{scores: probabilities, label: np.array([0, 1])})
    p = read(tmp_path / "p.npz")
    assert (p.kind, p.scores.tolist()) == ("probabilities", probabilities.tolist())
    assert (p.labels.tolist(), p.groups) == ([0, 1], {})


def test_our_names_come_before_those_of_others(tmp_path: Path) -> None:
    table = {"logits": np.eye(2), "softmax": np.eye(2), "label": [0, 1], "target": [1, 0]}
    np.savez(tmp_path / "p.npz", **table)
    p = read(tmp_path / "p.npz")
    assert (p.kind, p.labels.tolist(), list(p.groups)) == ("logits", [0, 1], ["target"])


def test_one_number_called_predictions_may_be_a_class(tmp_path: Path) -> None:
    np.savez(tmp_path / "p.npz", predictions=np.array([0.0, 1.0]), target=np.array([0, 1]))
    with pytest.raises(InputError, match="no column of logits or probabilities; it has pred"):
        read(tmp_path / "p.npz")


@pytest.mark.parametrize(("header", "says"), [("id;art;sicher", True), ("id;label;sicher", False)])
def test_labels_without_a_known_name_are_asked_for_with_the_scores(
    tmp_path: Path, header: str, says: bool
) -> None:
    path = tmp_path / "p.csv"
    path.write_text(f"{header}\n1;a;0.5\n2;b;0.7\n")
    with pytest.raises(InputError) as error:
        read(path)
    asked = "and the true labels, if it has them (--label-column)." in str(error.value)
    assert asked == says


def _written(path: Path, table: dict[str, Any]) -> Path:
    """A table as another program writes it, with the numbers as numbers."""
    if path.suffix == ".npz":
        np.savez(path, **{name: np.array(column) for name, column in table.items()})
    elif path.suffix == ".parquet":
        parquet(path, **table)
    else:
        rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
        lines = [json.dumps(row) for row in rows]
        if path.suffix == ".csv":
            lines = [",".join(table), *(",".join(map(str, row.values())) for row in rows)]
        path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".npz", ".parquet"])
def test_classes_with_numbers_as_names(tmp_path: Path, suffix: str) -> None:
    """Stars of one to three, and classes in another order: one table, one meaning everywhere."""
    from calibrant.files import rewrite
    from calibrant.files.unlabelled import stream_unlabelled

    scores = {"probabilities:3": [0.75, 0.125], "probabilities:1": [0.25, 0.5]}
    scores["probabilities:2"] = [0.0, 0.375]
    path = _written(tmp_path / f"stars{suffix}", {**scores, "label": [3, 1]})
    found = read(path)
    assert (found.names, found.labels.tolist()) == (("3", "1", "2"), [0, 1])
    again = [part.labels.tolist() for part in stream_unlabelled(path)]
    assert again == [[0, 1]]
    rewrite(path, tmp_path / f"same{suffix}", lambda p: p)
    assert read(tmp_path / f"same{suffix}").labels.tolist() == [0, 1]
    ignored = _written(tmp_path / f"i{suffix}", {**scores, "label": [-100, 2]})
    assert (read(ignored).labels.tolist(), read(ignored).ignored) == ([2], 1)
    wrong = _written(tmp_path / f"w{suffix}", {**scores, "label": [3, 0]})
    with pytest.raises(InputError, match="Label '0' in column 'label' is not one of the label"):
        read(wrong)


def test_numbers_as_keys_and_in_frames(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"probabilities": {"1": 0.5, "2": 0.5}, "label": 2}\n')
    assert read(path).labels.tolist() == [1]
    frame = {"probabilities:1": [0.5], "probabilities:2": [0.5], "label": [2]}
    assert Predictions.from_frame(frame).labels.tolist() == [1]
    p = Predictions.from_probabilities(P, LABEL, label_names=["1", "0"])
    for suffix in (".npz", ".parquet", ".jsonl", ".csv"):  # What calibrant writes stays the same.
        p.write(tmp_path / f"own{suffix}")
        assert read(tmp_path / f"own{suffix}").labels.tolist() == LABEL


def test_columns_with_the_names_of_the_classes_are_suggested(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("y_true,good,so so\ngood,0.9,0.1\n")
    with pytest.raises(InputError, match=r"the classes, --probabilities-column 'good,so so'\)"):
        read(path)
    with pytest.raises(InputError, match=r"the classes, --logits-column 'good,so so'\)"):
        read(path, kind="logits")
    path.write_text("good,bad\n0.9,0.1\n")  # Nothing shows what they are.
    with pytest.raises(InputError, match=r"--predicted-column\)"):
        read(path)


def test_columns_that_begin_alike_are_suggested(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text("id,prob_cat,prob_dog,label\n1,0.9,0.1,cat\n")
    with pytest.raises(InputError, match=r"--probabilities-column 'prob_\*'"):
        read(path)
    assert read(path, Columns(probabilities="prob_*")).label_names == ("cat", "dog")


@pytest.mark.parametrize(
    ("start", "option"), [("logit.", "--logits-column"), ("score.", "--probabilities-column")]
)
def test_the_named_option_is_that_of_the_columns(tmp_path: Path, start: str, option: str) -> None:
    """Signals, of which there may be more, are no classes."""
    path = tmp_path / "p.csv"
    path.write_text(f"{start}cat,{start}dog,signal.a,signal.b,signal.c,label\n1,0,0,0,0,cat\n")
    with pytest.raises(InputError, match=rf"per class, {option} '{start}\*'"):
        read(path)


@pytest.mark.parametrize("kernel", ["arrow", "plain"])
def test_a_space_after_a_comma_is_no_part_of_a_label(tmp_path, kernel, monkeypatch):
    if kernel == "plain":
        monkeypatch.setattr("calibrant.files.arrow_text.find_spec", lambda _: None)
    path = tmp_path / "spaces.csv"
    rows = ["cat, 0.9, cat, A", " cat, 0.8,cat,A", '"cat", 0.7, " cat", "A"']
    path.write_text("\n".join(["pred_label, confidence, true_label, site", *rows]) + "\n")
    claims = read(path)
    assert claims.correct.tolist() == [True, True, False]  # In quotes the space counts.
    assert claims.groups["site"].tolist() == ["A", "A", "A"]


def test_decimal_numbers_of_databases(tmp_path: Path) -> None:
    from decimal import Decimal

    columns = {
        f"probabilities_{k}": pa.array([Decimal(str(v)) for v in column], pa.decimal128(10, 6))
        for k, column in enumerate((P0, P1))
    }
    whole = pa.array([Decimal(v) for v in LABEL], pa.decimal128(5, 0))
    found = read(parquet(tmp_path / "p.parquet", **columns, label=whole))
    assert (found.scores.tolist(), found.labels.tolist()) == (P, LABEL)


def test_labels_that_numpy_wrote_as_text(tmp_path):
    """numpy.savetxt writes 1 as 1.000000000000000000e+00."""
    rows = np.array([[0.9, 1], [0.2, 0], [0.4, -100]])
    np.savetxt(tmp_path / "a.csv", rows, delimiter=",", header="y_prob,y_true", comments="")
    found = read(tmp_path / "a.csv")
    assert (found.labels.tolist(), found.ignored) == ([1, 0], 1)


def test_a_positive_label_that_no_row_has_is_a_misspelling(tmp_path):
    """Every row would be negative, and the numbers nonsense."""
    path = tmp_path / "mail.csv"
    path.write_text("y_prob,y_true\n0.9,ham\n0.8,spam\n0.1,ham\n")
    assert read(path, Columns(positive="spam")).labels.tolist() == [0, 1, 0]
    for rows in (1, None):
        assert len(list(stream(path, Columns(positive="spam"), rows=rows))) == 3 // (rows or 3)
        with pytest.raises(InputError, match="no row has the label 'Spam', the positive one"):
            list(stream(path, Columns(positive="Spam"), rows=rows))


def test_names_in_any_case(tmp_path: Path) -> None:
    """Spreadsheets write capitals; a column that has the name exactly comes first."""
    text = "Text;Label;Prediction;Confidence\na;cat;cat;0,9\nb;dog;cat;0,6\n"
    found = read(csv(tmp_path / "a.csv", text))
    assert found.confidence.tolist() == [0.9, 0.6]
    assert found.correct.tolist() == [1, 0]
    assert list(found.groups) == ["Text"]
    path = csv(tmp_path / "b.csv", "Label,y_true,Prob\nnot this,1,.9\n")
    assert read(path).labels.tolist() == [1]


def test_a_file_without_a_line_of_names(tmp_path: Path) -> None:
    path = csv(tmp_path / "p.csv", "0,0.9,0.1\n1,0.2,0.8\n")
    with pytest.raises(InputError, match=r"the first line has numbers, not names: it has 0, 0\.9"):
        read(path)
    path = csv(tmp_path / "p.csv", "0,1,2\n1,0.9,0.1\n")  # As pandas counts columns.
    found = read(path, Columns(probabilities=("1", "2"), label="0"))
    assert found.scores.tolist() == [[0.9, 0.1]]
    with pytest.raises(InputError, match="no column of logits or probabilities"):
        read(path)


def test_one_score_may_be_that_of_a_class(tmp_path: Path) -> None:
    path = csv(tmp_path / "p.csv", "y,score\n1,.9\n0,.2\n")
    with pytest.raises(InputError, match="of one class, --probabilities-column score"):
        read(path)
    assert read(path, Columns(probabilities="score")).scores[:, 1].tolist() == [0.9, 0.2]


def test_the_advice_names_the_classes_alone(tmp_path: Path) -> None:
    """Not the index that pandas writes, nor the text."""
    path = csv(tmp_path / "p.csv", ",Text,label,cat,dog\n0,a,cat,.9,.1\n")
    with pytest.raises(InputError, match=r"--probabilities-column cat,dog\)"):
        read(path)
    found = read(path, Columns(probabilities=("cat", "dog")))
    assert found.names == ("cat", "dog")


def test_the_advice_of_a_single_probability_can_be_followed(tmp_path: Path) -> None:
    path = csv(tmp_path / "p.csv", ",true_label,pred,proba\n0,cat,cat,.9\n1,dog,cat,.6\n")
    with pytest.raises(InputError, match=r"'proba' may belong to class 1, or .*top-label"):
        read(path)
    found = read(path, kind="top-label")
    assert found.confidence.tolist() == [0.9, 0.6]
    assert found.correct.tolist() == [1, 0]


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_numbered_names_with_a_missing_label_as_pandas_writes_them(tmp_path, suffix):
    """A column of whole numbers with a missing one is written as 3.0: it names the class 3."""
    rows = [(0.75, 0.25, "3.0"), (0.5, 0.5, ""), (0.25, 0.75, "1.0")]
    path = tmp_path / f"scores.{suffix}"
    if suffix == "csv":
        lines = ["probabilities:3,probabilities:1,label", *(f"{a},{b},{y}" for a, b, y in rows)]
    else:
        lines = [
            f'{{"probabilities": {{"3": {a}, "1": {b}}}, "label": {y or "null"}}}'
            for a, b, y in rows
        ]
    path.write_text("\n".join(lines) + "\n")
    found = read(path)
    assert (found.labels.tolist(), found.unlabelled) == ([0, 1], 1)
    path.write_text(path.read_text().replace("3.0", "2.0"))
    with pytest.raises(InputError, match=r"Label '2\.?0?' .*is not one of the label names \(3, 1"):
        read(path)


def ratings(path: Path, prefix: str) -> np.ndarray:
    """Write a table of probabilities numbered from 1, with ratings from 1 to 3 as labels."""
    scores = np.array([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7], [0.2, 0.6, 0.2]])
    head = ",".join(f"{prefix}{k}" for k in (1, 2, 3))
    lines = [",".join(map(str, [*row, y])) for row, y in zip(scores, (1, 3, 1), strict=True)]
    path.write_text("\n".join([f"{head},label", *lines]) + "\n")
    return scores


def test_columns_numbered_from_1_are_classes_with_these_names(tmp_path: Path) -> None:
    """Ratings begin at 1: the label 1 is the first class, as with probabilities:1."""
    path = tmp_path / "ratings.csv"
    for prefix, columns in (("probabilities_", Columns()), ("p", Columns(probabilities="p*"))):
        scores = ratings(path, prefix)
        p = read(path, columns)
        assert p.names == ("1", "2", "3")
        assert p.labels.tolist() == [0, 2, 0]
        np.testing.assert_array_equal(p.scores, scores)


def test_named_columns_are_read_beside_numbers_with_gaps(tmp_path: Path) -> None:
    """A risk at 30 and 90 days is no score of classes 30 and 90."""
    path = tmp_path / "risks.csv"
    path.write_text("probabilities_30,probabilities_90,risk,label\n.1,.2,.3,0\n.1,.4,.8,1\n")
    p = read(path, Columns(probabilities="risk"))
    assert p.scores[:, 1].tolist() == [0.3, 0.8]
    with pytest.raises(InputError, match=r"without a gap, got .* Name the columns of the classes"):
        read(path)
