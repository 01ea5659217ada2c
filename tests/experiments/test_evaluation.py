"""A finished run on labelled data: the record's own numbers, and what other data gives."""

import json
import shutil

import numpy as np
import pytest

from calibrant import load_calibrator, load_run
from calibrant.calibrators.correction import corrected
from calibrant.errors import InputError
from calibrant.experiments.evaluation import LeftOutWarning, evaluate
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.run import train
from calibrant.tasks.corrupted_files import corrupt_file
from calibrant.tasks.image.pictures import load_test_pictures
from calibrant.tasks.text.corpus import load_test_texts, load_texts

pytest.importorskip("transformers")


def trained(folder, **settings):
    made = Recipe.from_dict({"epochs": 1, "dtype": "float32", "head_width": 16, **settings})
    return train(made, folder, device="cpu", bootstrap=0, say=str)


@pytest.fixture(scope="module")
def tagger(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "ner"
    shift = ["typos-4", "dropped-words-3"]
    record = trained(
        folder, data=str(corpus), model="tiny", batch=8, learning_rate=5e-3, shift=shift
    )
    return folder, record


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "text"
    record = trained(folder, task="text", data="synthetic", model="tiny", shift=["ocr-5"])
    return folder, record


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    pytest.importorskip("sklearn")
    folder = tmp_path_factory.mktemp("runs") / "image"
    record = trained(folder, task="image", data="digits", model="tiny", shift=["shot-noise-3"])
    return folder, record


@pytest.mark.parametrize("run", ["tagger", "texts", "images"])
def test_the_own_test_split_gives_the_numbers_of_the_record(run, request):
    folder, record = request.getfixturevalue(run)
    seen = []
    results = evaluate(folder, corrupt=record.recipe.shift, device="cpu", progress=seen.append)
    assert len(seen) == 1 + len(record.recipe.shift)
    for kind in ("identity", "temperature"):
        for part in ("valid", "test"):
            expected = record.results[kind][part]
            assert results[kind][part] == pytest.approx(expected, abs=1e-5, nan_ok=True)
        for name in record.recipe.shift:
            expected = record.results[kind]["shift"][name]
            assert results[kind]["shift"][name] == pytest.approx(expected, abs=1e-5, nan_ok=True)


def test_a_corrupted_file_gives_what_corrupting_gives(tagger, corpus, tmp_path):
    folder, _ = tagger
    corrupt_file(corpus / "test.conll", tmp_path / "new.conll", "ocr", 5, seed=3)
    from_file = evaluate(folder, str(tmp_path / "new.conll"), device="cpu")
    in_place = evaluate(folder, corrupt=["ocr-5"], seed=3, device="cpu")
    expected = in_place["identity"]["shift"]["ocr-5"]
    assert from_file["identity"]["test"] == pytest.approx(expected, abs=1e-5, nan_ok=True)
    assert "shift" not in from_file["identity"]


def test_a_kind_is_every_strength(tagger):
    results = evaluate(tagger[0], corrupt=["typos", "typos-2", "casing-1"], device="cpu")
    names = [f"typos-{strength}" for strength in (1, 2, 3, 4, 5)]
    assert list(results["temperature"]["shift"]) == [*names, "casing-1"]


def test_other_types_are_judged_where_they_are_shared(tagger, tmp_path):
    """Also where words, and with them what is judged, are dropped."""
    line = "Anna\tB-person\nlikes\tO\nNutella\tB-product\nfrom\tO\nAcme\tB-group\n\n"
    (tmp_path / "posts.conll").write_text(line * 30)
    posts = str(tmp_path / "posts.conll")
    with pytest.warns(LeftOutWarning, match="^30 words are left out .* knows no type product"):
        found = evaluate(tagger[0], posts, corrupt=["dropped-words-5"], device="cpu")
    assert 0 <= found["identity"]["test"]["accuracy"] <= 1
    assert 0 <= found["identity"]["shift"]["dropped-words-5"]["accuracy"] <= 1


def test_labelled_texts_of_one_file(texts, tmp_path):
    folder, _ = texts
    corpus = load_texts("synthetic")
    rows = zip(corpus.texts["test"], corpus.classes["test"], strict=True)
    lines = [json.dumps({"text": t, "label": corpus.labels[y]}) for t, y in rows]
    (tmp_path / "mine.jsonl").write_text("\n".join(lines))
    own, other = (evaluate(folder, d, device="cpu") for d in (None, str(tmp_path / "mine.jsonl")))
    assert own["temperature"]["test"] == pytest.approx(other["temperature"]["test"])
    (tmp_path / "mine.jsonl").write_text('{"text": "a", "label": "spam"}')
    with pytest.raises(InputError, match="example 1: the run knows no label 'spam'; it has"):
        evaluate(folder, str(tmp_path / "mine.jsonl"), device="cpu")
    (tmp_path / "mine.jsonl").write_text("")
    with pytest.raises(InputError, match="holds no labelled example"):
        evaluate(folder, str(tmp_path / "mine.jsonl"), device="cpu")


def test_images_of_an_npz_without_training(images, tmp_path):
    folder, record = images
    pixels, labels = load_test_pictures("digits")
    np.savez(tmp_path / "mine.npz", test_images=pixels, test_labels=np.array(labels, int))
    results = evaluate(folder, str(tmp_path / "mine.npz"), corrupt=["jpeg-2"], device="cpu")
    assert results["identity"]["test"] == pytest.approx(
        record.results["identity"]["test"], abs=1e-5
    )
    np.savez(tmp_path / "mine.npz", test_images=pixels[:, :4], test_labels=np.array(labels, int))
    with pytest.raises(InputError, match=r"expected images \(8, 8, 1\).*got \(4, 8, 1\)"):
        evaluate(folder, str(tmp_path / "mine.npz"), device="cpu")


@pytest.mark.filterwarnings("ignore::calibrant.calibrators.CalibrationWarning")
def test_a_run_on_one_file_is_not_tested_on_what_it_was_trained_on(tmp_path):
    corpus = load_texts("synthetic")
    rows = list(zip(corpus.texts["train"], corpus.classes["train"], strict=True))[:60]
    lines = [json.dumps({"text": t, "label": corpus.labels[y]}) for t, y in rows]
    (tmp_path / "mine.jsonl").write_text("\n".join(lines))
    settings = {"task": "text", "data": str(tmp_path / "mine.jsonl"), "model": "tiny"}
    record = trained(tmp_path / "run", **settings)
    for data in (None, str(tmp_path / "run" / ".." / "mine.jsonl")):
        found = evaluate(tmp_path / "run", data, device="cpu")["identity"]["test"]
        expected = record.results["identity"]["test"]
        assert found == pytest.approx(expected, abs=1e-5, nan_ok=True)
    (tmp_path / "copy.jsonl").write_text("\n".join(lines))
    other = evaluate(tmp_path / "run", str(tmp_path / "copy.jsonl"), device="cpu")
    assert other["identity"]["test"]["nll"] != pytest.approx(expected["nll"], abs=1e-5)


@pytest.mark.filterwarnings("ignore::calibrant.calibrators.CalibrationWarning")
def test_images_of_any_size_are_evaluated_in_the_size_of_the_run(skies, tmp_path):
    settings = {"task": "image", "data": str(skies), "model": "tiny", "image_size": 8}
    record = trained(tmp_path / "run", **settings, batch=8, shift=["contrast-5"])
    own = evaluate(tmp_path / "run", corrupt=["contrast-5"], device="cpu")["identity"]
    for found, expected in (
        (own["test"], record.results["identity"]["test"]),
        (own["shift"], record.results["identity"]["shift"]),
    ):
        flat, same = (part.get("contrast-5", part) for part in (found, expected))
        assert flat == pytest.approx(same, abs=1e-5, nan_ok=True)
    (tmp_path / "sky").rename(tmp_path / "other")  # All of it is new to the run, by its name.
    other = evaluate(tmp_path / "run", str(tmp_path / "other"), device="cpu")["identity"]["test"]
    assert other["nll"] != pytest.approx(own["test"]["nll"], abs=1e-5)


def test_a_device_that_is_none(images):
    with pytest.raises(InputError, match="Device 'tpu9' cannot be used"):
        evaluate(images[0], device="tpu9")


def test_test_texts_of_folders(tmp_path):
    (tmp_path / "test.csv").write_text("text,label\na,x\n")
    assert load_test_texts(str(tmp_path)) == [("a", "x")]
    (tmp_path / "test.csv").rename(tmp_path / "train.csv")
    rows = "".join(f"t{i},{i % 2}\n" for i in range(9))
    (tmp_path / "train.csv").write_text("text,label\n" + rows)
    corpus = load_texts(str(tmp_path))
    assert [text for text, _ in load_test_texts(str(tmp_path))] == list(corpus.texts["test"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"corrupt": ["jpeg"]}, "Unknown corruption 'jpeg'"),
        ({"corrupt": ["typo"]}, "Did you mean 'typos'"),
        ({"corrupt": ["typo-2"]}, "Unknown corruption 'typo'. Did you mean 'typos'"),
        ({"corrupt": ["jpeg-2"]}, "Known: casing, dropped-characters"),
        ({"corrupt": ["typos-9"]}, "1, 2, 3, 4 or 5, got 'typos-9'"),
        ({"data": "conll2004"}, "Did you mean 'conll2003'"),
    ],
)
def test_what_is_refused(tagger, options, message):
    with pytest.raises(InputError, match=message):
        evaluate(tagger[0], device="cpu", **options)


def test_a_folder_that_is_no_run(tmp_path):
    with pytest.raises(InputError, match="not the folder of a finished 'calibrant train'"):
        evaluate(tmp_path)


@pytest.mark.filterwarnings("ignore::calibrant.calibrators.CalibrationWarning")
def test_data_that_a_run_knows_by_name_is_its_own_by_path_too(tmp_path, monkeypatch):
    """Else a folder without splits would be tested on as a whole, training images and all."""
    pil = pytest.importorskip("PIL.Image")
    random = np.random.default_rng(0)
    for label in ("day", "night"):
        (tmp_path / "data" / "image" / "sky" / label).mkdir(parents=True)
        for number in range(15):
            pixels = random.integers(0, 100, (8, 8, 3), np.uint8) + 50 * (label == "day")
            place = tmp_path / "data" / "image" / "sky" / label / f"{number}.png"
            pil.fromarray(pixels.astype(np.uint8)).save(place)
    settings = {"task": "image", "data": "sky", "model": "tiny", "batch": 8}
    monkeypatch.setenv("CALIBRANT_DATA", str(tmp_path / "data"))
    record = trained(tmp_path / "run", **settings)
    monkeypatch.delenv("CALIBRANT_DATA")
    path = str(tmp_path / "data" / "image" / "sky")
    found = evaluate(tmp_path / "run", path, device="cpu")["identity"]["test"]
    expected = record.results["identity"]["test"]
    assert found == pytest.approx(expected, abs=1e-5, nan_ok=True)


def test_an_adapted_run_is_evaluated_as_it_predicts(texts, tmp_path):
    """Its calibrator was corrected for new data: what validation alone gives is another one."""
    folder = shutil.copytree(texts[0], tmp_path / "adapted")
    calibrator = load_calibrator(folder / "calibrator.json")
    bias = np.where(np.arange(calibrator.n_classes_) == 0, -2.0, 0.0)
    corrected(calibrator, bias=bias).save(folder / "calibrator.json", overwrite=True)
    examples = load_test_texts("synthetic")
    results = evaluate(folder, device="cpu")
    before = evaluate(texts[0], device="cpu")
    name, *_ = (name for name in results if name not in before)
    assert list(results)[-1] == name == f"adapted {list(before)[-1]}"
    assert results["temperature"] == before["temperature"]
    found = results[name]["test"]
    predicted = load_run(folder, "cpu").predict([text for text, _ in examples])
    mean = np.mean([each.confidence for each in predicted])
    right = np.mean(
        [each.label == label for each, (_, label) in zip(predicted, examples, strict=True)]
    )
    assert found["mean_confidence"] == pytest.approx(mean, abs=1e-5)
    assert found["accuracy"] == pytest.approx(right)
    assert abs(found["mean_confidence"] - before["temperature"]["test"]["mean_confidence"]) > 1e-3
