"""Spark: the same results as here, also when an executor is killed in the middle."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from tests.distributed.lakes import check_commands, live
from tests.distributed.shards import random_predictions, write_shards
from tests.distributed.test_audit import assert_same
from tests.distributed.test_bad_input import damage

import calibrant
from calibrant.calibrators import Temperature
from calibrant.cli import main
from calibrant.distributed import apply, apply_to_files, audit, fit, spark_session
from calibrant.distributed.engine import FAN_IN
from calibrant.distributed.engines import open_dataset, using_engine
from calibrant.distributed.reading import reader_of
from calibrant.errors import CalibrantError, InputError, MissingExtraError

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
    # Compiling takes longer than these tests.
    "spark.sql.codegen.wholeStage": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
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


def test_every_part_counts_once(spark):
    with using_engine("spark") as engine:
        assert engine.reduce(square, add, []) == b""
        assert list(engine.map(square, [3])) == [b"9"]
        parts = [k for k in range(3 * FAN_IN) if k != 13]
        assert int(engine.reduce(square, add, parts)) == sum(k * k for k in parts)
        with pytest.raises(InputError, match=r"^thirteen is refused\.$"):
            engine.reduce(square, add, list(range(20)))


def test_a_frame_has_the_rows_of_its_files(spark, shards):
    frame = spark.read.parquet(str(shards[1]))
    dataset = open_dataset(frame.filter("sentence < 100")).dataset  # Two partitions are empty.
    assert int(dataset.reduce(rows_of, add)) == 700
    assert reader_of(dataset).layout.kind == "logits"
    assert open_dataset(frame.filter("label < 0")).dataset.reduce(rows_of, add) == b""


def test_a_damaged_file_of_a_frame_is_named(spark, shards, tmp_path):
    folder = shutil.copytree(shards[1], tmp_path / "damaged")
    broken = folder / "part-001.parquet"
    content = broken.read_bytes()
    broken.write_bytes(content[:60] + bytes(200) + content[260:])
    with pytest.raises(InputError, match=rf"^{broken}: Spark cannot read it"):
        open_dataset(spark.read.parquet(str(folder))).dataset.reduce(rows_of, add)


def test_audit_and_fit_lose_an_executor(spark, shards, tmp_path):
    predictions, folder = shards
    frame = spark.read.parquet(str(folder))
    undisturbed = audit(frame, bootstrap=50, per="site")
    found = audit(deadly(frame, tmp_path / "audit"), bootstrap=50, per="site")
    assert (tmp_path / "audit").exists()
    assert_same(found, undisturbed)
    here = calibrant.audit(predictions, bootstrap=50, per="site").to_dict()["measures"]
    for name, measure in found.to_dict()["measures"].items():
        assert measure["value"] == pytest.approx(here[name]["value"], rel=1e-9, abs=1e-12), name
    fitted = fit(deadly(frame, tmp_path / "fit"), "temperature")
    assert (tmp_path / "fit").exists()
    in_memory = Temperature().fit(predictions)
    assert fitted.temperature_ == pytest.approx(in_memory.temperature_, rel=1e-8)
    table = apply(fitted, frame).select("probabilities", "label", "site").toArrow().to_pydict()
    expected = fitted.transform(predictions).probabilities()
    assert sorted(map(max, table["probabilities"])) == pytest.approx(sorted(expected.max(axis=1)))
    assert sorted(table["site"]) == sorted(predictions.groups["site"].tolist())


class DeadlyEngine:
    """Runs tasks on Spark; the first one that starts kills its executor, after its work."""

    def __init__(self, engine, marker):
        self.engine, self.marker = engine, str(marker)

    def map(self, task, parts):
        def work(part, marker=self.marker):
            result = task(part)
            kill_executor(marker)
            return result

        return self.engine.map(work, parts)


def test_copies_lose_an_executor(spark, shards, tmp_path):
    folder = shards[1]
    calibrator = Temperature().fit(shards[0])
    apply_to_files(calibrator, str(folder), tmp_path / "here")
    with using_engine("spark") as engine:
        deadly_engine = DeadlyEngine(engine, tmp_path / "killed")
        copied = apply_to_files(calibrator, str(folder), tmp_path / "out", engine=deadly_engine)
    assert (tmp_path / "killed").exists()
    assert (copied.rows, copied.files) == (3000, 3)
    names = sorted(file.name for file in (tmp_path / "here").iterdir())
    assert names == sorted(file.name for file in (tmp_path / "out").iterdir())
    for name in names:
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()


def test_the_commands(spark, shards, tmp_path, capsys):
    files, fitted = str(shards[1]), str(tmp_path / "t.json")
    engine = ["--engine", "spark"]
    assert main(["fit", files, "--calibrator", "temperature", "-o", fitted, *engine]) == 0
    assert main(["apply", fitted, files, "-o", str(tmp_path / "out"), *engine]) == 0
    assert "temperature applied to 3,000 rows of 3 files." in capsys.readouterr().out
    assert main(["audit", str(tmp_path / "out"), "--bootstrap", "0", "--json", *engine]) == 0
    found = json.loads(capsys.readouterr().out)["audit"]["measures"]["ece"]["value"]
    calibrated = Temperature().fit(shards[0]).transform(shards[0])
    assert found == pytest.approx(calibrant.ece(calibrated), abs=1e-6)
    few = ["--calibrators", "temperature", "--bootstrap", "0", "--folds", "2"]
    valid, test = (str(shards[1] / f"part-00{number}.parquet") for number in (1, 2))
    assert main(["compare", valid, test, *few, *engine]) == 0
    assert "temperature" in capsys.readouterr().out


def test_the_commands_read_a_table_with_a_log(spark, delta, tmp_path, capsys):
    check_commands(str(delta), live(delta).num_rows, tmp_path, capsys, "spark")


def test_bad_input_of_spark_is_one_line(spark, shards, tmp_path, capsys):
    folder = shutil.copytree(shards[1], tmp_path / "in")
    damage(folder / "part-001.parquet", 1)
    command = ["audit", str(folder), "--bootstrap", "0", "--engine", "spark"]
    assert main(command) == 2
    assert "part-001.parquet: row group 1 is damaged" in capsys.readouterr().err
    assert main([*command, "--skip-corrupt"]) == 0
    assert "1 row groups (400 rows)" in capsys.readouterr().err
    frame = spark.read.parquet(str(shards[1])).withColumnRenamed("label", "truth").drop("logits")
    with pytest.raises(InputError, match="logits"):
        audit(frame)
    frame = spark.read.parquet(str(shards[1]))
    empty = frame.filter("false")
    assert not empty.rdd.getNumPartitions()
    for task in (audit, lambda d: fit(d, "temperature")):
        with pytest.raises(InputError, match=r"^Nothing to (audit|fit on): no rows\.$"):
            task(empty)
    broken = frame.withColumn("site", pyspark.sql.functions.udf(lambda _: 1 // 0, "long")("label"))
    with pytest.raises(CalibrantError, match=r"^Spark: ZeroDivisionError: [^\n]*$"):
        audit(broken)


class Idle:
    """A session that does nothing."""

    def __init__(self):
        self.sparkContext = None

    def stop(self):
        pass


def use(engine):
    with using_engine(engine):
        pass


def test_a_missing_engine_is_named(monkeypatch):
    monkeypatch.setattr(pyspark.sql.SparkSession, "getActiveSession", lambda: None)
    with pytest.raises(InputError, match=r"No Spark at 'foo'.*A master is local\[4\]"):
        use("spark:foo")
    with pytest.raises(InputError, match="No Spark at 'localhost:9'"):
        use("spark:spark://localhost:9")
    asked = []
    monkeypatch.setattr(spark_session, "_started", lambda _, master: asked.append(master) or Idle())
    masters = ["k8s://https://10.0.0.1:6443", "spark://down:7077,up:7077", "yarn"]
    for master in masters:  # Spark itself finds out whether these answer.
        use(f"spark:{master}")
    assert asked == masters
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(InputError, match="needs Java 17 or later"):
        use("spark")
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'calibrant\[spark\]'"):
        use("spark")
