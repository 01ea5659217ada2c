"""Tiny-ImageNet in its own folders, drawn small: splits, names, and what is wrong with some."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calibrant.errors import InputError
from calibrant.tasks.image.pictures import Pictures, load_pictures, load_test_pictures

pil = pytest.importorskip("PIL.Image")

WORDS = {"n01": "goldfish, Carassius auratus", "n02": "bullfrog", "n03": "sock"}


def draw(path: Path, number: int, mode: str = "RGB") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pil.new("RGB", (64, 64), (number, 0, 255 - number)).convert(mode).save(path, quality=95)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three classes of 20 training images, and 6 labelled images of ``val``."""
    root = tmp_path / "data" / "image" / "tiny-imagenet-200"
    for row, wnid in enumerate(WORDS):
        for number in range(20):
            grey = "L" if number == 7 else "RGB"  # As about one in fifty of the original.
            path = root / "train" / wnid / "images" / f"{wnid}_{number}.JPEG"
            draw(path, 66 * row + 3 * number, grey)
        (root / "train" / wnid / f"{wnid}_boxes.txt").write_text("0\t0\t63\t63\n")
    lines = []
    for number in range(6):
        draw(root / "val" / "images" / f"val_{number}.JPEG", 200 + number)
        lines.append(f"val_{number}.JPEG\t{list(WORDS)[number % 3]}\t0\t0\t63\t63\n")
    (root / "val" / "val_annotations.txt").write_text("".join(lines))
    draw(root / "test" / "images" / "test_0.JPEG", 0)
    (root / "wnids.txt").write_text("n02\nn03\nn01\n")
    words = {**WORDS, "n99": "something else"}
    (root / "words.txt").write_text("".join(f"{key}\t{name}\n" for key, name in words.items()))
    return root


def shapes(found: Pictures) -> dict[str, tuple[int, ...]]:
    return {split: images.shape for split, images in found.images.items()}


def test_is_found_by_name_and_by_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALIBRANT_DATA", str(folder.parents[1]))
    found = load_pictures("tiny-imagenet")
    assert found.labels == ("bullfrog", "goldfish", "sock")
    assert shapes(found) == {
        "train": (54, 64, 64, 3), "dev": (6, 64, 64, 3), "test": (6, 64, 64, 3),
    }  # fmt: skip
    by_folder = load_pictures(str(folder))
    np.testing.assert_array_equal(by_folder.images["dev"], found.images["dev"])
    np.testing.assert_array_equal(load_test_pictures("tiny-imagenet")[0], found.images["test"])


def test_a_tenth_of_each_class_is_validation_and_the_official_one_is_the_test(folder: Path) -> None:
    found = load_pictures(str(folder))
    np.testing.assert_array_equal(np.bincount(found.classes["dev"]), [2, 2, 2])
    np.testing.assert_array_equal(np.bincount(found.classes["train"]), [18, 18, 18])
    reds = found.images["test"][:, 0, 0, 0].astype(int)  # In the order of the annotations.
    np.testing.assert_allclose(reds, 200 + np.arange(6), atol=2)
    named = [found.labels[number] for number in found.classes["test"]]
    assert named == ["goldfish", "bullfrog", "sock"] * 2
    parts = [set(map(bytes, found.images[split])) for split in ("train", "dev")]
    assert not parts[0] & parts[1]


def test_the_seed_draws_the_validation_images(folder: Path) -> None:
    drawn = [load_pictures(str(folder), seed=seed).images["dev"] for seed in (0, 0, 1)]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert (drawn[0] != drawn[2]).any()


def test_sizes(folder: Path) -> None:
    assert set(shapes(load_pictures(str(folder), size=32)).values()) == {
        (54, 32, 32, 3), (6, 32, 32, 3),
    }  # fmt: skip


def test_one_file_of_all_images_has_the_same_splits(folder: Path, tmp_path: Path) -> None:
    found = load_pictures(str(folder))
    (tmp_path / "packed").mkdir()
    found.write(tmp_path / "packed" / "tiny-imagenet.npz")
    again = load_pictures("tiny-imagenet", tmp_path / "packed")
    assert (again.labels, again.notes) == (found.labels, ())
    for split in ("train", "dev", "test"):
        np.testing.assert_array_equal(again.images[split], found.images[split])
        np.testing.assert_array_equal(again.classes[split], found.classes[split])
    with pytest.raises(InputError, match="exists"):
        found.write(tmp_path / "packed" / "tiny-imagenet.npz")


def test_names_that_mean_two_classes_or_none(folder: Path) -> None:
    (folder / "words.txt").write_text("n01\tcrane, a bird\nn02\tcrane, a machine\nn03\tsock\n")
    assert load_pictures(str(folder)).labels == ("n01", "n02", "n03")
    (folder / "words.txt").unlink()
    assert load_pictures(str(folder)).labels == ("n01", "n02", "n03")


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("wnids.txt", "n01\nn02\nn03\nn04\n", "n04.images holds no images, but wnids.txt lists"),
        ("wnids.txt", "n01\nn01\n", "wnids.txt has 'n01' twice"),
        ("val/val_annotations.txt", "val_0.JPEG\n", r"line 1: expected a file and one of the 3"),
        ("val/val_annotations.txt", "val_0.JPEG\tn9\n", "separated by a tab, got 'n9'"),
        ("val/val_annotations.txt", "val_9.JPEG\tn01\n", r"val_9\.JPEG is not an image that can"),
        ("val/val_annotations.txt", "", "the test split is empty"),
    ],
)
def test_damaged_folders(folder: Path, file: str, text: str, message: str) -> None:
    (folder / file).write_text(text)
    with pytest.raises(InputError, match=message):
        load_pictures(str(folder))


def test_where_it_is_absent(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no 'tiny-imagenet': unpack tiny-imagenet-200\.zip"):
        load_pictures("tiny-imagenet", tmp_path)


def test_a_recipe_trains_on_it(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    from calibrant.experiments.recipe import Recipe
    from calibrant.tasks import task_of

    settings = {"task": "image", "data": "tiny-imagenet", "image_size": 32, "augment": "crop+flip"}
    task, recipe = task_of("image"), Recipe.from_dict({**settings, "model": "tiny"})
    data = task.prepare(recipe, str(folder.parents[1]))
    batch = data.windows("cpu")[0].batch(torch.arange(8), 1)
    model = task.build_model(recipe, data).eval()
    assert model(batch["pixel_values"]).shape == (8, 3)
    test = data.predict(model, data.parts["test"])
    assert (len(test), test.label_names) == (6, ("bullfrog", "goldfish", "sock"))
