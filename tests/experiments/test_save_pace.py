"""Checkpoints of short epochs take a small share of the time, and one is on disk."""

from itertools import count

import pytest

from calibrant.experiments import lean_engine
from calibrant.experiments.history import SavePace
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.run import train


class Clock:
    def __init__(self):
        self.time = 0.0

    def __call__(self):
        return self.time


def written(epoch, takes, every=300.0, epochs=100):
    """The seconds of all epochs, and the numbers of those after which a checkpoint was written."""
    clock = Clock()
    pace, found = SavePace(every, clock), []
    for number in range(1, epochs + 1):
        clock.time += epoch
        if pace.is_due(ends=True):
            began = clock.time
            clock.time += takes
            pace.wrote(began)
            found.append(number)
    return clock.time, found


def test_long_epochs_are_all_saved():
    assert written(epoch=60, takes=2)[1] == list(range(1, 101))


@pytest.mark.parametrize("takes", [0.5, 1, 3])
def test_short_epochs_are_not(takes):
    total, found = written(epoch=1, takes=takes)
    assert len(found) > 1
    assert len(found[1:]) * takes <= total / 20


def test_after_so_many_seconds_one_is_due_anywhere():
    clock = Clock()
    pace = SavePace(300.0, clock)
    clock.time = 299
    assert not pace.is_due(ends=False)
    clock.time = 300
    assert pace.is_due(ends=False)
    assert written(epoch=10, takes=60, every=50)[1] == list(range(1, 101, 5))
    assert written(epoch=1, takes=5, every=0)[1] == list(range(1, 101))


def test_a_run_of_short_epochs_writes_few_checkpoints(monkeypatch, tmp_path, corpus):
    clock, number = Clock(), count(1)
    monkeypatch.setattr(lean_engine, "SavePace", lambda every: SavePace(every, clock))
    real, paths = lean_engine.write_checkpoint, set()

    def slow(path, content):
        clock.time += next(number)  # Any time is long beside these epochs.
        paths.add(path)
        real(path, content)

    monkeypatch.setattr(lean_engine, "write_checkpoint", slow)
    run = tmp_path / "run"
    made = Recipe(data=str(corpus), model="tiny", epochs=3, batch=8, dtype="float32", head_width=8)
    train(made, run, device="cpu", bootstrap=0, say=lambda line: None)
    assert next(number) == 2
    assert paths == {run / "checkpoint.pt"}
    assert not (run / "checkpoint.pt").exists()
    assert len((run / "log.jsonl").read_text().splitlines()) == 3
