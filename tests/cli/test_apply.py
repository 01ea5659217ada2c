"""``calibrant apply``: the probabilities are calibrated, and everything else stays."""

import csv
import gzip
import json
import zipfile
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.numpy

from calibrant import Predictions, files
from calibrant.calibrators import Temperature
from calibrant.cli import main
from calibrant.files import read

NAMES = ("cat", "dog", "owl")
ROWS = 257


@pytest.fixture
def logits():
    return np.random.default_rng(0).normal(size=(ROWS, 3)).astype(np.float32) * 4


@pytest.fixture
def fitted(tmp_path):
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, 400)
    scores = 5 * (rng.normal(size=(400, 3)) + np.eye(3)[labels])
    calibrator = Temperature().fit(Predictions.from_logits(scores, labels, label_names=NAMES))
    calibrator.save(tmp_path / "map.json")
    return calibrator


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(files, "rewrite", partial(files.rewrite, rows=100))


def expected(fitted, scores, kind="logits"):
    make = Predictions.from_logits if kind == "logits" else Predictions.from_probabilities
    return fitted.transform(make(scores, np.zeros(len(scores), int))).probabilities()


def apply(tmp_path, source, target, *options):
    paths = [str(tmp_path / "map.json"), str(tmp_path / source), "-o", str(tmp_path / target)]
    return main(["apply", *paths, *options])


def labels(n=ROWS):
    return np.where(np.arange(n) % 7 == 0, -100, np.arange(n) % 3)


def others():
    """Columns that calibrant has no use for, some of which it cannot even read."""
    return {
        "text": [f"word {i}" if i % 5 else None for i in range(ROWS)],
        "tokens": [["a", "b"][: i % 3] for i in range(ROWS)],
        "meta": [{"page": i, "ok": i % 2 == 0} for i in range(ROWS)],
        "sentence": list(range(ROWS)),
    }


@pytest.mark.parametrize(
    "type_", [pa.list_(pa.float32()), pa.list_(pa.float32(), 3), pa.large_list(pa.float64())]
)
def test_parquet_keeps_all_rows_and_columns(fitted, logits, tmp_path, type_):
    table = pa.table(
        {
            "text": others()["text"],
            "logits": pa.array(logits.tolist(), type_),
            "label": labels(),
            **{k: v for k, v in others().items() if k != "text"},
        }
    ).replace_schema_metadata({"who": "me", "label_names": json.dumps(NAMES)})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=64)
    assert apply(tmp_path, "in.parquet", "out.parquet") == 0
    out = pq.read_table(tmp_path / "out.parquet")
    names = [n.replace("logits", "probabilities") for n in table.column_names]
    assert out.column_names == names
    for name in others():
        assert out[name].to_pylist() == table[name].to_pylist()
        assert out.schema.field(name).type == table.schema.field(name).type
    assert out["label"].to_pylist() == labels().tolist()  # Ignored rows too.
    got = np.array(out["probabilities"].to_pylist())
    np.testing.assert_allclose(got, expected(fitted, logits), atol=1e-6)
    assert out.schema.metadata[b"who"] == b"me"
    again = read(tmp_path / "out.parquet")
    assert (again.kind, again.label_names) == ("probabilities", NAMES)
    assert again.ignored == (labels() == -100).sum()


def test_parquet_with_one_column_per_class_and_nothing_else(fitted, logits, tmp_path):
    columns = {f"logits:{name}": logits[:, k] for k, name in enumerate(NAMES)}
    pq.write_table(pa.table(columns), tmp_path / "in.parquet")
    assert apply(tmp_path, "in.parquet", "out.parquet") == 0
    out = pq.read_table(tmp_path / "out.parquet")
    assert out.column_names == [f"probabilities:{name}" for name in NAMES]
    got = np.stack([out[name].to_numpy() for name in out.column_names], axis=1)
    np.testing.assert_allclose(got, expected(fitted, logits), atol=1e-6)


def test_probabilities_are_replaced_under_their_own_name(fitted, logits, tmp_path):
    probabilities = Predictions.from_logits(logits, np.zeros(ROWS, int)).probabilities()
    table = pa.table({"p": pa.array(probabilities.tolist()), "id": np.arange(ROWS)})
    pq.write_table(table, tmp_path / "in.parquet")
    assert apply(tmp_path, "in.parquet", "out.parquet", "--probabilities-column", "p") == 0
    out = pq.read_table(tmp_path / "out.parquet")
    assert out.column_names == ["p", "id"]
    got = np.array(out["p"].to_pylist())
    np.testing.assert_allclose(got, expected(fitted, logits), atol=1e-6)


def test_old_probabilities_beside_logits_give_way(fitted, logits, tmp_path):
    table = pa.table({"probabilities": [[1.0, 0, 0]] * ROWS, "logits": logits.tolist()})
    pq.write_table(table, tmp_path / "in.parquet")
    assert apply(tmp_path, "in.parquet", "out.parquet", "--kind", "logits") == 0
    out = pq.read_table(tmp_path / "out.parquet")
    assert out.column_names == ["probabilities"]
    got = np.array(out["probabilities"].to_pylist())
    np.testing.assert_allclose(got, expected(fitted, logits), atol=1e-6)


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_csv(fitted, logits, tmp_path, suffix):
    opener = gzip.open if suffix.endswith("gz") else open
    with opener(tmp_path / f"in{suffix}", "wt", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["note", "logits_0", "logits_1", "logits_2", "label", "id"])
        for i, row in enumerate(logits.tolist()):
            writer.writerow([f'say "{i}",\nthen', *row, labels()[i], f"{i:05}"])
    assert apply(tmp_path, f"in{suffix}", f"out{suffix}") == 0
    with opener(tmp_path / f"out{suffix}", "rt", newline="") as file:
        header, *records = csv.reader(file)
    assert header == [
        "note",
        *(f"probabilities_{k}" for k in range(3)),
        "label",
        "id",
    ]
    assert [r[0] for r in records] == [f'say "{i}",\nthen' for i in range(ROWS)]
    assert [r[5] for r in records] == [f"{i:05}" for i in range(ROWS)]
    assert [int(r[4]) for r in records] == labels().tolist()
    got = np.array([r[1:4] for r in records], float)
    np.testing.assert_allclose(got, expected(fitted, logits), atol=1e-6)


@pytest.mark.parametrize("form", ["list", "object", "keys"])
def test_jsonl(fitted, logits, tmp_path, form):
    def scores(kind, row):
        if form == "list":
            return {kind: row}
        if form == "object":
            return {kind: dict(zip(NAMES, row, strict=True))}
        return {f"{kind}:{name}": value for name, value in zip(NAMES, row, strict=True)}

    extra = {"nested": {"ü": [1, None]}, "label": "dog"}
    with (tmp_path / "in.jsonl").open("w") as file:
        for i, row in enumerate(logits.tolist()):
            file.write(json.dumps({"id": i, **scores("logits", row), **extra}) + "\n")
    assert apply(tmp_path, "in.jsonl", "out.jsonl") == 0
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert len(lines) == ROWS
    for i, (line, row) in enumerate(zip(lines, expected(fitted, logits), strict=True)):
        record = json.loads(line)
        wanted = {"id": i, **scores("probabilities", row.tolist()), **extra}
        assert list(record) == list(wanted)
        assert {k: record[k] for k in ("id", *extra)} == {"id": i, **extra}
        flat = record["probabilities"] if form != "keys" else [record[k] for k in list(record)[1:4]]
        flat = list(flat.values()) if form == "object" else flat
        np.testing.assert_allclose(flat, row, atol=1e-6)


def test_members_of_an_npz_that_are_no_arrays_keep_their_names(fitted, logits, tmp_path):
    np.savez(tmp_path / "in.npz", logits=logits)
    with zipfile.ZipFile(tmp_path / "in.npz", "a") as archive:
        archive.writestr("logits", "no array")
        archive.writestr("notes.txt", "mine")
    assert apply(tmp_path, "in.npz", "out.npz") == 0
    with zipfile.ZipFile(tmp_path / "out.npz") as archive:
        assert archive.namelist() == ["probabilities.npy", "logits", "notes.txt"]
        assert archive.read("notes.txt") == b"mine"


def test_npz_of_whole_sentences(fitted, logits, tmp_path):
    tokens = logits[:256].reshape(64, 4, 3)
    np.savez_compressed(
        tmp_path / "in.npz",
        logits=tokens,
        labels=labels(256).reshape(64, 4),
        ids=np.arange(64),
        label_names=np.array(NAMES),
        other=np.arange(5.0),
    )
    assert apply(tmp_path, "in.npz", "out.npz") == 0
    out = np.load(tmp_path / "out.npz")
    assert set(out) == {"probabilities", "labels", "ids", "label_names", "other"}
    np.testing.assert_allclose(
        out["probabilities"], expected(fitted, logits[:256]).reshape(64, 4, 3), atol=1e-6
    )
    np.testing.assert_array_equal(out["labels"], labels(256).reshape(64, 4))
    np.testing.assert_array_equal(out["other"], np.arange(5.0))


def test_safetensors(fitted, logits, tmp_path):
    arrays = {
        "logits": logits,
        "mask": np.arange(ROWS) % 2 == 0,
        "wide": np.arange(ROWS, dtype=np.float64),
        "half": np.ones((3, 2), np.float16),
    }
    safetensors.numpy.save_file(arrays, tmp_path / "in.safetensors", {"who": "me"})
    assert apply(tmp_path, "in.safetensors", "out.safetensors") == 0
    out = safetensors.numpy.load_file(tmp_path / "out.safetensors")
    np.testing.assert_allclose(out.pop("probabilities"), expected(fitted, logits), atol=1e-6)
    assert set(out) == set(arrays) - {"logits"}
    for name, value in out.items():
        np.testing.assert_array_equal(value, arrays[name])
    with safetensors.safe_open(tmp_path / "out.safetensors", "numpy") as file:
        assert file.metadata() == {"who": "me"}


def test_one_score_per_row_is_the_probability_of_class_one(tmp_path):
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 300)
    scores = 5 * (truth - 0.5 + rng.normal(size=300))
    fitted = Temperature().fit(Predictions.from_logits(scores, truth))
    fitted.save(tmp_path / "map.json")
    np.savez(tmp_path / "in.npz", logits=scores)
    assert apply(tmp_path, "in.npz", "out.npz") == 0
    got = np.load(tmp_path / "out.npz")["probabilities"]
    np.testing.assert_allclose(got, 1 / (1 + np.exp(-scores / fitted.temperature_)))


def test_folder_of_shards(fitted, logits, tmp_path, capsys):
    (tmp_path / "in").mkdir()
    for number, rows in enumerate(np.array_split(logits, 3)):
        pq.write_table(
            pa.table({"logits": rows.tolist()}), tmp_path / "in" / f"part-{number}.parquet"
        )
    assert apply(tmp_path, "in", "out") == 0
    got = np.concatenate(
        [
            pq.read_table(p)["probabilities"].to_pylist()
            for p in sorted((tmp_path / "out").iterdir())
        ]
    )
    np.testing.assert_allclose(got, expected(fitted, logits), atol=1e-6)
    assert f"applied to {ROWS} rows" in capsys.readouterr().out


def one_line(capsys):
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


def test_nothing_is_written_over_and_failures_leave_nothing(fitted, logits, tmp_path, capsys):
    np.savez(tmp_path / "in.npz", logits=logits)
    (tmp_path / "out.npz").write_bytes(b"mine")
    assert apply(tmp_path, "in.npz", "out.npz") == 2
    assert "--overwrite" in one_line(capsys)
    assert (tmp_path / "out.npz").read_bytes() == b"mine"
    assert apply(tmp_path, "in.npz", "out.npz", "--overwrite") == 0
    assert apply(tmp_path, "in.npz", "in.npz", "--overwrite") == 2
    assert "cannot overwrite itself" in one_line(capsys)

    broken = logits.copy()
    broken[200, 1] = np.nan  # In the third chunk.
    pq.write_table(pa.table({"logits": broken.tolist()}), tmp_path / "bad.parquet")
    before = sorted(tmp_path.iterdir())
    assert apply(tmp_path, "bad.parquet", "new.parquet") == 2
    error = one_line(capsys)
    assert "row 200" in error
    assert "bad.parquet" in error
    assert sorted(tmp_path.iterdir()) == before


def test_other_data_are_refused(fitted, logits, tmp_path, capsys):
    np.savez(tmp_path / "two.npz", logits=logits[:, :2])
    assert apply(tmp_path, "two.npz", "out.npz") == 2
    assert "fitted on 3 classes" in one_line(capsys)
    np.savez(tmp_path / "names.npz", logits=logits, label_names=np.array(["owl", "dog", "cat"]))
    assert apply(tmp_path, "names.npz", "out.npz") == 2
    assert "same names in another order" in one_line(capsys)
    np.savez(tmp_path / "in.npz", logits=logits)
    assert apply(tmp_path, "in.npz", "out.parquet") == 2
    assert "must end in .npz" in one_line(capsys)
    np.savez(tmp_path / "none.npz", scores=logits)
    assert apply(tmp_path, "none.npz", "out.npz") == 2
    assert "no column of logits or probabilities" in one_line(capsys)
    assert main(["apply", "none.json", str(tmp_path / "in.npz"), "-o", "x.npz"]) == 2
    assert "no calibrator at none.json" in one_line(capsys)


def test_a_broken_shard_leaves_none_of_the_others(fitted, logits, tmp_path, capsys):
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    for name, scores in (("a", logits), ("b", logits), ("c", logits[:, :2])):
        pq.write_table(pa.table({"logits": scores.tolist()}), tmp_path / "in" / f"{name}.parquet")
    (tmp_path / "out" / "b.parquet").write_bytes(b"mine")
    assert apply(tmp_path, "in", "out", "--overwrite") == 2
    assert "fitted on 3 classes" in one_line(capsys)
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["b.parquet"]
