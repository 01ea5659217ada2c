"""A grid of stacks: the same records as cell by cell."""

import errno
import json
import shutil
import time
from concurrent.futures.process import BrokenProcessPool
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from calibrant.errors import CalibrantError, InputError
from calibrant.experiments import grid
from calibrant.experiments.grid import run_grid
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.recipe_file import expand_grid
from calibrant.experiments.record import read_record, read_records
from calibrant.experiments.stacked import stacks
from calibrant.tasks import task_of
from calibrant.tasks.ner.data import occurring, prepare, renumber, trim_embeddings
from calibrant.tasks.ner.word_predictions import predict_words

METHODS = ["cross_entropy", "focal", "head_noise"]


def recipes(corpus, **more):
    defaults = {"data": str(corpus), "model": "tiny", "epochs": 3, "batch": 8, "dtype": "float32"}
    defaults |= {"learning_rate": 3e-3, **more}
    return expand_grid(defaults, [{"method": METHODS, "head_width": [8, 16], "seed": [0, 1]}])


def test_every_recipe_has_its_record(corpus, tmp_path):
    wanted = recipes(corpus, shift=["typos-3"])
    made = list(run_grid(wanted, tmp_path, device="cpu", workers=1, stack=4))
    assert len(made) == len(set(made)) == len(wanted)
    records = {record.recipe.key: record for record in read_records(tmp_path)}
    assert set(records) == {recipe.key for recipe in wanted}
    for record in records.values():
        assert record.training["stack"] == 3  # Six cells in two stacks.
        assert 0 <= record.results["temperature"]["test"]["ece"] <= 1
        assert "typos-3" in record.results["identity"]["shift"]
    assert not list(run_grid(wanted, tmp_path, device="cpu", workers=1, stack=4))
    learned = [r.results["identity"]["test"]["entity_f1"] for r in records.values()]
    assert np.mean(learned) > 0.5


def test_a_stack_measures_what_a_cell_measures(corpus, tmp_path, monkeypatch):
    """It also measures the out-of-domain part, and other data under any name."""
    data = shutil.copytree(corpus, tmp_path / "data")
    shutil.copy(data / "test.conll", data / "ood.conll")
    shutil.copytree(corpus, tmp_path / "test")
    monkeypatch.chdir(tmp_path)
    wanted = recipes(data, epochs=1, shift=["test"])[:3]
    kinds = []
    for stack in (1, 2):
        list(run_grid(wanted, tmp_path / str(stack), device="cpu", workers=1, stack=stack))
        records = list(read_records(tmp_path / str(stack)))
        kinds.append([sorted(record.results["identity"]) for record in records])
    assert kinds[0] == kinds[1] == 3 * [["cross_validated", "ood", "shift", "test", "valid"]]


def test_only_cells_that_share_their_batches_go_together():
    cells = [
        [Recipe(method="focal", seed=0)],
        [Recipe(head_width=64, seed=0)],
        [Recipe(seed=1)],
        [Recipe(batch=16, seed=0)],
        [Recipe(method="gamma_net_sece", seed=0)],
        [Recipe(seed=0, accumulate=2)],
    ]
    sizes = sorted(len(group) for group in stacks(cells, 10))
    assert sizes == [1, 1, 1, 1, 2]
    slower = [[Recipe(head_width=width, optimizer="sgd")] for width in (8, 16)]
    assert [len(group) for group in stacks(slower, 10)] == [1, 1]  # A stack has AdamW alone.
    assert all(len(group) == 1 for group in stacks(cells, 1))
    for asked in ({"calibrator": "shift-aware"}, {"copies": ["typos-3"]}):  # A stack has no copies.
        alone = [[Recipe(head_width=width, **asked)] for width in (8, 16)]
        assert [len(group) for group in stacks(alone, 10)] == [1, 1]
    whole_model = {"method": "gamma_net_sece", "method_options": {"look_ahead": "full"}}
    ahead = [[Recipe(head_width=width, **whole_model)] for width in (8, 16)]
    assert [len(group) for group in stacks(ahead, 10)] == [1, 1]
    more = [[Recipe(seed=s) for s in (0, 1, 2)], [Recipe(method="focal", seed=s) for s in (0, 2)]]
    parts = [[[r.seed for r in cell] for cell in group] for group in stacks(more, 10)]
    assert parts == [[[0, 2], [0, 2]], [[1]]]
    widths = [[Recipe(head_width=width)] for width in range(1, 8)]
    assert sorted(len(group) for group in stacks(widths, 3)) == [2, 2, 3]


def test_trimming_the_vocabulary_changes_no_prediction(corpus):
    recipe = Recipe(data=str(corpus), model="tiny", seed=0)
    data = prepare(recipe)
    test = data.splits["test"]
    whole = predict_words(task_of("ner").build_model(recipe, data).eval(), test, data.labels)
    kept = occurring([test], data.padding)
    model = trim_embeddings(task_of("ner").build_model(recipe, data), kept).eval()
    assert model.get_input_embeddings().weight.shape[0] == len(kept)
    padding = int(np.searchsorted(kept, data.padding))
    part = predict_words(model, renumber(test, kept), data.labels, padding=padding)
    np.testing.assert_allclose(part.scores, whole.scores, rtol=1e-5, atol=1e-6)


def test_records_that_were_gathered_in_one_file_count(corpus, tmp_path):
    wanted = recipes(corpus, epochs=1)[:2]
    made = list(run_grid(wanted, tmp_path, device="cpu", workers=1))
    lines = [json.dumps(json.loads(path.read_text())) for path in made]
    for path in made:
        path.unlink()
    (tmp_path / "all.jsonl").write_text("\n".join(lines) + "\n")
    assert not list(run_grid(wanted, tmp_path, device="cpu", workers=1))


def test_a_record_does_not_wait_for_the_next_run(corpus, tmp_path, monkeypatch):
    """The second cell never ends; the record of the first is there all the same."""
    real = grid.run_cell

    def endless(cells, *rest):
        if cells[0].method != "cross_entropy":
            while True:
                time.sleep(0.01)
                yield None
        yield from real(cells, *rest)

    monkeypatch.setattr(grid, "run_cell", endless)
    wanted = expand_grid(
        {"data": str(corpus), "model": "tiny", "epochs": 1, "batch": 8, "dtype": "float32"},
        [{"method": ["cross_entropy", "focal"]}],
    )
    running = run_grid(wanted, tmp_path, device="cpu", workers=1)
    assert read_record(next(running)).recipe == wanted[0]
    running.close()


def test_out_of_memory_keeps_what_is_done(corpus, tmp_path, monkeypatch):
    real = grid.run_stack

    def short_of_memory(cells, *rest):
        for outcome in real(cells, *rest):
            yield outcome
            if outcome is not None:
                raise torch.OutOfMemoryError

    monkeypatch.setattr(grid, "run_stack", short_of_memory)
    running = run_grid(recipes(corpus, epochs=1), tmp_path, device="cpu", workers=1, stack=4)
    with pytest.raises(InputError, match=r"1 job\(s\) of up to 3 runs each: use fewer"):
        list(running)
    assert len(list(read_records(tmp_path))) == 1


def test_what_a_cell_fails_at_leaves_the_records_of_others(corpus, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(corpus, broken)
    next(broken.glob("test*")).write_text("Anna\tB-nobody\n")
    found, failing = (recipes(data, epochs=1, unseen_types="error")[0] for data in (corpus, broken))
    running = run_grid([found, failing], tmp_path / "runs", device="cpu", workers=1)
    with pytest.raises(InputError, match="B-nobody"):
        list(running)
    assert [record.recipe for record in read_records(tmp_path / "runs")] == [found]


class Slow:
    """In the place of a pool of one process: nothing is done before all is trained."""

    def __init__(self, error):
        self.error = error

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def submit(self, function, *given):
        error, self.error = self.error, None  # Of the first alone.
        return SimpleNamespace(
            done=lambda: False, result=lambda: self.result(error, function, given)
        )

    def result(self, error, function, given):
        if error is not None:
            raise error
        return function(*given)


@pytest.mark.parametrize(
    ("error", "expected", "message"),
    [
        (InputError("not to be measured"), InputError, "not to be measured"),
        (BrokenProcessPool("terminated abruptly"), CalibrantError, "--workers"),
    ],
)
def test_what_cannot_be_measured_leaves_the_records_of_others(
    corpus, tmp_path, monkeypatch, error, expected, message
):
    monkeypatch.setattr(grid, "child_pool", lambda size: Slow(error))
    wanted = [recipe for recipe in recipes(corpus, epochs=1) if recipe.seed == 0][:3]
    with pytest.raises(expected, match=message):
        list(run_grid(wanted, tmp_path, device="cpu", workers=1))
    assert [r.recipe for r in read_records(tmp_path)] == sorted(wanted[1:], key=lambda r: r.key)


def test_a_record_that_was_cut_short_is_made_again(corpus, tmp_path):
    wanted = recipes(corpus, epochs=1)[:1]
    [path] = run_grid(wanted, tmp_path, device="cpu", workers=1)
    whole = path.read_text()
    path.write_text(whole[:300])
    with pytest.raises(InputError, match="'calibrant bench' makes again"):
        list(read_records(tmp_path))
    assert list(run_grid(wanted, tmp_path, device="cpu", workers=1)) == [path]
    assert json.loads(path.read_text())["results"] == json.loads(whole)["results"]


def test_a_folder_that_cannot_be_written_fails_first(corpus, tmp_path, monkeypatch):
    def read_only(**_):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(grid, "take_turns", lambda *_: pytest.fail("It trained."))
    monkeypatch.setattr("calibrant.output_checks.tempfile.TemporaryFile", read_only)
    with pytest.raises(InputError, match="Read-only file system"):
        next(run_grid(recipes(corpus), tmp_path, device="cpu", workers=1))


@pytest.mark.parametrize("stack", [1, 4])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"method": "focal", "method_options": {"gamma": "three"}}, "gamma='three'"),
        ({"patience": 2}, "leave engine and patience out"),
        ({"data": "nowhere"}, "Unknown corpus 'nowhere'"),
        ({"data": "/no/where"}, "There is no folder /no/where"),
        ({"shift": ["typo-3"]}, "Unknown shift 'typo-3'"),
        ({"task": "text", "data": "clink150"}, "Unknown text corpus 'clink150'"),
        ({"task": "text", "data": "synthetic", "shift": ["noise-1"]}, "Unknown corruption"),
        ({"task": "image", "data": "digit", "max_length": 512}, "Unknown image set 'digit'"),
        ({"task": "image", "data": "digits", "model": "lenat"}, "Unknown image model"),
        ({"task": "segmentation", "data": "shape", "head_depth": 0}, "Unknown segmentation set"),
    ],
)
def test_recipes_that_cannot_run_fail_first(corpus, tmp_path, stack, wrong, message):
    wanted = recipes(corpus)[:3]
    wanted[-1] = Recipe.from_dict({**wanted[-1].to_dict(), **wrong})
    with pytest.raises(InputError, match=message):
        next(run_grid(wanted, tmp_path, device="cpu", workers=1, stack=stack))
    assert not list(tmp_path.iterdir())


def test_a_size_below_one_is_an_error(corpus, tmp_path):
    with pytest.raises(InputError, match="stack must be a whole number of at least 1"):
        list(run_grid(recipes(corpus), tmp_path, device="cpu", stack=0))
