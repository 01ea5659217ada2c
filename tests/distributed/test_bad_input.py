"""What goes wrong on a cluster is one clear line, and names the file and the row group."""

import os
import re
import shutil
import socket
import threading
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.distributed.shards import make_parts_small, random_predictions, write_shards

import calibrant
from calibrant.calibrators import Temperature
from calibrant.cli import main
from calibrant.distributed import apply_to_files, audit, fit
from calibrant.distributed.engines import open_dataset, using_engine
from calibrant.errors import CalibrantError, InputError


@pytest.fixture
def folder(tmp_path):
    return write_shards(random_predictions(3000), tmp_path / "shards", [1000, 2000], groups=2)


def damage(path, group):
    """Overwrite the pages of one row group; the footer stays as it is."""
    column = pq.ParquetFile(path).metadata.row_group(group).column(0)
    data = bytearray(path.read_bytes())
    start = column.data_page_offset
    data[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(bytes(data))


def table(n=10, **columns):
    scores = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(3 * n, np.float32)), 3)
    return pa.table({"logits": scores, "label": np.arange(n) % 3, **columns})


def test_a_damaged_row_group_is_named(folder):
    damage(folder / "part-001.parquet", 1)
    with pytest.raises(InputError, match=r"part-001\.parquet: row group 1 is damaged"):
        audit(str(folder), bootstrap=0)


def test_what_is_left_out_is_counted(folder):
    damage(folder / "part-001.parquet", 1)
    (folder / "part-002.parquet").write_bytes(b"PAR1 no parquet")
    found = audit(str(folder), bootstrap=0, skip_damaged=True)
    left_out = found.provenance["left_out"]
    assert found.provenance["n"] == 1500
    assert (left_out["row_groups"], left_out["rows"], left_out["files"]) == (1, 500, 1)
    assert any("part-001.parquet: row group 1" in line for line in left_out["messages"])
    assert any("part-002.parquet" in line for line in left_out["messages"])


def test_a_truncated_file_is_named(folder):
    path = folder / "part-001.parquet"
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(InputError, match=r"part-001\.parquet: not a whole parquet file"):
        audit(str(folder), bootstrap=0)


def test_a_schema_that_differs_is_named(folder):
    pq.write_table(table().drop_columns(["label"]), folder / "part-003.parquet")
    with pytest.raises(InputError, match=r"part-003\.parquet: no column 'label'"):
        audit(str(folder), bootstrap=0)
    pq.write_table(table(site=["A"] * 10, more=["B"] * 10), folder / "part-003.parquet")
    with pytest.raises(InputError, match=r"part-003\.parquet: its columns differ.*more"):
        audit(str(folder), bootstrap=0)


def test_a_number_of_classes_that_differs_is_named(folder, monkeypatch):
    lists = pa.array([[0.0] * 5] * 10, pa.list_(pa.float32()))
    columns = {"logits": lists, "label": np.zeros(10, int), "site": ["A"] * 10}
    pq.write_table(pa.table(columns), folder / "part-003.parquet")
    for small in (False, True):
        if small:
            make_parts_small(monkeypatch)
        for run in (partial(audit, bootstrap=0), partial(fit, calibrator="vector")):
            with pytest.raises(InputError, match=r"differ in the number of classes: . in .*shards"):
                run(str(folder))


def test_empty_files_change_nothing(folder):
    expected = audit(str(folder), bootstrap=0)["ece"].value
    first = pq.read_table(folder / "part-000.parquet")
    pq.write_table(first[:0], folder / "part-003.parquet")
    assert audit(str(folder), bootstrap=0)["ece"].value == pytest.approx(expected, rel=1e-12)
    pq.write_table(first[:0], folder.parent / "empty.parquet")
    with pytest.raises(InputError, match="no rows"):
        audit(str(folder.parent / "empty.parquet"))


def test_only_parquet_is_read(tmp_path):
    (tmp_path / "a.csv").write_text("probabilities_0,probabilities_1,label\n.5,.5,0\n")
    with pytest.raises(InputError, match="an engine reads parquet files only"):
        audit(str(tmp_path / "a.csv"))
    with pytest.raises(InputError, match="no such file"):
        audit(str(tmp_path / "b.parquet"))


@contextmanager
def as_somebody():
    """Give up the rights of root, who may read everything."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.fixture
def open_folder(folder):
    """The files in a place that everybody may enter, and one more in a folder below."""
    with TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        copied = Path(shutil.copytree(folder, f"{place}/in"))
        (copied / "day=2").mkdir()
        shutil.copy(copied / "part-000.parquet", copied / "day=2")
        yield copied
        for path in (copied, *copied.rglob("*")):
            path.chmod(0o755)


@pytest.mark.parametrize("refused", ["part-001.parquet", "day=2", "."])
def test_what_may_not_be_read_is_never_left_out(refused, open_folder, tmp_path):
    (open_folder / refused).chmod(0)
    calibrator = Temperature().fit(random_predictions(100))
    where = re.escape(str(open_folder / refused))
    tasks = [
        lambda path: audit(path, bootstrap=0, skip_damaged=True),  # It is not damage.
        lambda path: fit(path, "temperature"),
        lambda path: apply_to_files(calibrator, path, tmp_path / "out", skip_damaged=True),
    ]
    with as_somebody():
        for task in tasks:
            with pytest.raises(InputError, match=f"^{where}: no permission to read it"):
                task(str(open_folder))


def test_a_file_of_a_refused_folder_is_one_line(open_folder):
    open_folder.chmod(0)
    with as_somebody():
        for task in (lambda path: audit(path, bootstrap=0), calibrant.read):
            with pytest.raises(InputError, match=r"part-000\.parquet: no permission to read it"):
                task(str(open_folder / "part-000.parquet"))
        with pytest.raises(InputError, match="in: no permission to read it"):
            calibrant.read(str(open_folder))


def test_one_damaged_file_among_more_than_a_thousand_is_named(tmp_path):
    predictions = random_predictions(20)
    first = write_shards(predictions, tmp_path / "shards", [], groups=1) / "part-000.parquet"
    for number in range(1, 1200):
        shutil.copyfile(first, first.with_name(f"part-{number:04}.parquet"))
    damage(first.with_name("part-1134.parquet"), 0)
    with pytest.raises(InputError, match=r"part-1134\.parquet: row group 0 is damaged"):
        audit(str(first.parent), bootstrap=0)
    found = audit(str(first.parent), bootstrap=0, skip_damaged=True).provenance
    assert found["n"] == 1199 * 20
    assert [found["left_out"][name] for name in ("row_groups", "rows", "files")] == [1, 20, 0]
    assert "part-1134.parquet: row group 0" in found["left_out"]["messages"][0]


def test_remote_folders_are_read_by_fsspec(folder):
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    for path in sorted(folder.iterdir()):
        memory.pipe(f"/bucket/day=1/{path.name}", path.read_bytes())
    memory.pipe("/bucket/_temporary/part-009.parquet", b"left by a writer")
    found = audit("memory://bucket", bootstrap=0)
    assert found["ece"].value == audit(str(folder), bootstrap=0)["ece"].value
    with pytest.raises(InputError, match="there is no parquet file"):
        audit("memory://bucket/*.csv")
    with pytest.raises(InputError, match=r"nowhere://bucket: "):
        audit("nowhere://bucket")


def test_the_name_of_an_engine_is_refused_with_what_opens_it():
    with pytest.raises(InputError, match=r"got 'ray'; .* with using_engine\('ray'\) as engine"):
        audit("folder", engine="ray")


def test_other_data_is_refused():
    with pytest.raises(InputError, match=r"takes parquet paths, .*, got a int"):
        open_dataset(5)


def test_an_engine_that_is_not_there_is_one_line(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(CalibrantError, match=r"needs ray.*pip install"), using_engine("ray"):
        pass


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", b"SSH-2.0-OpenSSH"])
def test_what_answers_but_is_not_ray_is_one_line(answer, folder, capfd):
    """Ray itself would try for minutes, and write its own lines."""
    pytest.importorskip("ray", reason="Ray is not installed")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            for _ in range(2):  # Whether it answers, and what.
                talk, _ = server.accept()
                with talk:
                    talk.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert main(["audit", str(folder), "--engine", f"ray:{address}"]) == 2
    found = capfd.readouterr().err
    assert f"No Ray cluster at '{address}': what answers there is not Ray." in found
    assert found.count("\n") == 1


def test_a_sample_is_not_for_an_engine(folder, capsys):
    assert main(["audit", str(folder), "--sample", "100", "--engine", "ray"]) == 2
    assert "--sample is not for --engine" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["audit", "fit -o x.json", "compare"])
def test_documents_with_entities_are_not_for_an_engine(command, folder, capsys):
    """They would be read here, and the cluster would do nothing."""
    name, *rest = command.split()
    for kind in ("--entities", "--reviewed"):
        if name == "compare" and kind == "--reviewed":
            continue
        files = [str(folder)] * 2
        assert main([name, kind, *files, *rest, "--engine", "ray"]) == 2
        assert f"{kind} is not for --engine" in capsys.readouterr().err


def test_skipping_needs_an_engine(folder, capsys):
    assert main(["audit", str(folder), "--skip-corrupt"]) == 2
    assert "--skip-corrupt needs --engine" in capsys.readouterr().err


@pytest.mark.parametrize("given", [".", "./", "./shards", "shards//", "../in/shards"])
def test_every_file_of_a_folder_is_read_however_it_is_spelled(given, tmp_path, monkeypatch):
    folder = tmp_path / "in" / "shards"
    folder.mkdir(parents=True)
    for number in range(11):  # Names of one and two characters: no prefix hides any of them.
        random_predictions(20, seed=number).write(folder / f"{number}.parquet")
    monkeypatch.chdir(folder if given in (".", "./") else folder.parent)
    assert audit(given, bootstrap=0).provenance["n"] == 220


@pytest.mark.parametrize("error", [PermissionError("Access Denied"), FileNotFoundError("a key")])
def test_what_a_remote_storage_refuses_is_not_damage(error, folder, monkeypatch):
    memory = pytest.importorskip("fsspec").filesystem("memory")
    for path in sorted(folder.iterdir()):
        memory.pipe(f"/refused/{path.name}", path.read_bytes())
    opened = type(memory).open

    def refused(self, path, *rest, **options):
        if path.endswith("part-001.parquet"):
            raise error  # Without a number, as s3fs raises it.
        return opened(self, path, *rest, **options)

    monkeypatch.setattr(type(memory), "open", refused)
    with pytest.raises(InputError, match=r"part-001\.parquet"):
        audit("memory://refused", skip_damaged=True)


def test_a_calibrator_that_reads_whole_sentences_is_refused(folder):
    calibrator = Temperature().fit(random_predictions(200))
    calibrator.signals_ = ("sentence.margin",)
    with pytest.raises(InputError, match=r"means over sentences.*audit the copies"):
        audit(str(folder), calibrator=calibrator)


def test_no_name_is_not_the_folder_of_the_process(folder, monkeypatch):
    monkeypatch.chdir(folder)
    with pytest.raises(InputError, match="An empty file name was given"):
        audit("")
    with pytest.raises(InputError, match="No file was named"):
        audit([])


def test_rows_after_a_skipped_row_group_keep_their_numbers(folder):
    whole = audit(str(folder), bootstrap=0, mistakes=3000)
    damage(folder / "part-001.parquet", 0)  # Rows 1000 to 1499, in the middle of a part.
    found = audit(str(folder), bootstrap=0, mistakes=3000, skip_damaged=True)
    rows = sorted(mistake.row for mistake in found.mistakes)
    expected = sorted(m.row for m in whole.mistakes if not 1000 <= m.row < 1500)
    assert rows == expected
