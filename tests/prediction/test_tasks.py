"""Every task predicts: calibrated confidence, alternatives, abstention; in Python and the shell."""

import csv
import json
import re
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

import calibrant
from calibrant.cli import main
from calibrant.errors import InputError
from calibrant.predictions import Predictions
from calibrant.tasks import TASKS

TEXTS = ["the bread soup of today", "", "ball goal race " * 200, "the wet cloud"]


def inputs(task, runs):
    """Some inputs of a task."""
    if task in ("ner", "text"):
        return TEXTS
    if task == "image":
        return np.random.default_rng(0).integers(0, 17, (5, 8, 8), np.uint8)
    assert runs["segmentation"]
    return sorted((runs.folder / "segmentation-data" / "test" / "images").iterdir())


@pytest.mark.parametrize("task", TASKS)
def test_a_run_predicts_without_validation_logits(task, runs, tmp_path):
    """Contract: what ``load`` returns predicts the same from a run that has no logits."""
    bare = tmp_path / "bare"
    shutil.copytree(runs[task], bare, ignore=shutil.ignore_patterns("*.parquet"))
    given = inputs(task, runs)
    one, two = (calibrant.load(path, device="cpu") for path in (runs[task], bare))
    first, second = (made.predict(given, top_k=2, target_risk=0.4) for made in (one, two))
    assert len(first) == len(given)
    assert [json.dumps(p.to_dict()) for p in first] == [json.dumps(p.to_dict()) for p in second]
    assert type(one).__name__ in repr(one)
    assert len(one.predict([])) == 0


@pytest.mark.parametrize("task", ["text", "image", "segmentation"])
def test_runs_without_evidence_take_it_from_their_predictions(task, runs, tmp_path):
    old = tmp_path / "old"
    shutil.copytree(runs[task], old)
    (old / "evidence.npz").unlink()
    made, before = (calibrant.load(path, device="cpu") for path in (runs[task], old))
    assert made.threshold(0.3) == before.threshold(0.3)


@pytest.mark.parametrize("task", ["text", "image"])
def test_confidences_are_those_of_the_validation_predictions(task, runs):
    """The model of the folder and its calibrator give what training measured."""
    made = calibrant.load(runs[task], device="cpu")
    test = Predictions.read(runs[task] / "test.parquet")
    if task == "text":
        lines = (runs.folder / "text-data" / "test.csv").read_text().splitlines()
        given = [line.rpartition(",")[0] for line in lines[1:]]
    else:
        from calibrant.tasks.image import load_pictures

        given = load_pictures("digits").images["test"]
    found = made.predict(given, top_k=3)
    expected = made.calibrator.transform(test).probabilities()
    assert [p.confidence for p in found] == pytest.approx(expected.max(axis=1), abs=1e-5)
    assert [p.label for p in found] == [made.labels[k] for k in expected.argmax(axis=1)]
    for prediction, row in zip(found, np.sort(expected, axis=1)[:, ::-1], strict=True):
        others = [other.confidence for other in prediction.alternatives]
        assert others == pytest.approx(row[1:3], abs=1e-5)


def test_texts_are_accepted_by_confidence_and_target(runs):
    made = calibrant.load(runs["text"], device="cpu")
    for prediction in made.predict(TEXTS, min_confidence=0.6):
        assert prediction.accepted == (prediction.confidence >= 0.6 and not prediction.empty)
    guarantee = made.threshold(0.4)
    assert "texts" in str(guarantee)
    for prediction in made.predict(TEXTS, target_risk=0.4):
        assert prediction.accepted == (prediction.confidence >= guarantee.threshold)


def test_order_and_batches_do_not_matter(runs):
    made = calibrant.load(runs["text"], device="cpu")
    many = made.predict(TEXTS)
    for one, other in zip(made.stream(TEXTS[::-1], batch=1), many[::-1], strict=True):
        assert one.label == other.label
        assert one.confidence == pytest.approx(other.confidence, rel=1e-5)
    made.scorer.pieces = 1
    assert made.predict(TEXTS[0])[0].confidence == pytest.approx(many[0].confidence, rel=1e-5)


def test_images_come_as_files_arrays_and_pictures(runs, tmp_path):
    pillow = pytest.importorskip("PIL.Image")
    made = calibrant.load(runs["image"], device="cpu")
    image = np.random.default_rng(0).integers(0, 255, (8, 8), np.uint8)
    pillow.fromarray(image).save(tmp_path / "a.png")
    picture = pillow.open(tmp_path / "a.png")
    for given in (image, image[None], image[None, ..., None], [image], picture, tmp_path / "a.png"):
        (found,) = made.predict(given)
        assert found == made.predict([image[..., None]])[0]
    large = np.repeat(np.repeat(image, 4, 0), 4, 1)
    assert made.predict([large])[0].confidence > 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([np.zeros((8, 8), np.float32)], r"got float32 \(8, 8\)"),
        ([3], "An image is a file"),
        ([np.zeros((8, 8, 3), np.uint8)], "3 channels, and the model was trained on 1"),
        (["nowhere.png"], "There is no file nowhere.png"),
        ([np.zeros((0, 8), np.uint8)], "An image is a file"),
        ([np.zeros((9, 9, 4), np.uint8)], "4 channels cannot be brought to"),
    ],
)
def test_what_is_no_image_is_one_line(given, message, runs):
    with pytest.raises(InputError, match=message):
        calibrant.load(runs["image"], device="cpu").predict(given)


def test_a_mask_has_the_class_of_each_pixel(runs):
    made = calibrant.load(runs["segmentation"], device="cpu")
    (first, *_) = made.predict(inputs("segmentation", runs), top_k=2, min_confidence=0.7)
    assert first.classes.shape == first.confidence.shape == (16, 20)
    assert np.array_equal(first.accepted, first.confidence >= 0.7)
    assert first.alternatives.shape == (16, 20, 1)
    assert np.allclose(first.confidence + first.alternative_confidence[..., 0], 1, atol=1e-5)
    summary = first.to_dict()
    assert sum(numbers["pixels"] for numbers in summary["classes"].values()) == 320


@pytest.mark.parametrize(
    "command", ["watch {images} --run {run}", "adapt {run} --unlabelled {images} -o x"]
)
def test_pixels_of_new_images_are_neither_watched_nor_adapted_to(command, runs, capsys):
    images = inputs("segmentation", runs)[0].parent
    arguments = command.format(images=images, run=runs["segmentation"]).split()
    assert main([*arguments, "--device", "cpu"]) == 2
    error = capsys.readouterr().err
    assert "Images cannot be read here for this kind of run: name a file of predictions" in error
    assert "MaskPredictor" not in error


def test_large_pictures_and_damaged_exif_print_no_lines_of_code(
    runs, tmp_path, monkeypatch, capsys
):
    """Pillow warns of them; what it cannot read is one line."""
    pil = pytest.importorskip("PIL.Image")
    picture = pil.fromarray(np.zeros((30, 30), np.uint8))
    picture.save(tmp_path / "large.png", exif=b"Exif\0\0no tags at all")
    command = ["predict", str(runs["image"]), str(tmp_path / "large.png"), "--device", "cpu"]
    monkeypatch.setattr(pil, "MAX_IMAGE_PIXELS", 800)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert main(command) == 0
    assert not [str(warning.message) for warning in caught if "PIL" in warning.filename]
    monkeypatch.setattr(pil, "MAX_IMAGE_PIXELS", 400)
    capsys.readouterr()
    assert main(command) == 2
    assert "too many pixels" in capsys.readouterr().err


def test_masks_of_equal_size_run_together_in_their_order(runs):
    made = calibrant.load(runs["segmentation"], device="cpu")
    random, runs_of = np.random.default_rng(0), []
    sizes = [(16, 20), (12, 16), (16, 20), (16, 20), (12, 16), (24, 8), (16, 20)]
    images = [random.integers(0, 256, (*size, 3), dtype=np.uint8) for size in sizes]
    alone = [made.predict(image[None])[0] for image in images]
    scorer = made.scorer

    class Counting:
        pixels = 4 * images[0].size  # Four of the largest at a time.

        def __call__(self, *, pixel_values):
            runs_of.append(len(pixel_values))
            return scorer(pixel_values=pixel_values)

    made.scorer = Counting()
    together = made.predict(images)
    assert runs_of == [3, 1, 1, 1, 1]
    for one, other in zip(alone, together, strict=True):
        assert one.classes.shape == other.classes.shape
        np.testing.assert_allclose(one.confidence, other.confidence, atol=1e-5)


def test_texts_to_jsonl_and_csv(runs, tmp_path, capsys):
    run = str(runs["text"])
    (tmp_path / "in.csv").write_text('id,text\n1,"bread, ""soup"""\n2,\n3,"two\nlines"\n')
    for suffix in ("jsonl", "csv"):
        out = tmp_path / f"out.{suffix}"
        options = ["--top-k", "2", "--min-confidence", ".5", "-o", str(out)]
        assert main(["predict", run, str(tmp_path / "in.csv"), *options]) == 0
        assert not (tmp_path / f"out.{suffix}.partial").exists()
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    with (tmp_path / "out.csv").open(newline="") as file:
        cells = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == [cell["id"] for cell in cells] == ["1", "2", "3"]
    for row, cell in zip(rows, cells, strict=True):
        assert (row["text"], row["label"]) == (cell["text"], cell["label"])
        assert float(cell["confidence"]) == row["confidence"]
        assert cell["label_2"] == row["alternatives"][0]["label"]
        assert cell["accepted"] == str(row["accepted"])
    capsys.readouterr()
    assert main(["predict", run, "the bread", "--top-k", "2"]) == 0
    assert "the bread" in capsys.readouterr().out


@pytest.mark.parametrize("task", ["ner", "text"])
def test_half_a_character_is_refused(task, runs):
    """A string of Python can hold one; the tokenizer cannot."""
    made = calibrant.load(runs[task], device="cpu")
    with pytest.raises(InputError, match="half of a character"):
        made.predict(["the bread", "wet \ud83d cloud"])


def test_empty_texts_get_no_accepted_class(runs, capsys):
    """A model says something of nothing too, often with a high confidence."""
    made = calibrant.load(runs["text"], device="cpu")
    texts = ["", " \t", "\u200b\ufeff", "!", "the wet cloud"]
    found = made.predict(texts)
    assert [p.empty for p in found] == [True, True, True, False, False]
    assert [p.accepted for p in found] == [False, False, False, True, True]
    assert found[0].to_dict()["empty"] is True
    assert "empty" not in found[4].to_dict()
    assert main(["predict", str(runs["text"]), " ", "--device", "cpu"]) == 0
    assert "(an empty text)" in capsys.readouterr().out


class Killed(BaseException):
    """As a signal ends a process."""


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_a_killed_command_continues(suffix, runs, tmp_path, monkeypatch, capsys):
    """The same command again: the output is that of one that was never killed."""
    from calibrant.tasks.text.predictor import TextPredictor

    monkeypatch.setattr(TextPredictor, "block", 10)
    monkeypatch.setattr("calibrant.resumable._EVERY", 7)
    (tmp_path / "in.csv").write_text("id,text\n" + "".join(f"{i},bread {i}\n" for i in range(60)))
    whole, out = tmp_path / f"whole.{suffix}", tmp_path / f"out.{suffix}"
    command = ["predict", str(runs["text"]), str(tmp_path / "in.csv"), "--device", "cpu", "-o"]
    assert main([*command, str(whole)]) == 0
    seen, score = [], TextPredictor.scored

    def scored(self, inputs):
        seen.append(len(inputs))
        if len(seen) == 4:
            raise Killed
        return score(self, inputs)

    with monkeypatch.context() as patched:
        patched.setattr(TextPredictor, "scored", scored)
        with pytest.raises(Killed):
            main([*command, str(out)])
    assert not out.exists()
    capsys.readouterr()
    assert main([*command, str(out), "--top-k", "2"]) == 2
    assert "unfinished output of another command" in capsys.readouterr().err
    assert main([*command, str(out)]) == 0
    assert "Continuing after 30 texts." in capsys.readouterr().out
    assert out.read_text() == whole.read_text()


def test_the_commands_of_the_page_run(runs, tmp_path, monkeypatch, capsys):
    """Every command of docs/deploy.md that predicts, on a run of the right task."""
    pillow = pytest.importorskip("PIL.Image")
    page = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    Path("texts.txt").write_text("bread\ngoal\n")
    Path("texts.csv").write_text("id,text\n1,bread\n")
    Path("images").mkdir()
    for path in ("image.png", "images/a.png"):
        pillow.fromarray(np.zeros((8, 8), np.uint8)).save(path)
    commands = re.findall(r"^calibrant (predict RUN .*)$", page, re.MULTILINE)
    assert len(commands) >= 4
    for command in commands:
        run = runs["image" if "image" in command else "text"]
        arguments = [str(run) if word == "RUN" else word for word in command.split()]
        assert main([*arguments, "--overwrite"]) == 0, command
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(example.replace('"RUN"', repr(str(runs["text"]))), {})
    assert "Ranked(" in capsys.readouterr().out


def test_images_from_the_shell(runs, tmp_path, capsys):
    pytest.importorskip("PIL")
    run = str(runs["segmentation"])
    folder = runs.folder / "segmentation-data" / "test" / "images"
    out, masks = tmp_path / "out.jsonl", tmp_path / "masks"
    arguments = ["predict", run, str(folder), "--min-confidence", ".6"]
    assert main([*arguments, "-o", str(out), "--masks", str(masks)]) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["file"] for row in rows] == [str(path) for path in sorted(folder.iterdir())]
    assert len(list(masks.iterdir())) == 8
    for place in ("a/b", "a-b"):  # Two images of one name.
        (tmp_path / "twins" / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(rows[0]["file"], tmp_path / "twins" / f"{place}.png")
    twins = ["predict", run, str(tmp_path / "twins"), "--masks", str(tmp_path / "m")]
    assert main(twins) == 2
    assert "another image has a mask called 'a-b'" in capsys.readouterr().err
    assert main([*arguments, "-o", str(tmp_path / "out.csv")]) == 0
    assert (tmp_path / "out.csv").read_text().startswith("file,height,width,confidence,accepted,")
    capsys.readouterr()
    assert main(arguments) == 0
    assert "accepted" in capsys.readouterr().out
    images = np.zeros((3, 8, 8), np.uint8)
    np.savez(tmp_path / "images.npz", images=images)
    np.save(tmp_path / "images.npy", images)
    for name in ("images.npz", "images.npy"):
        assert main(["predict", str(runs["image"]), str(tmp_path / name), "--json"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [json.loads(line)["number"] for line in lines] == [0, 1, 2]


def test_bad_input_of_the_shell_is_one_line(runs, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.png").write_bytes(b"PNG")
    np.savez(tmp_path / "two.npz", a=np.zeros(3), b=np.zeros(3))
    np.save(tmp_path / "wrong.npy", np.zeros((2, 8, 8)))
    text, image = str(runs["text"]), str(runs["image"])
    cases = [
        ([image], "Name an image"),
        ([image, str(tmp_path / "empty")], "holds no images"),
        ([image, str(tmp_path / "broken.png")], "is not an image that can be read"),
        ([image, str(tmp_path / "two.npz")], "expected an array 'images'"),
        ([image, str(tmp_path / "wrong.npy")], "expected bytes (n, height"),
        ([image, "nowhere"], "There is no file nowhere"),
        ([text, "a", "--tokens"], "--tokens is for models of entities"),
        ([text, "a", "--reduction", "min"], "--reduction is for models of entities"),
        ([text, "a", "--level", "1.5", "--target-risk", ".1"], "must be in (0, 1)"),
        ([text, "a", "--min-confidence", "nan"], "A confidence must be in [0, 1]"),
        ([text, "a", "-o", str(tmp_path / "o.csv"), "--field", "x"], "a .csv file has columns"),
    ]
    for arguments, message in cases:
        assert main(["predict", *arguments]) == 2, arguments
        err = capsys.readouterr().err
        assert message in err
        assert err.count("\n") == 1
    assert not list(tmp_path.glob("o.*"))


def test_the_folder_of_a_run_keeps_its_parts_together(runs, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(runs["text"], other)
    shutil.copy(runs["image"] / "calibrator.json", other)
    with pytest.raises(InputError, match=r"its calibrator and labels\.json differ"):
        calibrant.load(other, device="cpu")


def test_load_opens_what_calibrant_wrote(runs, tmp_path):
    from calibrant.policies import Policy

    assert calibrant.load(runs["text"] / "calibrator.json").name
    Policy("target-risk", 0.05, {"*": 0.8}, classes=2, n=100, kept=0.9).save(tmp_path / "p.json")
    assert calibrant.load(tmp_path / "p.json").target == 0.05
    with pytest.raises(InputError, match="There is nothing at"):
        calibrant.load(tmp_path / "nothing")
    with pytest.raises(InputError, match="is not a calibrator saved by calibrant"):
        calibrant.load(runs["text"] / "metrics.json")
