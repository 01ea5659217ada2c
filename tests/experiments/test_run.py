"""One recipe into a folder: what it leaves, what it refuses, and that both engines agree."""

import importlib.util
import itertools
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from people_corpus import write_corpus

from calibrant.calibrators import load_calibrator
from calibrant.errors import InputError, MissingExtraError
from calibrant.experiments import lean_engine
from calibrant.experiments.history import Epoch
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.reporter import reporting
from calibrant.experiments.run import train
from calibrant.experiments.run_folder import RunFolder
from calibrant.outputs import new_folder
from calibrant.predictions import Predictions
from calibrant.tasks import task_of
from calibrant.tasks.language.sentences import Sentence
from calibrant.tasks.ner.data import prepare
from calibrant.tasks.ner.subword_windows import encode

transformers = pytest.importorskip("transformers")


def recipe(corpus, **changes):
    settings = {
        "data": str(corpus), "model": "tiny", "epochs": 12, "batch": 8, "learning_rate": 5e-3,
        "dtype": "float32", "head_width": 16,
    }  # fmt: skip
    return Recipe(**{**settings, **changes})


def quietly(made, folder, **options):
    lines = []
    options = {"device": "cpu", "bootstrap": 0, "say": lines.append, **options}
    return train(made, folder, **options), lines


@pytest.fixture(scope="module")
def lean(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lean") / "run"
    record, lines = quietly(recipe(corpus, method="head_noise"), folder)
    return folder, record, lines


def test_a_run_holds_all_that_it_promises(lean):
    folder, record, lines = lean
    names = {path.name for path in folder.iterdir() if path.name != ".lock"}
    assert names == {
        "recipe.json", "model", "labels.json", "valid.parquet", "test.parquet", "temperature.json",
        "calibrator.json", "metrics.json", "report.html", "log.jsonl", "words.json",
        "raw_valid.parquet", "raw_calibrator.json", "entities.json", "evidence.npz",
    }  # fmt: skip
    assert json.loads((folder / "recipe.json").read_text()) == record.recipe.to_dict()
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in rows] == list(range(1, 13))
    assert rows[-1]["loss"] < rows[0]["loss"]
    assert len(lines) == 12
    assert "F1" in lines[0]
    valid, test = (Predictions.read(folder / f"{s}.parquet") for s in ("valid", "test"))
    assert valid.kind == "logits"
    temperature = load_calibrator(folder / "temperature.json").temperature_
    assert temperature == record.results["temperature"]["temperature"]
    assert record.results["identity"]["test"]["entity_f1"] > 0.35
    assert list(test.label_names) == json.loads((folder / "labels.json").read_text())


def test_the_model_gives_the_saved_predictions_in_plain_transformers(lean):
    folder, made, _ = lean
    model = transformers.AutoModelForTokenClassification.from_pretrained(
        folder / "model", trust_remote_code=True
    ).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "model", trust_remote_code=True)
    test = Predictions.read(folder / "test.parquet")
    words = prepare(made.recipe).corpus.test[0].words
    encoded = tokenizer(list(words), is_split_into_words=True, return_tensors="pt")
    with torch.no_grad():
        logits = model(**{k: encoded[k] for k in ("input_ids", "attention_mask")}).logits[0]
    owners = encoded.word_ids(0)
    first = [owners.index(word) for word in range(len(words))]
    np.testing.assert_allclose(logits[first].numpy(), test.scores[: len(words)], atol=1e-4)
    assert model.config.id2label == dict(enumerate(test.label_names))


def test_a_finished_run_is_not_trained_again(lean, monkeypatch):
    folder, record, _ = lean
    monkeypatch.setattr(lean_engine, "Loop", None)
    again, lines = quietly(record.recipe, folder)
    assert again == record
    assert lines == []


def test_both_engines_come_to_the_same_within_noise(corpus, lean, tmp_path):
    made = recipe(corpus, method="head_noise", engine="trainer")
    record, lines = quietly(made, tmp_path / "run")
    assert len(lines) == 12
    for name, tolerance in (("entity_f1", 0.1), ("accuracy", 0.03), ("nll", 0.05)):
        ours, theirs = (r.results["identity"]["test"][name] for r in (lean[1], record))
        assert abs(ours - theirs) < tolerance, (name, ours, theirs)
    assert not (tmp_path / "run" / "trainer").exists()


# What torchrun runs: the command, and which threads are left at its end.
COMMAND = """
import sys
from pathlib import Path
from calibrant.cli import main

code = main(sys.argv[1:])
left = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
sys.exit(code or (f"left: {left}" if any("gloo" in name for name in left) else 0))
"""


@pytest.mark.parametrize("engine", ["lean", "trainer"])
def test_both_engines_run_on_two_processes(corpus, tmp_path, engine):
    """And leave no thread of the group, which might abort the interpreter at its end."""
    (tmp_path / "command.py").write_text(COMMAND)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += [str(tmp_path / "command.py"), "train", "--data", str(corpus), "--model", "tiny"]
    command += ["--json", "--engine", engine, "--epochs", "1", "--batch", "8", "--device", "cpu"]
    command += ["--bootstrap", "0", "-o", str(tmp_path / "run")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout)["training"]["steps"] == 5
    assert RunFolder(tmp_path / "run").finished


def test_early_stopping_takes_the_best_epoch(corpus, tmp_path, monkeypatch):
    scores = itertools.chain([0.2, 0.6, 0.5, 0.4], itertools.repeat(0.9))
    monkeypatch.setattr(task_of("ner"), "score", lambda _: next(scores))
    saved = {}
    end_epoch = lean_engine.RunWatch.end_epoch

    def keep(course):
        end_epoch(course)
        state = course.loop.model.state_dict()
        saved[len(course.history.epochs)] = {k: v.clone() for k, v in state.items()}

    monkeypatch.setattr(lean_engine.RunWatch, "end_epoch", keep)
    made = recipe(corpus, epochs=5, patience=2)
    model = task_of("ner").build_model(made, prepare(made))
    monkeypatch.setattr(task_of("ner"), "build_model", lambda *_: model)
    record, _ = quietly(made, tmp_path / "run")
    assert record.training["epochs"] == 4
    assert record.training["epoch_taken"] == 2
    for name, value in model.state_dict().items():
        assert torch.equal(value, saved[2][name]), name


def test_another_recipe_is_refused(corpus, lean):
    folder, record, _ = lean
    with pytest.raises(InputError, match=r"another recipe: seed 0 \(now 1\)"):
        quietly(recipe(corpus, method="head_noise", seed=1), folder)
    assert RunFolder(folder).recipe() == record.recipe


def test_a_folder_of_other_things_stays_as_it_is(corpus, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="is not the folder of a run"):
        quietly(recipe(corpus), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_run_that_never_began_can_be_begun_otherwise(corpus, tmp_path, monkeypatch):
    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB")

    monkeypatch.setattr("calibrant.experiments.run.train_lean", full)
    with pytest.raises(InputError, match=r"--accumulate 2\).*smaller --batch"):
        quietly(recipe(corpus, batch=32), tmp_path / "run")
    monkeypatch.undo()
    quietly(recipe(corpus, batch=16, epochs=1), tmp_path / "run")
    assert RunFolder(tmp_path / "run").recipe().batch == 16


def test_other_errors_are_not_taken_for_memory(corpus, tmp_path, monkeypatch):
    def broken(*_):
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr("calibrant.experiments.run.train_lean", broken)
    with pytest.raises(RuntimeError, match="shapes"):
        quietly(recipe(corpus), tmp_path / "run")


def test_two_processes_cannot_train_one_run(corpus, tmp_path):
    run = RunFolder(tmp_path / "run")
    with run.begun(recipe(corpus)), pytest.raises(InputError, match="another process"):
        quietly(recipe(corpus), tmp_path / "run")


def test_what_a_killed_process_left_is_removed(corpus, tmp_path):
    run = RunFolder(tmp_path / "run")
    run.path.mkdir()
    (run.path / ".calibrant-0123456789abcdef.unfinished.pt").write_bytes(b"half")
    (run.path / ".calibrant-fedcba9876543210.unfinished").mkdir()
    with run.begun(recipe(corpus)):
        assert {path.name for path in run.path.iterdir()} == {".lock", "recipe.json"}


def test_other_data_than_before_is_refused(tmp_path, monkeypatch):
    made = recipe(write_corpus(tmp_path / "corpus"), epochs=2)

    def stop(course):
        course.save()
        raise KeyboardInterrupt

    monkeypatch.setattr(lean_engine.RunWatch, "end_epoch", stop)
    with pytest.raises(KeyboardInterrupt):
        quietly(made, tmp_path / "run")
    monkeypatch.undo()
    write_corpus(tmp_path / "corpus", seed=1)
    with pytest.raises(InputError, match="have changed since"):
        quietly(made, tmp_path / "run")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "head_nose"}, "Did you mean 'head-noise'"),
        ({"method": "focal", "method_options": {"gama": 1}}, "argument 'gama'; it takes gamma"),
        ({"method": "gamma_net_sece", "method_options": {"tau_": 1}}, r"argument 'tau_'\.$"),
        ({"data": "conll2004"}, "Did you mean 'conll2003'"),
        ({"dtype": "float16"}, "bfloat16"),
        ({"dtype": "float16", "engine": "trainer"}, "CUDA"),
        ({"method": "input_mixup"}, "FeatureMixup"),
    ],
)
def test_bad_recipes_are_refused_in_one_line(corpus, tmp_path, changes, message):
    with pytest.raises(InputError, match=message) as caught:
        quietly(recipe(corpus, **changes), tmp_path / "run")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run" / "metrics.json").exists()


def test_nothing_is_made_where_nothing_can_be(corpus, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be made"):
        quietly(recipe(corpus, epochs=1), tmp_path / "file" / "run")
    with pytest.raises(InputError, match="is not the folder of a run"):
        quietly(recipe(corpus, epochs=1), tmp_path / "file")


def test_one_sentence_cannot_be_trained_on_and_held_out(tmp_path):
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.txt").write_text("Anna B-PER\nlaughs O\n")
    recipe = Recipe(data=str(tmp_path), model="tiny", method="gamma_net_sece")
    with pytest.raises(InputError, match="1 training examples are too few to split"):
        prepare(recipe)


def test_a_method_with_held_out_data_trains_on_the_rest(corpus, tmp_path):
    made = recipe(corpus, method="gamma_net_sece", epochs=1)
    data = prepare(made)
    held, train = data.splits["held"], data.splits["train"]
    assert len(held) == 4
    assert len(held) + len(train) == 40
    for engine in ("lean", "trainer"):
        changed = recipe(corpus, method="gamma_net_sece", epochs=1, engine=engine)
        assert quietly(changed, tmp_path / engine)[0].training["epochs"] == 1


def test_parts_of_a_batch_and_bfloat16_train(corpus, tmp_path):
    made = recipe(corpus, accumulate=2, dtype="bfloat16", epochs=1, warm_up=0.2)
    assert quietly(made, tmp_path / "run")[0].training["steps"] == 5


def test_tensorboard_gets_every_epoch(tmp_path):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with reporting(2, tmp_path, tensorboard=True, say=str) as reporter:
        for number in (1, 2):
            reporter.epoch(Epoch(number, 5 * number, 0.3, 0.1 * number, 0.2, 0.4, 1.0))
    found = events.EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(event.step, event.value) for event in found.Scalars("f1")] == [
        (5, pytest.approx(0.1)),
        (10, pytest.approx(0.2)),
    ]


def test_a_run_writes_to_tensorboard_what_it_logs(corpus, tmp_path):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    quietly(recipe(corpus, epochs=2), tmp_path / "run", tensorboard=True)
    rows = [json.loads(line) for line in (tmp_path / "run/log.jsonl").read_text().splitlines()]
    found = events.EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    assert found.Tags()["scalars"] == ["loss", "f1", "ece", "nll"]
    for name in found.Tags()["scalars"]:
        logged = [(event.step, event.value) for event in found.Scalars(name)]
        assert logged == [(row["step"], pytest.approx(row[name], rel=1e-6)) for row in rows]


def test_without_tensorboard_its_extra_is_named_before_the_work(corpus, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'calibrant\[tensorboard\]'"):
        quietly(recipe(corpus, epochs=1), tmp_path / "run", tensorboard=True)
    assert not (tmp_path / "run").exists()


def test_a_linear_head_without_pyarrow(corpus, tmp_path, monkeypatch):
    """The model is the encoder's own class; predictions are npz."""
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *a: None if name == "pyarrow" else find(name, *a)
    )
    made = recipe(corpus, head_depth=0, epochs=1)
    quietly(made, tmp_path / "run")
    path = RunFolder(tmp_path / "run").predictions("valid")
    assert path.suffix == ".npz"
    assert len(Predictions.read(path)) > 0
    model = transformers.AutoModelForTokenClassification.from_pretrained(tmp_path / "run" / "model")
    assert type(model) is type(task_of("ner").build_model(made, prepare(made)))
    assert isinstance(model.classifier, torch.nn.Linear)
    assert not list((tmp_path / "run" / "model").glob("*.py"))


def test_a_model_that_is_none_is_named(corpus, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="Cannot load"):
        quietly(recipe(corpus, model=str(tmp_path / "empty")), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_labels_that_training_has_not_are_named(tmp_path):
    folder = write_corpus(tmp_path / "corpus")
    (folder / "test.conll").write_text("Anna\tB-XYZ\n")
    with pytest.raises(InputError, match="B-XYZ"):
        quietly(recipe(folder, unseen_types="error"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_training_split_without_entities_is_refused(tmp_path):
    folder = write_corpus(tmp_path / "corpus")
    (folder / "train.conll").write_text("Anna\tO\nsings\tO\n\nHi\tO\n")
    with pytest.raises(InputError, match="the training split has no entity, all of its 3 words"):
        quietly(recipe(folder), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_sentence_longer_than_a_window_is_trained_and_predicted_whole(corpus, tmp_path):
    made = recipe(corpus, max_length=16, epochs=1)
    data = prepare(made)
    words = tuple(f"w{number}" for number in range(200))
    pieces = encode([Sentence(words, ("O",) * 200)], data.labels, data.tokenizer, 16)
    assert (pieces.labels >= 0).sum() == 200


def test_the_model_can_be_read_by_whoever_can_read_its_folder(tmp_path):
    with new_folder(tmp_path / "model") as folder:
        (folder / "weights").write_text("1")
        (folder / "weights").chmod(0o600)
    rights = (tmp_path / "model").stat().st_mode & 0o666
    assert (tmp_path / "model" / "weights").stat().st_mode & 0o777 == rights
