"""``calibrant predict --engine ray``: driver, actor and node are killed, the bytes stay."""

import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from calibrant.cli import main
from calibrant.distributed import predict
from calibrant.errors import CalibrantError, InputError
from calibrant.json_values import json_values

pytest.importorskip("ray", reason="Ray is not installed: pip install 'calibrant[ray]'")
pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL"),
    pytest.mark.xdist_group("ray"),  # One cluster at a time.
    pytest.mark.filterwarnings("ignore"),  # Of Ray: deprecations.
    pytest.mark.timeout(400),  # Actors start slowly where other tests keep both cores busy.
]
TEXTS, BLOCK = 400, 20


@pytest.fixture(scope="module")
def given(runs, tmp_path_factory):
    """The run, a file of texts with ids, and what one process predicts."""
    from calibrant.tasks.text.predictor import TextPredictor

    folder = tmp_path_factory.mktemp("given")
    with (folder / "texts.csv").open("w") as file:
        file.write("id,text\n")
        words = ("bread", "soup", "goal", "team", "wet", "cloud")
        for number in range(TEXTS):
            file.write(f"{number},the {words[number % 6]} of {words[number % 5]} {number}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TextPredictor, "block", BLOCK)
        command = ["predict", str(runs["text"]), str(folder / "texts.csv"), "--device", "cpu"]
        for suffix in ("csv", "jsonl"):
            assert main([*command, "-o", str(folder / f"whole.{suffix}")]) == 0
        yield command, folder


@pytest.fixture(scope="module")
def cluster(given):
    """Three nodes on this machine; the first one has no room for actors.

    The first test takes one of the others away.
    """
    import ray
    from ray.cluster_utils import Cluster

    quick = {"health_check_period_ms": 500, "health_check_failure_threshold": 2}
    quick["worker_niceness"] = 0  # Else workers starve while other tests run.
    head = {"num_cpus": 0, "include_dashboard": False, "_system_config": quick}
    found = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(2):
        found.add_node(num_cpus=1)
    ray.init(address=found.address, log_to_driver=False, logging_level="ERROR")
    yield found
    ray.shutdown()
    found.shutdown()


def process_of(actor):
    """Return the number of the process of an actor."""
    import ray

    return ray.get(actor.__ray_call__.remote(lambda _: os.getpid()))


def test_an_actor_and_a_node_are_lost(given, cluster, tmp_path, monkeypatch, capsys):
    """Each is lost while it has a block: its process is stopped before it gets one."""
    from calibrant.distributed.ray_actors import _Pool, _Stream

    command, folder = given
    first, second = cluster.list_all_nodes()[1:]
    submit, lose, lost = _Stream._submit, _Pool.lose, []
    kills = {
        2: (first, lambda: None),
        8: (second, lambda: cluster.remove_node(second, allow_graceful=False)),
    }

    def submit_and_kill(stream):
        if not stream.read and len(stream.pool.free) < 2:
            return  # Both nodes take part.
        due = next((blocks for blocks in kills if stream.written >= blocks), None)
        node, lose_node = kills[due] if due else (None, None)
        free = [a for a in stream.pool.free if node and stream.pool.node_of[a] == node.node_id]
        process = process_of(free[0]) if free else None
        if process is not None:
            os.kill(process, signal.SIGSTOP)
        submit(stream)
        if process is not None and any(a is free[0] for a, *_ in stream.running.values()):
            lose_node()
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            del kills[due]
        elif process is not None:
            os.kill(process, signal.SIGCONT)  # There was no block for it.

    def counted(pool, actor):
        lost.append(pool.node_of[actor])
        lose(pool, actor)

    monkeypatch.setattr(_Stream, "_submit", submit_and_kill)
    monkeypatch.setattr(_Pool, "lose", counted)
    out = tmp_path / "out.csv"
    assert main([*command, "--engine", "ray:auto", "-o", str(out)]) == 0
    assert lost == [first.node_id, second.node_id]
    assert out.read_bytes() == (folder / "whole.csv").read_bytes()
    assert not (tmp_path / "out.csv.partial").exists()
    assert f"{TEXTS} texts." in capsys.readouterr().out


def expected_lines(given):
    return (given[1] / "whole.jsonl").read_text().splitlines()


def as_lines(rows, predictions):
    """Return the lines that the command writes of these rows."""
    together = (
        {**row, "format": 1, **p.to_dict()} for row, p in zip(rows, predictions, strict=True)
    )
    return [json.dumps(json_values(each), ensure_ascii=False) for each in together]


def rows_of(given):
    with (given[1] / "texts.csv").open() as file:
        return list(csv.DictReader(file))


def test_python_predicts_what_the_command_does(given, cluster):
    rows, run = rows_of(given), given[0][1]
    found = predict((row["text"] for row in rows), run, engine="ray:auto", device="cpu")
    first = next(found)
    assert as_lines(rows, [first, *found]) == expected_lines(given)


def assert_predicted(given, found, field="prediction"):
    """Blocks of a dataset are cut elsewhere, so that numbers agree to rounding."""
    assert sorted(int(row["id"]) for row in found) == list(range(TEXTS))
    whole = {row["id"]: row for row in map(json.loads, expected_lines(given))}
    for row in found:
        mine, expected = json.loads(row[field]), whole[row["id"]]
        assert mine["label"] == expected["label"]
        assert mine["confidence"] == pytest.approx(expected["confidence"], abs=1e-4)
        assert row["text"] == expected["text"]


def test_a_dataset_of_ray_gets_columns_without_waiting_for_processors(given, cluster, tmp_path):
    """One processor is left, which reads: actors that reserved it would stop all for ever.

    Actors of two columns would stop each other in the same way.
    """
    import ray

    for node in cluster.list_all_nodes()[2:]:
        cluster.remove_node(node, allow_graceful=False)
    processors_left(1)
    source, run = str(given[1] / "texts.csv"), given[0][1]
    written = ray.data.read_csv(source).map(lambda row: {**row, "id": str(row["id"])})
    once = predict(written, run, device="cpu")
    found = predict(once, run, device="cpu", field="again", jobs=1).take_all()
    assert_predicted(given, found)
    assert_predicted(given, found, "again")


def processors_left(count):
    """Wait until the cluster has noticed that it lost its other nodes."""
    import ray

    deadline = time.monotonic() + 200
    while ray.cluster_resources()["CPU"] > count:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_actors_leave_a_head_without_processors_alone(cluster):
    """Ray spreads actors that reserve nothing over all nodes."""
    from calibrant.distributed.predicted_columns import _on_the_next_node

    placed = {_on_the_next_node()["scheduling_strategy"].node_id for _ in range(4)}
    assert placed == {node.node_id for node in cluster.list_all_nodes()[1:]}


def test_bad_input_of_python_is_one_line(given, cluster):
    import ray

    run = given[0][1]
    for wrong in ("the soup", 5, {"text": "the soup"}):
        with pytest.raises(InputError, match=r"takes an iterable of texts, a ray\.data\.Dataset"):
            predict(wrong, run)
    data = ray.data.from_items([{"text": "the soup"}, {"text": None}])
    with pytest.raises(InputError, match=r"no column 'words' of texts, but text: name it"):
        predict(data, run, column="words")
    with pytest.raises(InputError, match="has a column 'text': name another"):
        predict(data, run, field="text")
    with pytest.raises(InputError, match="tokens are for models of entities"):
        predict(["the soup"], run, tokens=True)
    with pytest.raises(InputError, match="jobs must be"):
        predict(["the soup"], run, jobs=0)
    with pytest.raises(InputError, match="Unknown engine 'spark'"):
        list(predict(["the soup"], run, engine="spark"))
    with pytest.raises(Exception, match="Column 'text' must hold texts, got None"):
        predict(data, run, device="cpu").take_all()


def test_bad_input(given, tmp_path, capsys):
    command = [*given[0], "-o", str(tmp_path / "out.csv")]
    assert main([*command, "--engine", "ray:auto", "--jobs", "0"]) == 2
    assert "--jobs must be a whole number of at least 1" in capsys.readouterr().err
    assert main([*command, "--jobs", "2"]) == 2
    assert "--jobs is for --engine ray" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*command, "--engine", "spark"])
    assert "Unknown engine 'spark'" in capsys.readouterr().err


def test_errors_of_workers_are_one_line(cluster):
    import ray

    from calibrant.distributed.ray_actors import stream_through_actors

    def unable(node):
        raise CalibrantError(f"On the node {node}, RUN is another than here.")

    def picky(node):
        def work(block):
            raise InputError(f"Block {block} is bad.")

        return work

    with pytest.raises(CalibrantError, match=r"^On the node .*, RUN is another than here.$"):
        list(stream_through_actors(ray, unable, iter(range(3))))
    with pytest.raises(InputError, match=r"^Block \d is bad.$"):
        list(stream_through_actors(ray, picky, iter(range(3))))
    square = lambda node: lambda block: block**2  # noqa: E731
    assert list(stream_through_actors(ray, square, iter(range(30)), jobs=1)) == [
        (n, n**2) for n in range(30)
    ]


def test_a_block_that_kills_each_worker_ends_the_command(cluster):
    import ray

    from calibrant.distributed.ray_actors import stream_through_actors

    deadly = lambda node: lambda block: os._exit(1) if block == 3 else block  # noqa: E731
    with pytest.raises(CalibrantError, match="was lost 4 times"):
        list(stream_through_actors(ray, deadly, iter(range(5))))


def test_a_killed_driver_continues(given, tmp_path, capsys):
    """SIGKILL while actors work; then one process continues what the cluster began."""
    command, folder = given
    out = tmp_path / "out.jsonl"
    script = (
        "from calibrant.tasks.text.predictor import TextPredictor; import sys\n"
        "import calibrant.resumable as r; write = r.ResumableFile.write\n"
        f"TextPredictor.block = {BLOCK}; r._EVERY = {BLOCK}\n"
        "def slow(self, *given):\n"
        "    import time; time.sleep(0.1); write(self, *given)\n"
        "r.ResumableFile.write = slow\n"
        "from calibrant.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    arguments = [sys.executable, "-c", script, *command, "--engine", "ray:local", "-o", str(out)]
    environment = {name: os.environ[name] for name in os.environ if name != "RAY_ADDRESS"}
    journal = tmp_path / "out.jsonl.partial" / "journal"
    with subprocess.Popen(arguments, env=environment, stderr=subprocess.PIPE) as driver:
        deadline = time.monotonic() + 200
        while not (journal.exists() and journal.read_text().count("\n") > 3):
            assert driver.poll() is None, driver.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        driver.send_signal(signal.SIGKILL)
    assert not out.exists()
    assert main([*command, "-o", str(out)]) == 0
    assert "Continuing after" in capsys.readouterr().out
    assert out.read_bytes() == (folder / "whole.jsonl").read_bytes()
