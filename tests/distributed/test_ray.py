"""Ray: tasks, Ray Data and the commands give the same, also if a node is killed meanwhile."""

import json
import os
import signal
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from tests.distributed.lakes import check_commands, live, make_known
from tests.distributed.shards import random_predictions, write_shards
from tests.distributed.test_audit import OPTIONS, TAGS, assert_same
from tests.distributed.test_bad_input import damage
from tests.distributed.test_compare import halves
from tests.distributed.test_engine import add, square

import calibrant
from calibrant.calibrators import Temperature
from calibrant.cli import main
from calibrant.distributed import apply, apply_to_files, audit, fit, parquet_parts
from calibrant.distributed.engine import FAN_IN, Parts
from calibrant.distributed.engines import Opened, open_dataset
from calibrant.distributed.ray_engine import RayDataset, RayEngine
from calibrant.errors import InputError
from calibrant.files import Columns

ray = pytest.importorskip("ray", reason="Ray is not installed")
pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # Of Ray: deprecations, and nodes that died.
    pytest.mark.xdist_group("ray"),  # One cluster at a time.
]
MODULES = (__name__, "tests.distributed.test_engine", "tests.distributed.shards")


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """Start two nodes; tests add the one that they kill."""
    from ray.cluster_utils import Cluster

    quick = {"health_check_period_ms": 500, "health_check_failure_threshold": 2}
    quick["worker_niceness"] = 0  # Else workers starve while other tests run.
    head = {"num_cpus": 1, "object_store_memory": 100 * 2**20, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args={**head, "_system_config": quick})
    made.add_node(num_cpus=1, object_store_memory=80 * 2**20)
    ray.init(address=made.address, log_to_driver=False, logging_level="ERROR")
    for name in MODULES:  # Workers cannot import them.
        ray.cloudpickle.register_pickle_by_value(sys.modules[name])
    yield made
    ray.shutdown()
    made.shutdown()


def test_every_part_counts_once():
    for n in (0, 1, FAN_IN + 1, 3 * FAN_IN):
        parts = [k for k in range(n) if k != 13]
        expected = str(sum(k * k for k in parts)).encode() if parts else b""
        assert RayEngine().reduce(square, add, parts) == expected
    assert sorted(map(int, RayEngine().map(square, [1, 2, 3]))) == [1, 4, 9]


def test_the_error_of_a_part_is_raised_as_it_is():
    with pytest.raises(InputError, match=r"^thirteen is refused\.$"):
        RayEngine().reduce(square, add, list(range(20)))


def test_datasets_of_ray_give_the_same(tmp_path):
    import ray.data

    p = random_predictions(classes=5, sentences=8, names=TAGS)
    folder = write_shards(p, tmp_path / "shards", [800, 4000], groups=1)
    expected = calibrant.audit(p, **OPTIONS)
    assert_same(audit(str(folder), engine=RayEngine(), **OPTIONS), expected)
    data, names = ray.data.read_parquet(str(folder)), Columns(label_names=TAGS)
    found = audit(data, columns=names, **OPTIONS)  # Ray drops the metadata of the schema.
    assert found.provenance["n"] == 6000
    assert found["ece"].value == pytest.approx(expected["ece"].value, rel=1e-12)
    assert found["entity_f1"].value == expected["entity_f1"].value
    np.testing.assert_array_equal(found.state.top_count, expected.state.top_count)


def test_blocks_are_put_together_in_their_order(monkeypatch):
    """Rows get their numbers and folds from these batches, which each pass must see again."""
    import ray.data

    data = ray.data.range(3)
    options, ordered = data.context.execution_options, []
    monkeypatch.setattr(
        ray.data.Dataset,
        "iter_internal_ref_bundles",
        lambda mapped: iter(ordered.append(mapped.context.execution_options.preserve_order) or ()),
    )
    assert list(RayDataset(data).map(square)) == []
    assert (ordered, options.preserve_order) == ([True], False)


def blocks(*tables):
    import ray.data

    return ray.data.from_arrow(list(tables))


def some_rows(classes, n=10):
    import pyarrow

    logits = np.random.default_rng(0).normal(size=(n, classes))
    return pyarrow.table({"logits": logits.tolist(), "label": np.arange(n) % classes})


def test_bad_datasets_are_one_line():
    """Ray Data would wrap an exception of ours in a page of its own."""
    differ = r"^Partitions differ in the number of classes: 3 in a block .*, 5 in a block [^\n]*$"
    for task in (lambda d: audit(d, bootstrap=0), lambda d: fit(d, "temperature")):
        with pytest.raises(InputError, match=differ):
            task(blocks(some_rows(3), some_rows(5)))
        with pytest.raises(InputError, match=r"^Nothing to (audit|fit on): no rows\.$"):
            task(blocks(some_rows(3)[:0]))
    wrong = some_rows(3).set_column(1, "label", [[7] * 10])
    with pytest.raises(InputError, match=r"^a block of the dataset: Label 7 at row 0 is outside"):
        audit(blocks(wrong), bootstrap=0)
    found = audit(blocks(some_rows(3)[:0], some_rows(3), some_rows(3)[:0]), bootstrap=0)
    assert found.provenance["n"] == 10


def test_the_command_audits(tmp_path, capsys):
    p = random_predictions(3000)
    folder = write_shards(p, tmp_path / "shards", [1000, 2000], groups=2)
    damage(folder / "part-001.parquet", 0)
    arguments = ["audit", str(folder), "--engine", "ray", "--bootstrap", "0"]
    assert main([*arguments, "--json"]) == 2
    assert "part-001.parquet: row group 0 is damaged" in capsys.readouterr().err
    report = tmp_path / "audit.html"
    assert main([*arguments, "--skip-corrupt", "--json", "--report", str(report)]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["audit"]["provenance"]["n"] == 2500
    assert "1 row groups (500 rows) were left out" in err
    assert report.exists()


def test_the_commands_fit_and_compare(tmp_path, capsys):
    _, (valid, test) = halves(random_predictions(3000), tmp_path)
    saved = tmp_path / "calibrator.json"
    on_ray = ["--engine", "ray", "--json"]
    assert main(["fit", valid, "--calibrator", "platt", "-o", str(saved), *on_ray]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["n"] == 1500
    assert document["nll_after"] < document["nll_before"]
    assert main(["audit", test, "--calibrator", str(saved), "--bootstrap", "0", *on_ray]) == 0
    assert json.loads(capsys.readouterr().out)["calibrator"] == "platt"
    chosen = tmp_path / "chosen.json"
    arguments = ["--calibrators", "temperature,vector", "--bootstrap", "100", "-o", str(chosen)]
    assert main(["compare", valid, test, *arguments, "--engine", "ray"]) == 0
    assert "* Recommended: temperature" in capsys.readouterr().out
    assert chosen.exists()
    assert (
        main(["fit", valid, "--calibrator", "auto", "-o", str(tmp_path / "x.json"), *on_ray]) == 2
    )
    assert "not fitted on a cluster" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["delta", "iceberg by its folder", "iceberg by its name"])
def test_the_commands_read_tables_with_a_log(kind, request, tmp_path, monkeypatch, capsys):
    if kind == "delta":
        place = request.getfixturevalue("delta")
        kept, place = live(place).num_rows, str(place)
    else:
        made, folder, places = request.getfixturevalue("iceberg")
        make_known(monkeypatch, "house", places)
        kept = made.scan().to_arrow().num_rows
        place = str(folder) if "folder" in kind else "iceberg:house/scores.valid"
    assert 0 < kept < 500
    check_commands(place, kept, tmp_path, capsys, "ray")


class Slow:
    """A part that takes its time and notes each start, so that a node can be killed meanwhile."""

    def __init__(self, part, notes):
        self.part, self.notes = part, notes
        self.place, self.start = part.place, part.start

    def tables(self, columns, rows):
        name, node = f"{self.start}-{time.time_ns()}", ray.get_runtime_context().get_node_id()
        (self.notes / name).write_text(node)
        if node == doomed(self.notes):
            time.sleep(5)
        wait_until(lambda: doomed_works(self.notes))
        return self.part.tables(columns, rows)


def doomed(notes):
    return (notes.parent / "doomed").read_text()


def doomed_works(notes):
    return any(note.read_text() == doomed(notes) for note in notes.iterdir())


def wait_until(happened):
    deadline = time.time() + 100
    while not happened() and time.time() < deadline:
        time.sleep(0.02)


def slow_dataset(folder, notes):
    plain = open_dataset(str(folder), RayEngine())
    parts = [Slow(part, notes) for part in plain.dataset.parts]
    dataset = Parts(RayEngine(), parts, plain.dataset.schema(), plain.dataset.count())
    return Opened(dataset, plain.schemas)


def while_a_node_dies(cluster, notes, work):
    """Run the work with one more node, which is killed in the middle of its first part."""
    lost = cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20)
    cluster.wait_for_nodes()
    (notes.parent / "doomed").write_text(lost.node_id)

    def gone():  # Else Ray may give it work of the next test.
        return not any(n["Alive"] and n["NodeID"] == lost.node_id for n in ray.nodes())

    def kill():
        wait_until(lambda: doomed_works(notes))
        cluster.remove_node(lost, allow_graceful=False)
        wait_until(gone)

    killer = threading.Thread(target=kill)
    killer.start()
    found = work()
    killer.join()
    assert doomed_works(notes)
    runs = [note.name.partition("-")[0] for note in notes.iterdir()]
    return found, runs


@pytest.fixture
def folder(tmp_path):
    p = random_predictions(2400)
    return write_shards(p, tmp_path / "shards", [200 * k for k in range(1, 12)], groups=1)


@pytest.fixture
def slow(folder, tmp_path, monkeypatch):
    options = {"scores": 1400, "skip_damaged": False}  # One file is one part.
    monkeypatch.setattr(parquet_parts.plan_parts, "__kwdefaults__", options)
    notes = tmp_path / "notes"
    notes.mkdir()
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    return slow_dataset(folder, notes).dataset, notes


def test_an_audit_survives_a_lost_node(cluster, folder, slow):
    dataset, notes = slow
    assert len(dataset.parts) == 12
    found, runs = while_a_node_dies(cluster, notes, lambda: audit(dataset, bootstrap=100))
    assert len(runs) > 12  # Something ran again.
    expected = audit(str(folder), bootstrap=100)
    for name in expected.state.SUMS:
        mine, theirs = getattr(found.state, name), getattr(expected.state, name)
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, err_msg=name)
    assert found.provenance["n"] == 2400
    assert found["ece"].low == pytest.approx(expected["ece"].low, rel=1e-9)


def test_a_fit_survives_a_lost_node(cluster, folder, slow):
    dataset, notes = slow
    found, runs = while_a_node_dies(cluster, notes, lambda: fit(dataset, "platt"))
    passes = found.fitted_on_["passes"]
    assert len(runs) > 12 * passes
    expected = fit(str(folder), "platt")
    np.testing.assert_allclose(found.slope_, expected.slope_, rtol=1e-9)
    assert found.fitted_on_["n"] == 2400


def test_a_dataset_is_calibrated_where_it_is(tmp_path):
    import pyarrow
    import ray.data

    p = random_predictions(900)
    p = replace(p, groups={**p.groups, "number": np.arange(900)})  # Blocks have no order.
    folder = write_shards(p, tmp_path / "shards", [500])
    calibrator = Temperature().fit(p)
    found = apply(calibrator, ray.data.read_parquet(str(folder)))
    table = pyarrow.concat_tables(found.iter_batches(batch_format="pyarrow")).sort_by("number")
    expected = calibrator.transform(p).probabilities()
    np.testing.assert_allclose(np.array(table["probabilities"].to_pylist()), expected, atol=1e-7)
    assert table["site"].to_pylist() == p.groups["site"].tolist()
    with pytest.raises(InputError, match="apply_to_files"):
        apply(calibrator, str(folder))


class Deadly:
    """Runs tasks on Ray; the first that ends kills its worker before it can say so."""

    def __init__(self, marker):
        self.marker = marker

    def map(self, task, parts):
        def work(part, marker=self.marker):
            result = task(part)
            if not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return RayEngine().map(work, parts)


def test_copies_lose_a_worker(tmp_path, capsys):
    p = random_predictions(900)
    folder = write_shards(p, tmp_path / "shards", [300, 500])
    calibrator = Temperature().fit(p)
    copied = apply_to_files(
        calibrator, str(folder), tmp_path / "out", engine=Deadly(tmp_path / "k")
    )
    assert (tmp_path / "k").exists()
    assert (copied.rows, copied.files) == (900, 3)
    calibrator.save(tmp_path / "t.json")
    command = ["apply", str(tmp_path / "t.json"), str(folder), "-o"]
    assert main([*command, str(tmp_path / "here")]) == 0
    assert main([*command, str(tmp_path / "ray"), "--engine", "ray:auto"]) == 0
    assert "temperature applied to 900 rows of 3 files." in capsys.readouterr().out
    for name in ("part-000.parquet", "part-001.parquet", "part-002.parquet"):
        expected = (tmp_path / "here" / name).read_bytes()
        assert (tmp_path / "out" / name).read_bytes() == expected
        assert (tmp_path / "ray" / name).read_bytes() == expected
    assert main([*command, "s3://bucket/out"]) == 2
    assert "s3://bucket/out needs --engine" in capsys.readouterr().err
    assert main([*command, "-", "--engine", "ray:auto"]) == 2
    assert "--engine writes a folder" in capsys.readouterr().err
