"""Spark: the same results as here, also when an executor is killed in the middle."""

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.distributed.shards import random_predictions, write_shards

from calibrant.distributed.engine import FAN_IN
from calibrant.distributed.engines import open_dataset, using_engine
from calibrant.distributed.reading import reader_of
from calibrant.errors import InputError

pyspark = pytest.importorskip("pyspark", reason="Spark: pip install 'calibrant[spark]'")
psutil = pytest.importorskip("psutil")
pytestmark = [
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java, see README.md"),
    pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL"),
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning"),
    pytest.mark.xdist_group("spark"),
]


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    """Two executors on this machine, each a process of its own."""
    place = tmp_path_factory.mktemp("spark")
    pyspark.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_HOME", str(linked_home(place / "home")))
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        builder = pyspark.sql.SparkSession.builder.master("local-cluster[2,1,1024]")
        for name, value in SETTINGS.items():
            builder = builder.config(name, value)
        session = builder.config("spark.sql.warehouse.dir", str(place / "tables")).getOrCreate()
        yield session
        session.stop()
    pyspark.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def linked_home(folder):
    """Return a home of Spark whose executors write their logs there, not among the packages."""
    folder.mkdir()
    for file in Path(pyspark.__file__).parent.iterdir():
        (folder / file.name).symlink_to(file)
    return folder


SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.files.openCostInBytes": "1000000000",  # One file per partition.
}


def square(part):
    if part == 13:
        raise InputError("thirteen is refused.")
    return str(part * part).encode()


def add(results):
    return str(sum(map(int, results))).encode()


def rows_of(part):
    return repr(sum(len(rows.batch) for rows in part.tables(None, 100))).encode()


def kill_executor(marker):
    """Kill the Java process that this worker belongs to, but only the first time."""
    if Path(marker).exists():
        return
    Path(marker).touch()
    for process in psutil.Process().parents():
        if "CoarseGrainedExecutorBackend" in " ".join(process.cmdline()):
            process.kill()
            os._exit(1)


@dataclass
class Deadly:
    """A task that kills its executor at one part, the first time."""

    number: int
    marker: str

    def __call__(self, part):
        if part == self.number:
            kill_executor(self.marker)
        return square(part)


def deadly(frame, marker):
    """Return the same table, whose last partition kills its executor when it is read first."""

    def same(batches):
        for batch in batches:
            if pyspark.TaskContext.get().partitionId() == 1:
                kill_executor(marker)
            yield batch

    return frame.mapInArrow(same, frame.schema)


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """Predictions and their folder of three files."""
    predictions = random_predictions(3000, sentences=7)
    return predictions, write_shards(predictions, tmp_path_factory.mktemp("shards"), [700, 1500])


def test_every_part_counts_once(spark, tmp_path):
    with using_engine("spark") as engine:
        assert engine.reduce(square, add, []) == b""
        assert list(engine.map(square, [3])) == [b"9"]
        parts = [k for k in range(3 * FAN_IN) if k != 13]
        expected = sum(k * k for k in parts)
        task = Deadly(5, str(tmp_path / "killed"))
        assert int(engine.reduce(task, add, parts)) == expected
        assert (tmp_path / "killed").exists()
        with pytest.raises(InputError, match=r"^thirteen is refused\.$"):
            engine.reduce(square, add, list(range(20)))


def test_a_frame_has_the_rows_of_its_files(spark, shards):
    predictions, folder = shards
    frame = spark.read.parquet(str(folder)).repartition(3, "site")  # One may be empty.
    dataset = open_dataset(frame).dataset
    assert dataset.count() == len(predictions)
    assert int(dataset.reduce(rows_of, add)) == len(predictions)
    assert reader_of(dataset).layout.kind == "logits"
    empty = open_dataset(frame.filter("label < 0")).dataset
    assert empty.reduce(rows_of, add) == b""


def test_a_damaged_file_of_a_frame_is_named(spark, shards, tmp_path):
    folder = shutil.copytree(shards[1], tmp_path / "damaged")
    broken = folder / "part-001.parquet"
    content = broken.read_bytes()
    broken.write_bytes(content[:60] + bytes(200) + content[260:])
    with pytest.raises(InputError, match=r"part-001.parquet: Spark cannot read it"):
        open_dataset(spark.read.parquet(str(folder))).dataset.reduce(rows_of, add)
