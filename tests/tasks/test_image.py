"""Images with labels from every kind of source, and what is wrong with some."""

from __future__ import annotations

import shutil
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from calibrant.errors import InputError, MissingExtraError
from calibrant.tasks import open_task
from calibrant.tasks.image.picture_files import open_image, upright_size
from calibrant.tasks.image.pictures import load_pictures, load_test_pictures
from calibrant.tasks.reading.class_labels import label_names

IMAGES = np.random.default_rng(0).integers(0, 256, (20, 6, 5, 3), np.uint8)
LABELS = np.arange(20) % 3
NAMES = np.array(["ant", "bee", "fly"])


def splits(**extra: np.ndarray) -> dict[str, np.ndarray]:
    parts = {f"{s}_images": IMAGES for s in ("train", "val", "test")}
    return {**parts, **{f"{s}_labels": LABELS for s in ("train", "val", "test")}, **extra}


def test_npz(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **splits())
    found = load_pictures(str(tmp_path / "a.npz"))
    assert found.labels == ("0", "1", "2")
    np.testing.assert_array_equal(found.images["dev"], IMAGES)
    np.testing.assert_array_equal(found.classes["test"], LABELS)
    np.savez(tmp_path / "b.npz", **splits(label_names=NAMES))
    assert load_pictures(str(tmp_path / "b.npz")).labels == ("ant", "bee", "fly")
    np.savez(tmp_path / "c.npz", train_images=IMAGES[..., 0], train_labels=LABELS)
    grey = load_pictures(str(tmp_path / "c.npz"))
    assert grey.images["train"].shape == (16, 6, 5, 1)
    assert len(grey.notes) == 2


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": IMAGES}, "has no 'train_images'; it has x"),
        ({"train_images": IMAGES}, r"train_images: expected bytes .* and 0 labels"),
        ({"train_images": IMAGES / 255, "train_labels": LABELS}, "got float64"),
        ({"train_images": IMAGES[0, 0], "train_labels": LABELS}, "expected bytes"),
        (splits(test_labels=LABELS + 1), "test split, example 3: label '3' does not occur"),
        (splits(dev_images=IMAGES, dev_labels=LABELS), "two arrays for one split: .* and "),
        (splits(train_images=IMAGES[:0], train_labels=LABELS[:0]), "no training images"),
    ],
)
def test_bad_npz(arrays: dict[str, np.ndarray], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(InputError, match=message):
        load_pictures(str(tmp_path / "a.npz"))


def test_damaged_npz(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with pytest.raises(InputError, match="There is no file"):
        load_pictures(str(path))
    np.savez(path, **splits())
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(InputError, match="not a complete npz file"):
        load_pictures(str(path))
    path.write_bytes(b"")
    with pytest.raises(InputError, match="not a complete npz file"):
        load_pictures(str(path))


def write_folder(folder: Path, kind: str = "png") -> None:
    pil = pytest.importorskip("PIL.Image")
    for i, (image, label) in enumerate(zip(IMAGES, LABELS, strict=True)):
        place = folder / NAMES[label]
        place.mkdir(parents=True, exist_ok=True)
        pil.fromarray(image).save(place / f"{i:02}.{kind}")


def test_class_folders(tmp_path: Path) -> None:
    write_folder(tmp_path / "a")
    (tmp_path / "a" / "ant" / "._00.png").write_bytes(b"what some systems leave beside an image")
    found = load_pictures(str(tmp_path / "a"))
    assert found.labels == ("ant", "bee", "fly")
    together = np.concatenate([found.images[split] for split in ("train", "dev", "test")])
    assert sorted(map(bytes, together)) == sorted(map(bytes, IMAGES))
    for split in ("train", "test", "valid"):
        write_folder(tmp_path / "b" / split)
    found = load_pictures(str(tmp_path / "b"))
    assert found.notes == ()
    order = np.argsort(LABELS, kind="stable")
    np.testing.assert_array_equal(found.images["dev"], IMAGES[order])
    np.testing.assert_array_equal(found.classes["dev"], LABELS[order])


def test_sizes_and_modes(tmp_path: Path) -> None:
    pil = pytest.importorskip("PIL.Image")
    write_folder(tmp_path)
    pil.new("RGBA", (9, 9)).save(tmp_path / "ant" / "odd.png")
    with pytest.raises(InputError, match=r"images of several shapes.*set an image size"):
        load_pictures(str(tmp_path))
    assert load_pictures(str(tmp_path), size=4).images["train"].shape[1:] == (4, 4, 3)
    (tmp_path / "bee" / "broken.png").write_bytes(b"no image")
    with pytest.raises(InputError, match=r"broken\.png is not an image that can be read"):
        load_pictures(str(tmp_path), size=4)


def test_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"expected a folder for each class with \.png"):
        load_pictures(str(tmp_path))


def test_digits() -> None:
    pytest.importorskip("sklearn")
    found = load_pictures("digits")
    assert sum(len(part) for part in found.images.values()) == 1797
    assert found.labels == tuple("0123456789")
    assert found.images["train"].shape[1:] == (8, 8, 1)
    assert found.images["train"].max() == 255
    assert len(found.notes) == 2


def test_torchvision_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The real library is not needed to see that what it returns is understood."""
    asked: list[dict[str, object]] = []

    class Stand:
        data, targets, classes = IMAGES, LABELS.tolist(), NAMES.tolist()

        def __init__(self, **options: object) -> None:
            asked.append(options)

    monkeypatch.delenv("CALIBRANT_DATA", raising=False)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "torchvision", types.ModuleType("torchvision"))
    library = types.SimpleNamespace(CIFAR10=Stand)
    monkeypatch.setitem(sys.modules, "torchvision.datasets", library)
    found = load_pictures("cifar10")
    assert found.labels == ("ant", "bee", "fly")
    np.testing.assert_array_equal(found.images["test"], IMAGES)
    assert [options["train"] for options in asked] == [True, False]
    assert asked[0]["root"] == str(tmp_path / "datasets")


def test_names_that_lead_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"Unknown image set 'cifar'\. Did you mean 'cifar10'"):
        load_pictures("cifar")
    monkeypatch.setitem(sys.modules, "torchvision", None)
    monkeypatch.setitem(sys.modules, "torchvision.datasets", None)
    with pytest.raises(MissingExtraError, match="'mnist' needs torchvision"):
        load_pictures("mnist")


def test_saved_by_the_datasets_library(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    pil = pytest.importorskip("PIL.Image")
    features = datasets.Features(
        {"img": datasets.Image(), "label": datasets.ClassLabel(names=NAMES.tolist())}
    )
    rows = {"img": [pil.fromarray(i) for i in IMAGES], "label": LABELS.tolist()}
    part = datasets.Dataset.from_dict(rows, features=features)
    datasets.disable_progress_bars()
    datasets.DatasetDict({"train": part, "test": part}).save_to_disk(tmp_path / "saved")
    found = load_pictures(str(tmp_path / "saved"))
    np.testing.assert_array_equal(found.images["test"], IMAGES)
    np.testing.assert_array_equal(found.classes["test"], LABELS)


def test_training_images_have_mean_zero_and_deviation_one(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    np.savez(tmp_path / "a.npz", **splits())
    task = open_task("image", str(tmp_path / "a.npz"))
    batch = task.collate(task.load("train"))["pixel_values"].numpy()
    assert batch.shape == (20, 3, 6, 5)
    np.testing.assert_allclose(batch.mean((0, 2, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(batch.std((0, 2, 3)), 1, atol=1e-5)
    np.savez(tmp_path / "black.npz", **splits(train_images=np.full_like(IMAGES, 7)))
    same = open_task("image", str(tmp_path / "black.npz"))
    assert np.isfinite(same.collate(same.load("train"))["pixel_values"].numpy()).all()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (splits(train_labels=LABELS - 1, label_names=NAMES), "label -1 of image 1; classes are"),
        (splits(train_labels=LABELS - 100), "label -100 of image 1; classes are numbered from 0"),
        (splits(test_labels=LABELS + 1, label_names=NAMES), "label 3 of image 3; .* from 0 to 2"),
        (splits(train_labels=LABELS.astype(float)), "whole numbers or texts, got float64"),
        (splits(train_labels=NAMES[LABELS], label_names=NAMES[:2]), "'fly' of image 3 is not in"),
        (splits(label_names=np.array(["a", "a", "b"])), "'label_names' has 'a' twice"),
        (splits(train_labels=0 * LABELS), "has one class, '0'"),
        (splits(test_images=IMAGES[:0], test_labels=LABELS[:0]), "the test split is empty"),
        (splits(test_images=IMAGES[:, :4]), r"\(6, 5, 3\) and \(test split, example 1\) \(4, 5, 3"),
        (splits(test_images=np.zeros((20, 6, 5, 2), np.uint8)), r"example 1\) \(6, 5, 2\)"),
        (splits(train_images=IMAGES[:, :0]), "expected bytes"),
        (splits(train_labels=np.stack([LABELS, LABELS], 1)), r"and labels \(20, 2\)"),
    ],
)
def test_labels_and_shapes_of_an_npz_are_checked(
    arrays: dict[str, np.ndarray], message: str, tmp_path: Path
) -> None:
    """Where they were not, −1 was the last class and grey test images were coloured by accident."""
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(InputError, match=message):
        load_pictures(str(tmp_path / "a.npz"))


def test_what_an_npz_may_hold_besides(tmp_path: Path) -> None:
    """Texts as labels, a column of labels, out-of-domain images of no class, grey test images."""
    outside = {"ood_images": IMAGES[:3], "ood_labels": np.array([-100, 1, 7])}
    np.savez(
        tmp_path / "a.npz",
        **splits(
            train_labels=NAMES[LABELS],
            test_labels=LABELS[:, None],
            test_images=IMAGES[..., 0],
            label_names=NAMES,
            **outside,
        ),
    )
    found = load_pictures(str(tmp_path / "a.npz"))
    assert found.labels == ("ant", "bee", "fly")
    for split in ("train", "test"):
        np.testing.assert_array_equal(found.classes[split], LABELS)
    assert found.classes["ood"].tolist() == [-100, 1, -100]
    np.testing.assert_array_equal(found.images["test"], np.repeat(IMAGES[..., :1], 3, -1))


def test_no_images_out_of_domain_are_none(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **splits(ood_images=IMAGES[:0], ood_labels=LABELS[:0]))
    assert set(load_pictures(str(tmp_path / "a.npz")).images) == {"train", "dev", "test"}


def test_arrays_are_brought_to_a_size(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    np.savez(tmp_path / "a.npz", **splits())
    found = load_pictures(str(tmp_path / "a.npz"), size=8)
    assert {part.shape[1:] for part in found.images.values()} == {(8, 8, 3)}
    five = np.zeros((20, 4, 4, 5), np.uint8)
    np.savez(tmp_path / "b.npz", train_images=five, train_labels=LABELS)
    with pytest.raises(InputError, match="5 channels cannot be resized"):
        load_pictures(str(tmp_path / "b.npz"), size=8)


def test_grey_among_coloured_and_sixteen_bits(tmp_path: Path) -> None:
    pil = pytest.importorskip("PIL.Image")
    write_folder(tmp_path)
    grey = IMAGES[0, ..., 0]
    pil.fromarray(grey).save(tmp_path / "ant" / "grey.png")
    found = load_pictures(str(tmp_path))
    assert found.images["train"].shape[1:] == (6, 5, 3)
    every = np.concatenate(list(found.images.values()))
    assert (every == np.repeat(grey[..., None], 3, -1)).all((1, 2, 3)).any()

    pil.fromarray(grey.astype(np.uint16) * 257).save(tmp_path / "deep.png")
    np.testing.assert_array_equal(open_image(tmp_path / "deep.png")[..., 0], grey)
    pil.fromarray(grey).convert("LA").save(tmp_path / "clear.png")
    np.testing.assert_array_equal(open_image(tmp_path / "clear.png")[..., 0], grey)
    pil.fromarray(grey > 100).save(tmp_path / "bits.png")
    np.testing.assert_array_equal(open_image(tmp_path / "bits.png")[..., 0], 255 * (grey > 100))
    palette = pil.fromarray(IMAGES[0]).convert("P")
    palette.save(tmp_path / "palette.png", transparency=bytes(range(100)))
    expected = np.asarray(palette.convert("RGB"))
    np.testing.assert_array_equal(open_image(tmp_path / "palette.png"), expected)
    pil.fromarray(grey.astype(np.float32)).save(tmp_path / "float.tif")
    with pytest.raises(InputError, match=r"float\.tif: expected 8 bits a channel, or 16 of grey"):
        open_image(tmp_path / "float.tif")


@pytest.mark.parametrize("kind", ["jpeg", "png", "tiff", "webp"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_photographs_are_turned_upright(orientation: int, kind: str, tmp_path: Path) -> None:
    """As viewers and pipelines of transformers show them: cameras store them as they were held."""
    pil = pytest.importorskip("PIL.Image")
    from PIL import ImageOps

    if kind == "webp" and not __import__("PIL.features", fromlist=["check"]).check("webp"):
        pytest.skip("This Pillow writes no WebP.")
    exif = pil.Exif()
    exif[0x0112] = orientation
    path = tmp_path / f"photo.{kind}"
    pil.fromarray(IMAGES[0]).save(path, exif=exif)
    with pil.open(path) as picture:
        expected = np.asarray(ImageOps.exif_transpose(picture).convert("RGB"))
        assert upright_size(picture) == expected.shape[1::-1]
    np.testing.assert_array_equal(open_image(path), expected)
    assert expected.shape[:2] == ((6, 5) if orientation < 5 else (5, 6))


def test_damaged_exif_data_turn_nothing(tmp_path: Path) -> None:
    pil = pytest.importorskip("PIL.Image")
    path = tmp_path / "photo.png"
    pil.fromarray(IMAGES[0]).save(path, exif=b"Exif\0\0no tags at all")
    np.testing.assert_array_equal(open_image(path), IMAGES[0])


def test_what_is_tested_on(tmp_path: Path) -> None:
    """A folder without splits: a tenth of it for its own run, else all of it."""
    write_folder(tmp_path / "a")
    images, labels = load_test_pictures(str(tmp_path / "a"))
    assert (len(images), len(labels)) == (2, 2)
    images, labels = load_test_pictures(str(tmp_path / "a"), whole=True)
    assert sorted(labels) == sorted(NAMES[LABELS])
    assert load_test_pictures(str(tmp_path / "a"), size=4, whole=True)[0].shape == (20, 4, 4, 3)
    for split in ("train", "test"):
        write_folder(tmp_path / "b" / split)
    assert len(load_test_pictures(str(tmp_path / "b"), whole=True)[0]) == 20


def test_folders_of_classes_with_a_fault(tmp_path: Path) -> None:
    write_folder(tmp_path / "a")
    (tmp_path / "a" / "yak").mkdir()
    with pytest.raises(
        InputError, match=r"yak holds no file \(\.png, .*fill the folder, or remove"
    ):
        load_pictures(str(tmp_path / "a"))
    for split in ("train", "val", "valid"):
        write_folder(tmp_path / "b" / split)
    with pytest.raises(InputError, match="two folders for one split: val and valid"):
        load_pictures(str(tmp_path / "b"))
    write_folder(tmp_path / "c" / "train")
    (tmp_path / "c" / "test" / "yak").mkdir(parents=True)  # It is not queried.
    write_folder(tmp_path / "c" / "test")
    assert "yak" not in load_pictures(str(tmp_path / "c")).labels


def test_images_deeper_in_a_class_and_of_old_formats_are_read(tmp_path: Path) -> None:
    pil = pytest.importorskip("PIL.Image")
    write_folder(tmp_path)
    before = sum(map(len, load_pictures(str(tmp_path)).images.values()))
    for name in ("more/1.png", "more/still/2.ppm", "3.PGM", ".hidden/4.png"):
        place = tmp_path / NAMES[0] / name
        place.parent.mkdir(parents=True, exist_ok=True)
        pil.fromarray(IMAGES[0]).convert("L" if "PGM" in name else "RGB").save(place)
    assert sum(map(len, load_pictures(str(tmp_path)).images.values())) == before + 3


def test_other_data_is_never_parted_to_test_on(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", train_images=IMAGES, train_labels=LABELS)
    assert len(load_test_pictures(str(tmp_path / "a.npz"))[0]) == 2
    with pytest.raises(InputError, match=r"a\.npz has no test split; found: train\."):
        load_test_pictures(str(tmp_path / "a.npz"), whole=True)


def test_labels_that_are_one_number_have_one_order() -> None:
    assert label_names(["1", "01", "0"]) == label_names(["01", "0", "1"]) == ("0", "01", "1")


def test_another_size_fails_before_all_are_read(tmp_path: Path) -> None:
    pil = pytest.importorskip("PIL.Image")
    write_folder(tmp_path)
    pil.fromarray(IMAGES[0, :4]).save(tmp_path / NAMES[0] / "01.png")
    (tmp_path / NAMES[2] / "99.png").write_bytes(b"never looked at")
    with pytest.raises(InputError, match=r"shapes, \(6, 5\) and \(.*01\.png\) \(4, 5\); set an"):
        load_pictures(str(tmp_path))


def test_a_class_whose_only_example_was_taken_is_noted(tmp_path: Path) -> None:
    images = np.zeros((40, 6, 5, 3), np.uint8)
    noted = 0
    for number in range(40):
        labels = np.array(["a", "b"] * 20, "U9")
        labels[number] = "rare"
        np.savez(tmp_path / "some.npz", train_images=images, train_labels=labels)
        found = load_pictures(str(tmp_path / "some.npz"))
        lost = 2 not in found.classes["train"]
        about = [note for note in found.notes if "no training example of 'rare'" in note]
        assert len(about) == lost
        noted += lost
    assert noted == 8  # Four test and four validation images.


def test_masks_are_no_class(tmp_path: Path) -> None:
    write_folder(tmp_path)
    (tmp_path / NAMES[0]).rename(tmp_path / "images")
    (tmp_path / NAMES[1]).rename(tmp_path / "masks")
    load_pictures(str(tmp_path))  # With a third folder they may be called so.
    shutil.rmtree(tmp_path / NAMES[2])
    with pytest.raises(InputError, match="images and masks: they are for task 'segmentation'"):
        load_pictures(str(tmp_path))
