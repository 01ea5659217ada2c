"""Every task is trained in the same way: run folders, resuming, grids, and numbers that hold."""

import dataclasses
import json
import math

import numpy as np
import pytest
import torch

from calibrant.errors import InputError
from calibrant.experiments import lean_engine
from calibrant.experiments.grid import run_grid
from calibrant.experiments.lean_engine import run_cell
from calibrant.experiments.measure import measure_run
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.record import read_record
from calibrant.experiments.run import train
from calibrant.loading import load_run
from calibrant.predictions import Predictions
from calibrant.tasks import all_tasks, task_of
from calibrant.tasks.image.classifier import load_classifier
from calibrant.training.images import Images

pytest.importorskip("transformers")
pytest.importorskip("sklearn")

SOUNDS = {"dog": ["barks", "growls", "howls"], "cat": ["purrs", "hisses"], "cow": ["moos"]}


def write_pets(folder):
    """Write texts of which most contain a word that reveals the class, and some without a class."""
    random = np.random.default_rng(0)
    folder.mkdir()

    def pet():
        label = random.choice(list(SOUNDS))
        sounds = SOUNDS[label] if random.random() < 0.7 else ["sleeps"]
        return {
            "text": f"the {random.choice(['old', 'big'])} one {random.choice(sounds)}",
            "label": label,
        }

    parts = {
        split: [pet() for _ in range(n)] for split, n in (("train", 90), ("dev", 30), ("test", 30))
    }
    parts["ood"] = [{"text": f"wind blows {n}", "label": "storm"} for n in range(10)]
    for split, rows in parts.items():
        (folder / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


@pytest.fixture(scope="module")
def pets(tmp_path_factory):
    return write_pets(tmp_path_factory.mktemp("pets") / "pets")


@pytest.fixture(scope="module")
def settings(pets):
    """A small recipe of each task."""
    common = {"model": "tiny", "epochs": 3, "dtype": "float32"}
    text = {"task": "text", "data": str(pets), "batch": 16, "learning_rate": 5e-3, "head_width": 8}
    image = {"task": "image", "data": "digits", "batch": 128}
    return {"text": {**common, **text}, "image": {**common, **image}}


def quietly(recipe, folder):
    return train(recipe, folder, device="cpu", bootstrap=0, say=lambda _: None)


@pytest.fixture(scope="module", params=["text", "image"])
def trained(request, settings, tmp_path_factory):
    recipe = Recipe.from_dict(settings[request.param])
    folder = tmp_path_factory.mktemp("run") / "run"
    return recipe, folder, quietly(recipe, folder)


def predictions(folder, split):
    return Predictions.read(folder / f"{split}.parquet")


def test_a_run_holds_all_that_it_promises(trained):
    _, folder, record = trained
    names = {path.name for path in folder.iterdir() if path.name != ".lock"}
    assert names == {
        "recipe.json", "model", "labels.json", "valid.parquet", "test.parquet", "temperature.json",
        "calibrator.json", "metrics.json", "report.html", "log.jsonl", "evidence.npz",
    }  # fmt: skip
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in rows] == [1, 2, 3]
    assert {"loss", "accuracy", "ece", "nll"} <= set(rows[0])
    test = predictions(folder, "test")
    right = (test.scores.argmax(1) == test.labels).mean()
    found = record.results["identity"]["test"]
    assert found["accuracy"] == pytest.approx(right) == pytest.approx(1 - found["error_rate"])
    assert right > 0.5
    assert "entity_f1" not in found
    assert read_record(folder / "metrics.json") == record


def test_what_is_finished_is_not_trained_again(trained, monkeypatch):
    recipe, folder, record = trained
    monkeypatch.setattr(lean_engine, "Loop", None)
    assert quietly(recipe, folder) == record


def test_an_interrupted_run_comes_to_the_same_bits(trained, tmp_path, monkeypatch):
    recipe, folder, _ = trained
    end_epoch = lean_engine.RunWatch.end_epoch

    def stop(course):
        end_epoch(course)
        if len(course.history.epochs) == 2:
            course.save()
            raise KeyboardInterrupt

    monkeypatch.setattr(lean_engine.RunWatch, "end_epoch", stop)
    with pytest.raises(KeyboardInterrupt):
        quietly(recipe, tmp_path / "run")
    monkeypatch.undo()
    quietly(recipe, tmp_path / "run")
    for split in ("valid", "test"):
        first, second = (predictions(run, split) for run in (folder, tmp_path / "run"))
        np.testing.assert_array_equal(first.scores, second.scores)


def test_a_grid_measures_what_a_run_measures(trained, tmp_path):
    recipe, _, record = trained
    [path] = run_grid([recipe], tmp_path, device="cpu", workers=1)
    ours = read_record(path).results
    for kind in ("identity", "temperature"):
        assert ours[kind]["test"] == pytest.approx(record.results[kind]["test"], nan_ok=True)
        assert ("outside" in ours[kind]) == (recipe.task == "text")
    assert ours["identity"].get("outside") == record.results["identity"].get("outside")


@pytest.mark.parametrize("task", ["text", "image"])
def test_seeds_of_one_cell_are_runs_of_their_own(settings, task, tmp_path):
    recipes = [Recipe.from_dict({**settings[task], "epochs": 1, "seed": s}) for s in (0, 1)]
    together = [outcome for outcome in run_cell(recipes, None, "cpu") if outcome is not None]
    [alone] = [outcome for outcome in run_cell(recipes[1:], None, "cpu") if outcome is not None]
    np.testing.assert_array_equal(together[1].test.scores, alone.test.scores)
    assert not np.array_equal(together[0].test.scores, alone.test.scores)


def test_the_image_model_gives_the_saved_predictions(settings, tmp_path):
    recipe = Recipe.from_dict({**settings["image"], "epochs": 1})
    quietly(recipe, tmp_path / "run")
    model, about = load_classifier(tmp_path / "run" / "model")
    test = task_of("image").prepare(recipe).parts["test"]
    normal = {"mean": about["mean"], "deviation": about["deviation"]}
    pixels = Images(*test, "cpu", **normal).batch(torch.arange(len(test.classes)), 1)
    saved = predictions(tmp_path / "run", "test")
    with torch.no_grad():
        logits = model(pixels["pixel_values"]).numpy()
    np.testing.assert_allclose(logits, saved.scores, atol=1e-5)
    assert about["labels"] == list(saved.label_names)


def test_the_auroc_of_out_of_scope_texts_is_that_of_scikit_learn(settings, tmp_path):
    from sklearn.metrics import roc_auc_score

    recipe = Recipe.from_dict(settings["text"])
    [outcome] = [found for found in run_cell([recipe], None, "cpu") if found is not None]
    assert outcome.outside.scores.shape == (10, 3)
    assert outcome.ood is None
    results = measure_run(
        outcome.valid, outcome.test, measure=task_of("text").measure, outside=outcome.outside
    )
    for kind in ("identity", "temperature"):
        temperature = results[kind].get("temperature", 1.0)
        scores = np.concatenate([outcome.test.scores, outcome.outside.scores])
        logits = scores.astype(float) / temperature
        odds = np.exp(logits - logits.max(1, keepdims=True))
        confidence = (odds / odds.sum(1, keepdims=True)).max(1)
        inside = np.arange(len(confidence)) < len(outcome.test)
        expected = roc_auc_score(inside, confidence)
        assert results[kind]["outside"]["auroc"] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("task", "shift", "other"),
    [("text", "dropped-words-5", "jpeg-1"), ("image", "gaussian-noise-5", "typos-1")],
)
def test_shifted_test_splits_are_measured(settings, task, shift, other, tmp_path):
    recipe = Recipe.from_dict({**settings[task], "epochs": 1, "shift": [shift]})
    results = quietly(recipe, tmp_path / "run").results["identity"]
    assert set(results["shift"]) == {shift}
    assert results["shift"][shift]["nll"] != results["test"]["nll"]
    with pytest.raises(InputError, match=f"Unknown corruption of {task}s '{other}'"):
        quietly(dataclasses.replace(recipe, shift=(other,)), tmp_path / "other")


def test_the_trainer_engine_trains_texts(settings, tmp_path):
    recipe = Recipe.from_dict({**settings["text"], "engine": "trainer", "epochs": 1})
    record = quietly(recipe, tmp_path / "run")
    assert record.training["steps"] == math.ceil(90 / 16)


@pytest.mark.parametrize("method", ["gamma_net_sece", "input_mixup", "mmce", "head_noise"])
def test_methods_train_images(settings, method, tmp_path):
    recipe = Recipe.from_dict({**settings["image"], "epochs": 1, "method": method})
    data = task_of("image").prepare(recipe)
    assert ("held" in data.splits) == (method == "gamma_net_sece")
    assert quietly(recipe, tmp_path / "run").results["identity"]["test"]["accuracy"] > 0.2


def test_a_compiled_encoder_gives_the_same_run(settings, tmp_path, monkeypatch):
    """With a backend that compiles nothing: what is tested is that head and evaluation fit."""
    compile_ = torch.nn.Module.compile
    calls = []

    def cheaply(module, **_):
        calls.append(module)
        compile_(module, backend="eager")

    monkeypatch.setattr(torch.nn.Module, "compile", cheaply)
    plain = Recipe.from_dict({**settings["image"], "epochs": 1, "method": "gamma_net_dece"})
    compiled = dataclasses.replace(plain, compile=True)
    first, second = (quietly(r, tmp_path / str(r.compile)) for r in (plain, compiled))
    assert len(calls) == 1
    assert second.results["identity"]["test"]["nll"] == pytest.approx(
        first.results["identity"]["test"]["nll"], rel=1e-3
    )


def test_every_task_has_defaults_of_its_own():
    assert Recipe.from_dict({}) == Recipe()
    image = Recipe.from_dict({"task": "image", "epochs": 7})
    assert (image.epochs, image.model, image.optimizer) == (7, "lenet", "sgd")
    assert Recipe.from_dict(image.to_dict()) == image
    for task in all_tasks().values():
        assert set(task.defaults) <= {f.name for f in dataclasses.fields(Recipe)}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"task": "txt"}, r"Unknown task 'txt'\. Did you mean 'text'"),
        ({"augment": "crop"}, "augment is a setting of task 'image', not 'ner'"),
        ({"task": "text", "compile": True}, "compile is a setting of task 'image', not 'text'"),
        ({"task": "image", "engine": "trainer"}, "engine lean or wrapped, not by 'trainer'"),
        ({"task": "image", "optimizer": "adam"}, "Did you mean 'adamw'"),
        ({"engine": "trainer", "optimizer": "sgd"}, "AdamW with linear decay"),
        ({"momentum": 1.0}, "momentum must be below 1"),
        ({"clip": -1.0}, "clip must be a number of at least 0"),
    ],
)
def test_settings_that_do_not_fit_are_errors(content, message):
    with pytest.raises(InputError, match=message):
        Recipe.from_dict(content)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "image", "data": "digit"}, "Did you mean 'digits'"),
        ({"task": "image", "data": "digits", "model": "lent"}, "Did you mean 'lenet'"),
        ({"task": "image", "data": "digits", "augment": "crp"}, "Did you mean 'crop'"),
        ({"task": "text", "data": "clinc15"}, "Did you mean 'clinc150'"),
    ],
)
def test_bad_recipes_are_refused_in_one_line(changes, message, tmp_path):
    with pytest.raises(InputError, match=message) as caught:
        quietly(Recipe.from_dict(changes), tmp_path / "run")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_run_is_loaded_with_the_calibrator_that_it_chose(trained):
    _, folder, record = trained
    assert load_run(folder).calibrator.name == record.training["calibrator"]


def test_cifar10_is_found_in_the_data_directory(tmp_path):
    random = np.random.default_rng(0)
    arrays = {}
    for split, n in (("train", 40), ("test", 10)):
        arrays[f"{split}_images"] = random.integers(0, 256, (n, 32, 32, 3), np.uint8)
        arrays[f"{split}_labels"] = np.arange(n) % 10
    (tmp_path / "image").mkdir()
    np.savez(tmp_path / "image" / "cifar10.npz", **arrays)
    recipe = Recipe.from_dict({"task": "image", "data": "cifar10"})
    data = task_of("image").prepare(recipe, str(tmp_path))
    assert [len(data.splits[s].classes) for s in ("train", "dev", "test")] == [36, 4, 10]
    assert data.shape == (3, 32)
    np.testing.assert_array_equal(data.parts["test"].images, arrays["test_images"])


def test_images_of_any_size_are_brought_to_one(skies, tmp_path):
    content = {"task": "image", "data": str(skies), "model": "tiny", "epochs": 3}
    with pytest.raises(InputError, match=r"several shapes.*--image-size"):
        quietly(Recipe.from_dict(content), tmp_path / "run")
    recipe = Recipe.from_dict({**content, "image_size": 8, "batch": 8, "dtype": "float32"})
    assert task_of("image").prepare(recipe).shape == (3, 8)
    digits = dataclasses.replace(recipe, data="digits", image_size=16)
    assert task_of("image").prepare(digits).shape == (1, 16)
