"""Calibrated copies of a folder: the bytes of one process, each file once, resumable."""

import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

import pytest
from tests.distributed.shards import random_predictions, write_shards
from tests.distributed.test_bad_input import damage

from calibrant.calibrators import Temperature
from calibrant.distributed import LocalEngine, audit
from calibrant.distributed.copying import _Copy, apply_to_files
from calibrant.errors import CalibrantError, InputError
from calibrant.files import rewrite


@pytest.fixture(scope="module")
def calibrator():
    return Temperature().fit(random_predictions(500, seed=1))


@pytest.fixture
def folder(tmp_path):
    """Three files, one of them in a folder below."""
    found = write_shards(random_predictions(900), tmp_path / "in", [300, 500])
    (found / "day=2").mkdir()
    (found / "part-002.parquet").rename(found / "day=2" / "part-002.parquet")
    return found


NAMES = ["part-000.parquet", "part-001.parquet", "day=2/part-002.parquet"]


def expected(folder, calibrator, place):
    """Return the bytes of each copy that one process writes."""
    found = {}
    for name in NAMES:
        rewrite(folder / name, place / "one.parquet", calibrator.transform, overwrite=True)
        found[name] = (place / "one.parquet").read_bytes()
    return found


def written(out):
    files = [file for file in out.rglob("*") if file.is_file()]
    return {str(file.relative_to(out)): file.read_bytes() for file in files}


def test_a_folder_has_the_copies_that_one_process_writes(folder, calibrator, tmp_path):
    copied = apply_to_files(calibrator, str(folder), tmp_path / "out")
    assert copied == (900, 3, ())
    found = written(tmp_path / "out")
    assert found.pop("_SUCCESS") == b""
    assert found == expected(folder, calibrator, tmp_path)
    assert not (tmp_path / "out.partial").exists()
    with pytest.raises(InputError, match="exists"):
        apply_to_files(calibrator, str(folder), tmp_path / "out")
    assert apply_to_files(calibrator, str(folder), tmp_path / "out", overwrite=True).files == 3
    assert sorted(file.name for file in tmp_path.iterdir()) == ["in", "one.parquet", "out"]


class Interrupted(LocalEngine):
    """Runs each part twice, as a slow worker and its second try would, and stops after two."""

    def map(self, task, parts):
        for number, part in enumerate(parts):
            if number == 2:
                raise KeyboardInterrupt
            assert task(part) == task(part)
            yield task(part)


class Counting(LocalEngine):
    def __init__(self):
        self.names = []

    def map(self, task, parts):
        self.names = [part.name for part in parts]
        return super().map(task, parts)


@pytest.mark.parametrize("remote", [False, True])
def test_after_a_kill_only_what_is_missing_is_copied(folder, calibrator, tmp_path, remote):
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    out = f"memory://{tmp_path.name}/out" if remote else str(tmp_path / "out")
    with pytest.raises(KeyboardInterrupt):
        apply_to_files(calibrator, str(folder), out, engine=Interrupted())
    other = Temperature().fit(random_predictions(500, seed=2))
    with pytest.raises(InputError, match="unfinished output of another command"):
        apply_to_files(other, str(folder), out)
    engine = Counting()
    assert apply_to_files(calibrator, str(folder), out, engine=engine).rows == 900
    assert len(engine.names) == 1
    if remote:
        memory.get(out, str(tmp_path / "out"), recursive=True)
        memory.rm(out, recursive=True)
    found = written(tmp_path / "out")
    assert found.pop("_SUCCESS") == b""
    assert found == expected(folder, calibrator, tmp_path)


def test_remote_folders(folder, calibrator, tmp_path):
    memory = pytest.importorskip("fsspec").filesystem("memory")
    place = f"memory://{tmp_path.name}"
    memory.put(str(folder), f"{place}/in", recursive=True)
    memory.pipe_file(f"{place}/out/notes.txt", b"mine")
    with pytest.raises(InputError, match="holds other files"):
        apply_to_files(calibrator, f"{place}/in", f"{place}/out")
    apply_to_files(calibrator, f"{place}/in", f"{place}/out", overwrite=True)
    memory.get(f"{place}/out", str(tmp_path / "out"), recursive=True)
    found = written(tmp_path / "out")
    assert (found.pop("_SUCCESS"), found.pop("notes.txt")) == (b"", b"mine")
    assert found == expected(folder, calibrator, tmp_path)
    with pytest.raises(InputError, match="which is read: name another folder"):
        apply_to_files(calibrator, f"{place}/in", place, overwrite=True)
    memory.pipe_file(f"{place}/in/part-000.parquet", b"PAR1 broken")
    with pytest.raises(InputError, match=r"memory://.*part-000.parquet: not a whole parquet file"):
        apply_to_files(calibrator, f"{place}/in", f"{place}/other")
    memory.rm(place, recursive=True)


def test_a_damaged_file_is_named_or_left_out(folder, calibrator, tmp_path):
    damage(folder / "part-001.parquet", 1)
    with pytest.raises(InputError, match=r"part-001.parquet: row group 1 is damaged"):
        apply_to_files(calibrator, str(folder), tmp_path / "out")
    assert not (tmp_path / "out.partial").exists()
    (folder / "part-000.parquet").write_bytes(b"PAR1 broken")
    copied = apply_to_files(calibrator, str(folder), tmp_path / "out", skip_damaged=True)
    assert (copied.rows, copied.files) == (400, 1)
    assert ["part-000" in m or "part-001" in m for m in copied.damaged] == [True, True]
    assert sorted(written(tmp_path / "out")) == ["_SUCCESS", "day=2/part-002.parquet"]
    shutil.copyfile(folder / "part-000.parquet", folder / "day=2" / "part-002.parquet")
    with pytest.raises(InputError, match="No parquet file of"):
        apply_to_files(calibrator, str(folder), tmp_path / "no", skip_damaged=True)


def test_bad_input(folder, calibrator, tmp_path):
    with pytest.raises(InputError, match="which is read: name another folder"):
        apply_to_files(calibrator, str(folder), folder, overwrite=True)
    for inside in (folder / "calibrated", folder / "day=2"):
        with pytest.raises(InputError, match=r"would be read with it next time|which is read"):
            apply_to_files(calibrator, [str(folder)], inside, overwrite=True)
    assert apply_to_files(calibrator, str(folder / "*.parquet"), folder / "calibrated").files == 2
    shutil.rmtree(folder / "calibrated")
    twins = [str(folder / "part-000.parquet"), str(copy_of(folder))]
    with pytest.raises(InputError, match=r"2 files are called part-000\.parquet"):
        apply_to_files(calibrator, twins, tmp_path / "out")
    other = Temperature().fit(random_predictions(500, classes=3))
    with pytest.raises(InputError, match="classes"):
        apply_to_files(other, str(folder), tmp_path / "out")
    assert not (tmp_path / "out.partial").exists()


class Threads(LocalEngine):
    """Runs all parts side by side, as a cluster does, and leaves the others when one fails."""

    def map(self, task, parts):
        pool = ThreadPoolExecutor(len(parts))
        try:
            for done in as_completed([pool.submit(task, part) for part in parts]):
                yield done.result()
        finally:
            pool.shutdown(wait=False)


def test_a_slow_worker_changes_nothing_after_the_end(folder, calibrator, tmp_path, monkeypatch):
    """It would make the unfinished folder again, and the corrected command would be refused."""
    ended, copied = threading.Event(), []

    def slow(task, source, target):
        if source.endswith("part-000.parquet"):
            raise InputError("it is damaged.")
        assert ended.wait(60)
        try:
            copy(task, source, target)
        finally:
            copied.append(source)

    copy = _Copy._copy
    with monkeypatch.context() as patch:
        patch.setattr(_Copy, "_copy", slow)
        with pytest.raises(InputError, match="it is damaged"):
            apply_to_files(calibrator, str(folder), tmp_path / "out", engine=Threads())
        ended.set()
        deadline = time.monotonic() + 60
        while len(copied) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert len(copied) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    assert apply_to_files(calibrator, str(folder), tmp_path / "out", engine=Threads()).files == 3


class Elsewhere(LocalEngine):
    """A node with disks of its own: what is gone before a copy is made, or after it."""

    def __init__(self, before=(), after=()):
        self.before, self.after = before, after

    def map(self, task, parts):
        for part in parts:
            for path in self.before:
                shutil.rmtree(path)
            found = task(part)
            for path in self.after:
                path.unlink(missing_ok=True)
            yield found


def test_a_disk_that_nodes_do_not_share_is_one_line(folder, calibrator, tmp_path):
    """Copies on the disks of other nodes would be missing without a word."""
    out, partial = tmp_path / "out", tmp_path / "out.partial"
    with pytest.raises(CalibrantError, match=r"out\.partial is not there on the node .*s3://"):
        apply_to_files(calibrator, str(folder), out, engine=Elsewhere(before=[partial]))
    lost = [partial / name for name in NAMES[1:]]
    with pytest.raises(CalibrantError, match=r"2 of 3 copies are not there, such as "):
        apply_to_files(calibrator, str(folder), out, engine=Elsewhere(after=lost))
    assert not out.exists()
    with pytest.raises(InputError, match=r"part-00\d\.parquet: it was listed, but is not there on"):
        audit(str(folder), engine=Elsewhere(before=[folder]), bootstrap=0)


def test_relative_names_mean_the_same_on_workers(folder, calibrator, tmp_path, monkeypatch):
    """Workers of a cluster that runs already are in a folder of their own."""

    class Away(LocalEngine):
        def map(self, task, parts):
            with monkeypatch.context() as patch:
                patch.chdir("/")
                found = [task(part) for part in parts]
            yield from found

    whole = expected(folder, calibrator, tmp_path)
    monkeypatch.chdir(tmp_path)
    assert audit("in", engine=Away(), bootstrap=0).provenance["n"] == 900
    for given in ("in", "./in/../in"):
        copied = apply_to_files(calibrator, given, "out", engine=Away(), overwrite=True)
        assert copied.files == 3
        found = written(tmp_path / "out")
        assert found.pop("_SUCCESS") == b""
        assert found == whole


def copy_of(folder):
    """Return a copy of the first file in another folder."""
    other = folder.parent / "other"
    other.mkdir()
    return shutil.copy(folder / "part-000.parquet", other)


def test_copies_of_a_file_that_changed_are_not_kept(folder, calibrator, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        apply_to_files(calibrator, str(folder), tmp_path / "out", engine=Interrupted())
    random_predictions(300, seed=3).write(folder / "part-000.parquet", overwrite=True)
    with pytest.raises(InputError, match="or other input"):
        apply_to_files(calibrator, str(folder), tmp_path / "out")
    apply_to_files(calibrator, str(folder), tmp_path / "out", overwrite=True)
    found = written(tmp_path / "out")
    assert found["part-000.parquet"] == expected(folder, calibrator, tmp_path)["part-000.parquet"]
