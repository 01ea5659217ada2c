"""Training on masks: from a folder of pictures to a run, its numbers, its maps and its model."""

import re
import shutil
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch

from calibrant import InputError, Predictions
from calibrant.auditing import audit
from calibrant.calibrators import CalibrationWarning
from calibrant.cli import main
from calibrant.experiments.evaluation import evaluate
from calibrant.experiments.grid import run_grid
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.recipe_file import read_recipes
from calibrant.experiments.record import read_record
from calibrant.experiments.run import train
from calibrant.metrics import accumulate, ece, mean_iou
from calibrant.tasks import task_of
from calibrant.tasks.segmentation import pixel_predictions
from calibrant.tasks.segmentation.data import Pixels, SegmentationData
from calibrant.tasks.segmentation.labelled import LabelledScenes
from calibrant.tasks.segmentation.pixel_predictions import pixel_logits
from calibrant.tasks.segmentation.segmenter import load_segmenter
from calibrant.tasks.segmentation.shapes import CLASSES, generate_scenes

QUICK = {"task": "segmentation", "head_width": 4, "epochs": 2, "batch": 4, "dtype": "float32"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Scenes of shapes as files, two of the training images smaller than the others."""
    pillow = pytest.importorskip("PIL.Image")
    root = tmp_path_factory.mktemp("masks")
    for number, (split, count) in enumerate((("train", 12), ("val", 4), ("test", 5))):
        for kind in ("images", "masks"):
            (root / split / kind).mkdir(parents=True)
        for i, (image, mask) in enumerate(generate_scenes(count, 16, seed=number)):
            side = slice(0, 12 if split == "train" and i < 2 else 16)
            void = np.where(mask == -100, 255, mask).astype(np.uint8)
            pillow.fromarray(image[side]).save(root / split / "images" / f"{i}.png")
            pillow.fromarray(void[side]).save(root / split / "masks" / f"{i}.png")
    (root / "labels.txt").write_text("\n".join(CLASSES))
    return root


def recipe(folder, **changes):
    return Recipe.from_dict({**QUICK, "data": str(folder), **changes})


@pytest.fixture(scope="module")
def run(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "run"
    asked = recipe(folder, shift=["contrast-3"], epochs=15, learning_rate=0.02)
    record = train(asked, path, device="cpu", bootstrap=20, say=lambda _: None)
    return asked, path, record


def test_a_run_holds_all_that_it_promises(run):
    _, path, record = run
    for split, images in (("valid", 4), ("test", 5)):
        p = Predictions.read(path / f"{split}.parquet")
        assert p.label_names == CLASSES
        assert sorted(set(p.groups["image"].tolist())) == list(range(images))
        assert set(p.groups["border"].tolist()) == {0, 1}
    for kind in ("identity", "temperature"):
        numbers = record.results[kind]["test"]
        assert 0 <= numbers["mean_iou"] <= 1
        assert set(record.results[kind]["shift"]) == {"contrast-3"}
    assert record.results["identity"]["test"] == task_of("segmentation").measure(p)
    assert record.results["identity"]["shift"]["contrast-3"] != record.results["identity"]["test"]
    page = (path / "report.html").read_text()
    assert len(re.findall(r'alt="Confidence in test image \d', page)) == 2 * 4
    assert "<h2>Images</h2>" in page


def test_the_model_gives_the_saved_predictions(run):
    asked, path, _ = run
    model, about = load_segmenter(path / "model")
    assert about["labels"] == list(CLASSES)
    data = task_of("segmentation").prepare(asked)
    np.testing.assert_allclose(about["mean"], data.mean)
    again = data.predict(model, data.parts["test"])
    saved = Predictions.read(path / "test.parquet")
    np.testing.assert_allclose(again.scores, saved.scores, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(again.labels, saved.labels)
    with pytest.raises(InputError, match="does not hold a loadable segmentation network"):
        load_segmenter(path)


def test_its_predictions_can_be_audited(run):
    _, path, record = run
    view = audit(Predictions.read(path / "test.parquet"), bootstrap=0).pixels
    numbers = {m.name: m.value for m in view.measures}
    for name, value in numbers.items():
        assert value == pytest.approx(record.results["identity"]["test"][name])


def test_numbers_of_pixels_are_those_of_their_parts(run):
    p = Predictions.read(run[1] / "test.parquet")
    numbers = task_of("segmentation").measure(p)
    assert numbers["mean_iou"] == mean_iou(p)
    for side, name in enumerate(("inside", "border")):
        part = p[p.groups["border"] == side]
        assert numbers[f"{name}_ece"] == pytest.approx(ece(accumulate(part)))
    errors = [ece(accumulate(p[p.groups["image"] == i])) for i in range(5)]
    assert numbers["image_ece_median"] == pytest.approx(np.median(errors))


def test_smaller_images_are_filled_up_with_void(folder):
    data = task_of("segmentation").prepare(recipe(folder))
    rows, held = data.windows("cpu")
    assert held is None
    assert rows.pixels.shape == (12, 16, 16, 3)
    assert (rows.classes[:2, 12:] == -100).all()
    batch = rows.batch(torch.tensor([0, 5]), rows.longest)
    assert batch["pixel_values"][0, :, 12:].abs().max() < 0.02  # The mean, rounded to a byte.
    assert data.fingerprint == task_of("segmentation").prepare(recipe(folder)).fingerprint


def test_of_many_pixels_a_sample_is_kept(run, folder, monkeypatch):
    data = SegmentationData(task_of("segmentation").prepare(recipe(folder)).scenes)
    model = task_of("segmentation").build_model(recipe(folder), data)
    whole = data.predict(model, data.parts["test"])
    assert data.notes == ()
    monkeypatch.setattr(pixel_predictions, "MOST_SCORES", 5 * 400)
    part = data.predict(model, data.parts["test"])
    assert 150 < len(part) <= 400
    assert data.notes == (
        f"Measured on a seeded sample: {len(part)} of {len(whole):,} labelled pixels of a split.",
    )
    same = data.predict(model, data.parts["test"])
    np.testing.assert_array_equal(part.scores, same.scores)
    with pytest.warns(CalibrationWarning, match=r"seeded sample: \d+ of \d+ labelled pixels"):
        evaluate(run[1], device="cpu")


def test_each_image_is_read_once_and_each_part_predicted_in_turn(run, monkeypatch):
    asked, path, _ = run
    data = SegmentationData(task_of("segmentation").prepare(asked).scenes)
    read = []

    class Seen(Pixels):
        def __getitem__(self, number):
            read.append(number)
            return super().__getitem__(number)

    model, _ = load_segmenter(path / "model")
    data.predict(model, Seen(data.parts["test"].scenes))
    assert read == list(range(5))

    alive, most = weakref.WeakSet(), []
    real = LabelledScenes.predict

    def predict(self, corruption, seed):
        made = real(self, corruption, seed)
        if corruption is not None:
            alive.add(made)
            most.append(len(alive))
        return made

    monkeypatch.setattr(LabelledScenes, "predict", predict)
    found = evaluate(path, corrupt=["contrast"], device="cpu")
    assert len(found["temperature"]["shift"]) == 5
    assert max(most) <= 2


def test_a_method_with_held_out_data(folder):
    asked = recipe(folder, method="gamma_net_sece")
    data = task_of("segmentation").prepare(asked)
    rows, held = data.windows("cpu")
    assert (len(rows), len(held)) == (11, 1)


def test_masks_in_which_all_is_void(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "void")
    pillow = pytest.importorskip("PIL.Image")
    for split in ("train", "test"):
        for path in (tmp_path / "void" / split / "masks").iterdir():
            void = np.full_like(np.asarray(pillow.open(path)), 255)
            pillow.fromarray(void).save(path)
        with pytest.raises(InputError, match=f"no pixel of the {split} split has a class"):
            train(recipe(tmp_path / "void", epochs=1), tmp_path / "run", device="cpu")
        assert not (tmp_path / "run" / "log.jsonl").exists()  # Before anything is trained.


def test_masks_in_black_and_white_are_not_learned_as_black_and_void(folder, tmp_path):
    """Else every pixel that counts is of one class, and all of them are right."""
    shutil.copytree(folder, tmp_path / "odd")
    pillow = pytest.importorskip("PIL.Image")
    for path in tmp_path.glob("odd/*/masks/*.png"):
        white = np.where(np.asarray(pillow.open(path)) > 0, 255, 0).astype(np.uint8)
        pillow.fromarray(white).save(path)
    with pytest.raises(InputError, match=r"are 'background', or void: .* 0 and 255, write 0 and 1"):
        train(recipe(tmp_path / "odd", epochs=1), tmp_path / "run", device="cpu")


def test_testing_on_one_class_gives_a_note(run, folder, tmp_path):
    shutil.copytree(folder, tmp_path / "odd")
    pillow = pytest.importorskip("PIL.Image")
    for path in (tmp_path / "odd" / "test" / "masks").iterdir():
        white = np.where(np.asarray(pillow.open(path)) > 0, 255, 0).astype(np.uint8)
        pillow.fromarray(white).save(path)
    with pytest.warns(CalibrationWarning, match="All pixels that have a class are 'background'"):
        evaluate(run[1], str(tmp_path / "odd"), device="cpu")


def test_an_unknown_class_in_a_test_mask_fails_before_training(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "odd")
    pillow = pytest.importorskip("PIL.Image")
    path = next((tmp_path / "odd" / "test" / "masks").iterdir())
    pillow.fromarray(np.full_like(np.asarray(pillow.open(path)), 77)).save(path)
    with pytest.raises(InputError, match="class 77, but there are"):
        train(recipe(tmp_path / "odd", epochs=1), tmp_path / "run", device="cpu")
    assert not (tmp_path / "run" / "log.jsonl").exists()


def test_grids_and_the_recipe_of_the_benchmark(folder, tmp_path):
    grid = [recipe(folder, method="margin_smoothing", seed=seed, epochs=1) for seed in (0, 1)]
    paths = list(run_grid(grid, tmp_path, device="cpu", workers=1))
    found = [read_record(path).results["temperature"]["test"]["border_ece"] for path in paths]
    assert len(found) == 2
    assert found[0] != found[1]
    recipes = read_recipes(Path(__file__).parents[2] / "benchmarks/recipes/segmentation.toml")
    assert len(recipes) == 21
    assert {r.method for r in recipes} >= {"margin_smoothing", "mmce", "sece", "focal"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"head_depth": 1}, "leave head_depth at 0, got 1"),
        ({"model": "unit"}, "Unknown segmentation network 'unit'"),
        ({"shift": ["contrst-3"]}, "Unknown corruption of images 'contrst-3'. Did you mean"),
        ({"engine": "trainer"}, "Task 'segmentation' is trained by engine lean"),
        (
            {"shift": ["contrast"]},
            "Which strength of 'contrast'. Expected contrast-1 to",
        ),
        ({"method": "input_mixup"}, "'input_mixup' does not support masks; use 'feature_mixup'"),
        ({"compile": True}, "compile is a setting of task 'image'"),
    ],
)
def test_what_cannot_be_trained(folder, tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        train(recipe(folder, **changes), tmp_path / "run", device="cpu")
    assert not (tmp_path / "run").exists()


def test_the_command_line(folder, tmp_path, capsys):
    words = f"train --task segmentation --data {folder} -o {tmp_path / 'run'} --device cpu"
    more = "--head-width 4 --epochs 1 --batch 4 --bootstrap 0"
    assert main([*words.split(), *more.split()]) == 0
    captured = capsys.readouterr()
    assert "mIoU" in captured.err
    assert re.search(r"test +mIoU +ECE +ECE near borders", captured.out)
    assert main(["audit", str(tmp_path / "run" / "test.parquet"), "--bootstrap", "0"]) == 0
    assert "ECE near borders" in capsys.readouterr().out
    assert main(["evaluate", str(tmp_path / "run"), "--device", "cpu"]) == 0
    assert re.search(r"data +mIoU +accuracy +ECE", capsys.readouterr().out)


def test_scenes_of_the_report_follow_the_temperature(run):
    asked, path, _ = run
    data = task_of("segmentation").prepare(asked)
    model, _ = load_segmenter(path / "model")
    plain, soft = data.example_scenes(model), data.example_scenes(model, 2.0)
    logits = next(pixel_logits(model, data.parts["test"], data.collate))
    np.testing.assert_array_equal(plain[0].predicted, logits.argmax(-1))
    assert (soft[0].confidence < plain[0].confidence).all()
    np.testing.assert_array_equal(soft[0].predicted, plain[0].predicted)


def test_a_run_is_evaluated_on_its_own_and_other_masks(run, tmp_path):
    _, path, record = run
    found = evaluate(path, corrupt=["contrast-3"], device="cpu")
    for kind in ("identity", "temperature"):
        mine, numbers = found[kind], record.results[kind]
        assert mine["test"]["ece"] == pytest.approx(numbers["test"]["ece"], abs=1e-5)
        same = numbers["shift"]["contrast-3"]["mean_iou"]
        assert mine["shift"]["contrast-3"]["mean_iou"] == pytest.approx(same, abs=1e-3)
    other = evaluate(path, "shapes", device="cpu")
    assert other["identity"]["test"]["ece"] != found["identity"]["test"]["ece"]


def test_masks_that_are_only_to_test_on(run, folder, tmp_path):
    """The test split alone, all of a folder without splits, grey images, no names of classes."""
    _, path, record = run
    expected = record.results["identity"]["test"]
    shutil.copytree(folder / "test", tmp_path / "mine")
    shutil.copytree(folder / "test", tmp_path / "split" / "test")
    for name in ("mine", "split"):
        found = evaluate(path, str(tmp_path / name), device="cpu")["identity"]["test"]
        assert found == pytest.approx(expected, abs=1e-5, nan_ok=True)
    (tmp_path / "mine" / "labels.txt").write_text("sky\ntree\n")
    with pytest.raises(InputError, match=r"expected the run's classes, background, circle, .* sky"):
        evaluate(path, str(tmp_path / "mine"), device="cpu")
    (tmp_path / "mine" / "labels.txt").unlink()
    pillow = pytest.importorskip("PIL.Image")
    for image in (tmp_path / "mine" / "images").iterdir():
        pillow.open(image).convert("L").save(image)
    grey = evaluate(path, str(tmp_path / "mine"), device="cpu")["identity"]["test"]
    assert grey["nll"] != pytest.approx(expected["nll"])
    (tmp_path / "split" / "test").rename(tmp_path / "split" / "val")
    with pytest.raises(InputError, match="has no test images; found: dev"):
        evaluate(path, str(tmp_path / "split"), device="cpu")
