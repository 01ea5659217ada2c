"""Calibrated copies of a folder: the bytes of one process, each file once, resumable."""

import shutil

import pytest
from tests.distributed.shards import random_predictions, write_shards
from tests.distributed.test_bad_input import damage

from calibrant.calibrators import Temperature
from calibrant.distributed import LocalEngine
from calibrant.distributed.copying import apply_to_files
from calibrant.errors import InputError
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
