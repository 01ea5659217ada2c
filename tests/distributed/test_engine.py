"""The protocol: every part once, results joined in a tree, errors as they are."""

import numpy as np
import pytest
from tests.distributed.shards import random_predictions, write_shards

from calibrant.distributed import LocalEngine
from calibrant.distributed.engine import FAN_IN, Caught, CaughtJoin, raised
from calibrant.distributed.engines import open_dataset, using_engine
from calibrant.distributed.reading import reader_of
from calibrant.errors import CalibrantError, InputError


def square(part):
    if part == 13:
        raise InputError("thirteen is refused.")
    return str(part * part).encode()


def add(results):
    assert len(results) <= 2 * FAN_IN
    return str(sum(map(int, results))).encode()


def rows_of(part):
    return repr(sum(len(r.batch) for r in part.tables(None, 100))).encode()


@pytest.mark.parametrize("n", [0, 1, 2, FAN_IN, FAN_IN + 1, 3 * FAN_IN + 1])
def test_every_part_counts_once(n):
    engine = LocalEngine()
    parts = [k for k in range(n + 1) if k != 13]
    expected = sum(k * k for k in parts)
    assert int(engine.reduce(square, add, parts)) == expected
    assert sorted(map(int, engine.map(square, parts))) == sorted(k * k for k in parts)
    assert engine.reduce(square, add, []) == b""


def test_the_error_of_a_part_is_raised_as_it_is():
    engine = LocalEngine()
    with pytest.raises(InputError, match=r"^thirteen is refused\.$"):
        engine.reduce(square, add, list(range(20)))
    with pytest.raises(InputError, match="thirteen"):
        list(engine.map(square, [13]))


def test_errors_can_travel_as_bytes():
    class Part:
        def __init__(self, start):
            self.start = start

    def task(part):
        if part.start in (3, 5):
            raise InputError(f"row {part.start} is bad.")
        return b"1"

    results = [Caught(task)(Part(k)) for k in (5, 1, 3)]
    with pytest.raises(InputError, match="row 3 is bad"):
        raised(CaughtJoin(add)(results))
    assert raised(CaughtJoin(add)([b"1", b"2"])) == b"3"


def test_errors_that_are_no_bad_input_stay_so():
    """After bad input an unfinished output is removed; after a lost network it is kept."""

    def task(part):
        raise CalibrantError("the network failed.")

    with pytest.raises(CalibrantError, match=r"^the network failed\.$") as found:
        raised(Caught(task)(None))
    assert not isinstance(found.value, InputError)


def test_files_become_parts_of_whole_row_groups(tmp_path):
    p = random_predictions(1000)
    folder = write_shards(p, tmp_path / "shards", [10, 20, 700], groups=3)
    from calibrant.distributed.parquet_parts import plan_parts

    plan = plan_parts(folder, scores=2000)
    assert plan.rows == 1000
    starts = [part.start for part in plan.parts]
    assert len(plan.parts) > 2
    assert starts[0] == 0
    assert starts == sorted(set(starts))
    dataset = open_dataset(str(folder)).dataset
    assert int(dataset.reduce(rows_of, add)) == 1000
    reader = reader_of(dataset)
    chunks = [chunk for part in plan.parts for chunk in reader.chunks(part)]
    joined = type(p).concatenate(chunks)
    np.testing.assert_array_equal(joined.scores, p.scores)
    np.testing.assert_array_equal(joined.groups["site"], p.groups["site"])


@pytest.mark.parametrize("rows", [1, 7, 99, 100, 101])
def test_the_rows_that_a_part_reads_at_once_do_not_matter(tmp_path, monkeypatch, rows):
    """Around a row group, which has 100 of them."""
    p = random_predictions(200, sentences=3)
    folder = write_shards(p, tmp_path / "shards", [], groups=2)
    dataset = open_dataset(str(folder)).dataset
    reader = reader_of(dataset)
    monkeypatch.setattr("calibrant.distributed.reading._CHUNK", 16 * rows)  # Few columns.
    chunks = [chunk for part in dataset.parts for chunk in reader.chunks(part)]
    assert max(map(len, chunks)) == min(rows, 100)
    joined = type(p).concatenate(chunks)
    np.testing.assert_array_equal(joined.scores, p.scores)
    np.testing.assert_array_equal(joined.labels, p.labels)
    np.testing.assert_array_equal(joined.groups["sentence"], p.groups["sentence"])


def test_a_wrong_engine_is_named():
    with pytest.raises(InputError, match="Unknown engine 'dusk'"), using_engine("dusk"):
        pass
