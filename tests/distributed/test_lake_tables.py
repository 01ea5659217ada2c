"""Tables with a log: only the rows that are in the table count, never those of replaced files."""

import datetime
import json
import shutil
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.distributed.lakes import live, make_known, table
from tests.distributed.shards import random_predictions, write_shards
from tests.distributed.test_audit import assert_close, assert_same

import calibrant
from calibrant.calibrators import Temperature
from calibrant.cli import main
from calibrant.distributed import apply_to_files, audit, compare, fit
from calibrant.distributed.listing import list_files
from calibrant.errors import InputError

DAYS = [datetime.date(2026, 1, 1), datetime.date(2026, 1, 2), None]


def in_memory(rows, folder):
    """Return the audit of an Arrow table that is written as plain parquet."""
    pq.write_table(rows, folder / "plain.parquet")
    return calibrant.audit(calibrant.read(folder / "plain.parquet"), bootstrap=0)


def test_deleted_rows_of_a_delta_table_do_not_count(delta, tmp_path):
    found = audit(str(delta), bootstrap=0)
    assert_same(found, in_memory(live(delta), tmp_path))
    kept = live(delta).num_rows
    assert 0 < kept < 500  # All files below the folder hold more.
    assert sum(pq.read_metadata(file).num_rows for file in delta.rglob("*.parquet")) > 500
    assert found.provenance["n"] == kept
    assert fit(str(delta), "temperature").fitted_on_["n"] == kept
    assert audit(f"file://{delta}", bootstrap=0).provenance["n"] == kept
    assert audit([str(delta), str(delta)], bootstrap=0).provenance["n"] == 2 * kept


def test_the_commands_read_a_delta_table(delta, tmp_path, capsys):
    kept, saved = live(delta).num_rows, tmp_path / "t.json"
    assert main(["audit", str(delta), "--bootstrap", "0"]) == 2
    error = capsys.readouterr().err
    assert "belongs to a table of Delta, whose folder also keeps deleted rows" in error
    assert f"name the table, {delta}, with --engine ray" in error
    calibrator = fit(str(delta), "temperature")
    calibrator.save(saved)
    assert main(["apply", str(saved), str(delta), "-o", str(tmp_path / "x.parquet")]) == 2
    copied = apply_to_files(calibrator, str(delta), tmp_path / "out")
    assert copied.rows == kept
    assert audit(str(tmp_path / "out"), bootstrap=0).provenance["n"] == kept


def test_columns_that_partitions_are_named_by_are_read(tmp_path):
    deltalake = pytest.importorskip("deltalake", reason="Delta: pip install 'calibrant[delta]'")
    columns = {"site": ["a b/c", "ü=", "100%"] * 100, "day": DAYS * 100, "k": [1, 2, 3] * 100}
    rows = table(**columns)
    rows = rows.set_column(rows.column_names.index("day"), "day", pa.array(DAYS * 100, pa.date32()))
    place = tmp_path / "delta"
    deltalake.write_deltalake(place, rows, partition_by=["site", "day", "k"])
    found = audit(str(place), bootstrap=0, per=["site", "k"])
    pq.write_table(rows, tmp_path / "plain.parquet")
    whole = calibrant.read(tmp_path / "plain.parquet")
    expected = calibrant.audit(whole, bootstrap=0, per=["site", "k"]).to_dict()
    assert found.provenance["n"] == 300
    assert_close(found.to_dict()["per"], expected["per"], "per")
    with pytest.raises(InputError, match="belongs to a table of Delta"):
        audit(str(min(place.rglob("*.parquet"))), bootstrap=0)


def test_a_delta_table_of_deletion_vectors_is_refused(delta):
    """The vector is the example of Delta's protocol: rows 3, 4, 7, 11, 18 and 29."""
    log = delta / "_delta_log"
    added = next(
        line["add"]
        for file in sorted(log.glob("*.json"), reverse=True)
        for line in map(json.loads, file.read_text().splitlines())
        if "add" in line
    )
    vector = {
        "storageType": "i",
        "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
        "sizeInBytes": 44,
        "cardinality": 6,
    }
    features = {"minReaderVersion": 3, "minWriterVersion": 7}
    features |= {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    kept, number = live(delta).num_rows, len(list(log.glob("*.json")))
    (log / f"{number:020}.json").write_text(json.dumps({"protocol": features}) + "\n")
    assert audit(str(delta), bootstrap=0).provenance["n"] == kept  # No row has one yet.
    removed = {"path": added["path"], "dataChange": True, "deletionTimestamp": 0}
    lines = [{"remove": removed}, {"add": {**added, "deletionVector": vector}}]
    (log / f"{number + 1:020}.json").write_text("\n".join(map(json.dumps, lines)) + "\n")
    with pytest.raises(InputError, match=r"^[^\n]*delta: rows .* deletion vectors.*DataFrame"):
        audit(str(delta), bootstrap=0)
    (log / f"{number + 2:020}.json").write_text("{broken")
    with pytest.raises(InputError, match=r"^[^\n]*delta: its log cannot be read[^\n]*$"):
        audit(str(delta), bootstrap=0)


def test_a_delta_table_with_mapped_columns_is_refused(delta):
    log = delta / "_delta_log"
    meta = next(
        line["metaData"]
        for file in sorted(log.glob("*.json"))
        for line in map(json.loads, file.read_text().splitlines())
        if "metaData" in line
    )
    meta["configuration"] = {"delta.columnMapping.mode": "name"}
    schema = json.loads(meta["schemaString"])
    for number, field in enumerate(schema["fields"]):
        mapped = {"id": number, "physicalName": field["name"]}
        field["metadata"] = {f"delta.columnMapping.{name}": mapped[name] for name in mapped}
    meta["schemaString"] = json.dumps(schema)
    protocol = {"minReaderVersion": 2, "minWriterVersion": 5}
    number = len(list(log.glob("*.json")))
    lines = [{"protocol": protocol}, {"metaData": meta}]
    (log / f"{number:020}.json").write_text("\n".join(map(json.dumps, lines)) + "\n")
    with pytest.raises(InputError, match="uses columnMapping"):
        audit(str(delta), bootstrap=0)


def test_deleted_rows_of_an_iceberg_table_do_not_count(iceberg, tmp_path, monkeypatch):
    made, place, places = iceberg
    rows = made.scan().to_arrow()
    assert 0 < rows.num_rows < 500
    found = audit(str(place), bootstrap=0)
    assert_same(found, in_memory(rows, tmp_path))
    newest = made.metadata_location.removeprefix("file://")
    for path in (newest, f"file://{place}"):
        assert audit(path, bootstrap=0).provenance["n"] == rows.num_rows
    make_known(monkeypatch, "house", places)
    by_name = "iceberg:house/scores.valid"
    assert audit(by_name, bootstrap=0).provenance["n"] == rows.num_rows
    assert fit(by_name, "platt").fitted_on_["n"] == rows.num_rows
    copied = apply_to_files(Temperature().fit(random_predictions(99, 3)), by_name, tmp_path / "out")
    assert copied.rows == rows.num_rows
    with pytest.raises(InputError, match=r"^iceberg:house/scores\.none: .*not exist"):
        audit("iceberg:house/scores.none")


def test_files_of_an_iceberg_table_are_not_read_alone(iceberg, capsys):
    _, place, _ = iceberg
    for part in (place / "data", min((place / "data").iterdir()), place.parent):
        with pytest.raises(InputError, match="belongs to a table of Iceberg"):
            audit(str(part), bootstrap=0)
        assert main(["audit", str(part), "--bootstrap", "0"]) == 2
    assert capsys.readouterr().err


def test_columns_that_changed_their_names_are_refused(iceberg):
    made, place, _ = iceberg
    with made.update_schema() as change:
        change.rename_column("site", "city")
    with pytest.raises(InputError, match=r"logits, label, site.*logits, label, city"):
        audit(str(place), bootstrap=0)


def test_which_version_counts_must_be_clear(iceberg):
    made, place, _ = iceberg
    newest = Path(made.metadata_location.removeprefix("file://"))
    other = newest.with_name(newest.name.replace("-", "-0", 1))
    shutil.copy(newest, other)  # As two writers leave it, of which one failed.
    with pytest.raises(InputError, match="Which version of an Iceberg table counts is not clear"):
        audit(str(place), bootstrap=0)
    assert audit(str(newest), bootstrap=0).provenance["n"] == made.scan().to_arrow().num_rows


def test_files_of_deletes_are_refused(iceberg, monkeypatch):
    """pyiceberg writes none, so that its plan is given one."""
    _, place, _ = iceberg
    from pyiceberg.table import DataScan

    plan = DataScan.plan_files

    def with_deletes(scan):
        tasks = list(plan(scan))
        tasks[0].delete_files.add(tasks[0].file)
        return tasks

    monkeypatch.setattr(DataScan, "plan_files", with_deletes)
    with pytest.raises(InputError, match="files of deletes"):
        audit(str(place), bootstrap=0)


@pytest.mark.parametrize(
    ("log", "kind"),
    [
        ("_delta_log/00000000000000000000.json", "Delta"),
        ("metadata/v1.metadata.json", "Iceberg"),
        (".hoodie/hoodie.properties", "Hudi"),
    ],
)
def test_without_its_library_a_table_is_not_read_as_parquet(log, kind, tmp_path, monkeypatch):
    """A folder that deletes keep files in must never be summed up as it is."""
    import sys

    for name in ("deltalake", "pyiceberg.table"):
        monkeypatch.setitem(sys.modules, name, None)
    place = write_shards(random_predictions(100), tmp_path / "table", [50])
    assert audit(str(place), bootstrap=0).provenance["n"] == 100
    (place / log).parent.mkdir()
    (place / log).write_text("{}")
    with pytest.raises(calibrant.CalibrantError, match=r"pip install 'calibrant\[|not read"):
        audit(str(place), bootstrap=0)
    for below in (str(place / "*.parquet"), str(place / "part-000.parquet"), str(place.parent)):
        for read in (lambda p: audit(p, bootstrap=0), lambda p: compare(p, p, ["temperature"])):
            with pytest.raises(InputError, match=f"belongs to a table of {kind}"):
                read(below)
    for below in (place, place / "part-000.parquet"):
        with pytest.raises(InputError, match=f"belongs to a table of {kind}"):
            calibrant.read(below)


def test_remote_tables_are_found_too(tmp_path):
    memory = pytest.importorskip("fsspec").filesystem("memory")
    place = write_shards(random_predictions(100), tmp_path / "table", [50])
    memory.put(str(place), "/lake/table", recursive=True)
    assert audit("memory://lake/table", bootstrap=0).provenance["n"] == 100
    memory.pipe("/lake/table/.hoodie/hoodie.properties", b"")
    for below in ("memory://lake/table", "memory://lake", "memory://lake/table/part*.parquet"):
        with pytest.raises(InputError, match="Hudi"):
            audit(below, bootstrap=0)
    memory.rm("/lake", recursive=True)


def test_thousands_of_partitions_are_listed_quickly(tmp_path):
    for number in range(600):
        (tmp_path / f"day={number}").mkdir()
        (tmp_path / f"day={number}" / "a.parquet").touch()
    start = time.perf_counter()
    assert len(list_files(str(tmp_path))) == 600
    assert time.perf_counter() - start < 2
    assert np.all([file.added == () for file in list_files(str(tmp_path))])
