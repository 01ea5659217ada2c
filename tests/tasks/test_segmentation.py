"""Scenes of shapes and folders of masks: what is read, what is refused, how it is batched."""

from __future__ import annotations

import json
import re
import struct
import sys
import types
import zlib
from pathlib import Path

import numpy as np
import pytest

from calibrant import Predictions
from calibrant.errors import InputError, MissingExtraError
from calibrant.tasks import task_of
from calibrant.tasks.segmentation.data import SegmentationData
from calibrant.tasks.segmentation.mask_folder import MaskedPictures
from calibrant.tasks.segmentation.scenes import Scenes, load_scenes
from calibrant.tasks.segmentation.shapes import CLASSES, Style, generate_scenes, generate_shapes

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, (12, 10, 9, 3), np.uint8)
MASKS = RANDOM.integers(0, 3, (12, 10, 9)).astype(np.uint8)
MASKS[:, 0] = 255


# The shapes.


def test_the_same_seed_gives_the_same_scenes() -> None:
    sizes = {"side": 16, "train": 3, "dev": 2, "test": 2, "ood": 2}
    one, two, other = (generate_shapes(seed, **sizes) for seed in (3, 3, 4))
    for split, scenes in one.items():
        for (image, mask), (again, its) in zip(scenes, two[split], strict=True):
            np.testing.assert_array_equal(image, again)
            np.testing.assert_array_equal(mask, its)
    assert (one["train"][0][0] != other["train"][0][0]).any()
    # A split draws from its own stream.
    longer = generate_shapes(3, **{**sizes, "train": 5})
    np.testing.assert_array_equal(longer["test"][1][0], one["test"][1][0])
    np.testing.assert_array_equal(longer["train"][2][1], one["train"][2][1])


def test_every_class_occurs_and_borders_are_void() -> None:
    masks = np.stack([mask for _, mask in generate_scenes(30, 32)])
    assert sorted(set(masks.ravel().tolist())) == [-100, *range(len(CLASSES))]
    # Between an object and the background there is always void.
    across = np.stack([masks[..., :-1], masks[..., 1:]])
    touch = (across.min(0) == 0) & (across.max(0) > 0)
    assert touch.mean() < 1e-3
    plain = np.stack([mask for _, mask in generate_scenes(5, 32, void=0)])
    assert plain.min() == 0


def test_void_is_as_wide_as_requested() -> None:
    counts = [
        np.mean([(mask == -100).mean() for _, mask in generate_scenes(10, 32, void=v)])
        for v in (0, 0.75, 2)
    ]
    assert counts[0] == 0
    assert counts[2] > 2 * counts[1] > 0


def test_the_foreign_part_is_noisier() -> None:
    parts = generate_shapes(0, 32, train=10, dev=0, test=0, ood=10)
    rough = {
        split: np.mean([np.abs(np.diff(image.astype(float), axis=1)).mean() for image, _ in scenes])
        for split, scenes in parts.items()
        if scenes
    }
    assert rough["ood"] > 1.3 * rough["train"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"side": 4}, "at least 8 pixels"),
        ({"void": -1.0}, "nor the void band is negative"),
        ({"tset": 3}, "Unknown split 'tset'"),
    ],
)
def test_shapes_that_cannot_be(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        generate_shapes(0, **arguments)


def test_style_is_obeyed() -> None:
    none = Style(objects=(0, 1))
    assert all((mask == 0).all() for _, mask in generate_scenes(3, 16, none))


# Folders of masks.


def save(path: Path, array: np.ndarray, mode: str | None = None) -> None:
    pillow = pytest.importorskip("PIL.Image")
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = pillow.fromarray(array)
    if mode == "P":
        picture = picture.convert("L")
        picture.putpalette(np.arange(768, dtype=np.uint8) % 251)
    picture.save(path)


def write(
    folder: Path, rows: range = range(12), mode: str | None = None, kind: str = "png"
) -> None:
    for i in rows:
        save(folder / "images" / f"{i:02}.{kind}", IMAGES[i])
        save(folder / "masks" / f"{i:02}.png", MASKS[i], mode)


def truth(i: int) -> np.ndarray:
    return np.where(MASKS[i] == 255, -100, MASKS[i].astype(int))


@pytest.mark.parametrize("mode", [None, "P"])
def test_a_folder_without_splits(tmp_path: Path, mode: str | None) -> None:
    write(tmp_path, mode=mode)
    (tmp_path / "labels.json").write_text(json.dumps(["sky", "tree", "road"]))
    found = load_scenes(str(tmp_path))
    assert found.labels == ("sky", "tree", "road")
    assert {split: len(part) for split, part in found.parts.items()} == {
        "train": 10, "test": 1, "dev": 1,
    }  # fmt: skip
    assert len(found.notes) == 2
    assert all(isinstance(part, MaskedPictures) for part in found.parts.values())  # Not read yet.
    names = [pair[0].stem for split in found.parts.values() for pair in split.pairs]
    assert sorted(names) == [f"{i:02}" for i in range(12)]
    for part in found.parts.values():
        for (image, mask), (path, _) in zip(part, part.pairs, strict=True):
            np.testing.assert_array_equal(image, IMAGES[int(path.stem)])
            np.testing.assert_array_equal(mask, truth(int(path.stem)))
    again = load_scenes(str(tmp_path), seed=1)
    assert again.parts["test"].pairs != found.parts["test"].pairs


def test_splits_as_folders_and_as_lists(tmp_path: Path) -> None:
    for split, rows in (("train", range(8)), ("val", range(8, 10)), ("test", range(10, 12))):
        write(tmp_path / "a" / split, rows)
    (tmp_path / "a" / "classes.txt").write_text("sky\ntree\nroad\n")
    found = load_scenes(str(tmp_path / "a"))
    assert found.notes == ()
    np.testing.assert_array_equal(found.parts["dev"][1][1], truth(9))

    write(tmp_path / "b", kind="jpg")
    save(tmp_path / "b" / "images" / "unlisted.png", IMAGES[0])  # As in PASCAL VOC: no mask.
    for split, rows in (("train", "02\n00\n\n"), ("val", "05\n"), ("test", "07\n")):
        (tmp_path / "b" / f"{split}.txt").write_text(rows)
    found = load_scenes(str(tmp_path / "b"))
    assert found.labels == ("0", "1", "2")
    assert "3 classes, by the largest number" in found.notes[0]
    np.testing.assert_array_equal(found.parts["train"][0][1], truth(2))
    assert len(found.parts["train"][:1]) == 1


def test_grey_and_coloured_pictures(tmp_path: Path) -> None:
    for i in range(12):
        save(tmp_path / "images" / f"{i}.png", IMAGES[i, ..., 0])
        save(tmp_path / "masks" / f"{i}.png", MASKS[i])
    assert load_scenes(str(tmp_path)).parts["train"][0][0].shape == (10, 9, 1)
    save(tmp_path / "images" / "3.png", IMAGES[3])
    assert load_scenes(str(tmp_path)).parts["train"][0][0].shape == (10, 9, 3)


def test_size_brings_all_to_one(tmp_path: Path) -> None:
    write(tmp_path)
    save(tmp_path / "images" / "00.png", np.tile(IMAGES[0], (2, 3, 1)))
    save(tmp_path / "masks" / "00.png", np.tile(MASKS[0], (2, 3)))
    for image, mask in load_scenes(str(tmp_path), size=16).parts["train"]:
        assert image.shape == (16, 16, 3)
        assert set(mask.ravel().tolist()) <= {-100, 0, 1, 2}  # Never between two classes.


def broken(folder: Path, what: str) -> None:
    if what == "no mask":
        (folder / "masks" / "03.png").unlink()
    elif what == "no image":
        (folder / "images" / "03.png").unlink()
    elif what == "no folder":
        (folder / "masks").rename(folder / "labels")
    elif what == "other size":
        save(folder / "masks" / "03.png", MASKS[3, :5])
    elif what == "damaged image":
        (folder / "images" / "03.png").write_bytes(b"no picture")
    elif what == "coloured mask":
        save(folder / "masks" / "03.png", IMAGES[3])
    elif what == "twice":
        save(folder / "images" / "03.jpg", IMAGES[3])
    elif what == "one class":
        (folder / "labels.txt").write_text("sky\n")
    elif what == "empty":
        for path in (*folder.glob("*/*.png"),):
            path.unlink()
    elif what == "not on disk":
        (folder / "train.txt").write_text("00\n77\n78\n")
    elif what == "empty split":
        (folder / "train.txt").write_text("00\n01\n")
        (folder / "test.txt").write_text("\n")
    elif what == "black and white":
        for i in range(12):
            save(folder / "masks" / f"{i:02}.png", np.uint8(255) * (MASKS[i] > 0))
    elif what == "two splits":
        for split in ("train", "val", "dev"):
            write(folder / split)
    elif what == "no classes":
        save(folder / "masks" / "03.png", MASKS[3].astype(np.uint16) * 200)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("no mask", r"masks has no file for '03', as \.png, \.bmp, \.tif, \.tiff, \.gif\."),
        ("no image", r"03\.png has no image of the same name"),
        ("no folder", r"There is no folder .*masks: put masks to train on into masks/"),
        ("other size", r"03\.png has 9 × 10 pixels, but its mask 9 × 5"),
        ("damaged image", r"03\.png is not an image that can be read"),
        ("coloured mask", r"03\.png: expected a mask in grey or palette colours"),
        ("twice", r"two files named '03'"),
        ("one class", r"labels\.txt: expected at least two classes, got 1"),
        ("empty", "has no training images"),
        ("not on disk", r"no file for '77' \(2 are missing\), as \.png, \.jpg"),
        ("two splits", "two folders for one split: dev and val"),
        ("empty split", "the test split is empty"),
        ("black and white", r"training masks is 0\. \(255 is ignored: .* write 0 and 1"),
        ("no classes", "largest in the training masks is 51000"),
    ],
)
def test_folders_with_a_fault(what: str, message: str, tmp_path: Path) -> None:
    write(tmp_path)
    broken(tmp_path, what)
    with pytest.raises(InputError, match=message):
        load_scenes(str(tmp_path))


def test_faults_that_show_when_a_file_is_read(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "labels.txt").write_text("sky\ntree\n")
    with pytest.raises(InputError, match=r"masks/\d\d\.png: class 2, but there are 2 classes"):
        list(load_scenes(str(tmp_path)).parts["train"])
    (tmp_path / "labels.txt").write_text("sky\ntree\nroad\n")
    for path in (tmp_path / "images").iterdir():
        path.write_bytes(path.read_bytes()[:200])  # The header is whole, the pixels are not.
    with pytest.raises(InputError, match=r"images/\d\d\.png is not an image that can be read"):
        list(load_scenes(str(tmp_path)).parts["train"])


@pytest.mark.parametrize("value", [3, 40_000, 65_535, 65_436])
def test_no_number_of_a_mask_passes_for_another(value: int, tmp_path: Path) -> None:
    """In 16 bits 65,436 would be −100, which is ignored."""
    write(tmp_path)
    (tmp_path / "labels.txt").write_text("sky\ntree\nroad\n")
    for i in range(12):
        save(tmp_path / "masks" / f"{i:02}.png", np.full((10, 9), value, np.uint16))
    with pytest.raises(InputError, match=rf"class {value}, but there are 3 classes"):
        list(load_scenes(str(tmp_path)).parts["train"])


def png_of_bits(numbers: np.ndarray, bits: int) -> bytes:
    """Write a grey PNG of a few bits, which Pillow reads and does not write."""
    height, width = numbers.shape
    rows = b""
    for row in numbers.tolist():
        text = "".join(f"{number:0{bits}b}" for number in row)
        text += "0" * (-len(text) % 8)
        rows += b"\0" + bytes(int(text[i : i + 8], 2) for i in range(0, len(text), 8))

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


@pytest.mark.parametrize("size", [None, 10])
@pytest.mark.parametrize("bits", [1, 2, 4])
def test_masks_of_few_bits_keep_their_numbers(bits: int, size: int | None, tmp_path: Path) -> None:
    """Pillow scales them to 0 … 255: the last class of four, or of sixteen, would be void."""
    numbers = RANDOM.permutation(np.arange(100) % 2**bits).reshape(10, 10)
    for i in range(12):
        save(tmp_path / "images" / f"{i:02}.png", np.zeros((10, 10, 3), np.uint8))
        path = tmp_path / "masks" / f"{i:02}.png"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(png_of_bits(numbers, bits))
    found = load_scenes(str(tmp_path), size=size)
    assert found.labels == tuple(map(str, range(2**bits)))
    for _, mask in found.parts["train"]:
        np.testing.assert_array_equal(mask, numbers)


def test_a_mask_is_that_of_the_upright_photograph(tmp_path: Path) -> None:
    pil = pytest.importorskip("PIL.Image")
    write(tmp_path)
    lying = pil.Exif()
    lying[0x0112] = 6
    for i in range(12):
        stored = np.rot90(IMAGES[i]).copy()
        pil.fromarray(stored).save(tmp_path / "images" / f"{i:02}.png", exif=lying)
    part = load_scenes(str(tmp_path)).parts["train"]
    for (image, mask), (path, _) in zip(part, part.pairs, strict=True):
        np.testing.assert_array_equal(image, IMAGES[int(path.stem)])
        np.testing.assert_array_equal(mask, truth(int(path.stem)))
    pil.fromarray(IMAGES[3]).save(tmp_path / "images" / "03.png", exif=lying)
    with pytest.raises(InputError, match=r"03\.png has 10 × 9 pixels, turned .* its mask 9 × 10"):
        load_scenes(str(tmp_path))


def test_pictures_of_sixteen_bits(tmp_path: Path) -> None:
    write(tmp_path)
    for i in range(12):
        save(tmp_path / "images" / f"{i:02}.png", IMAGES[i, ..., 0].astype(np.uint16) * 257)
    part = load_scenes(str(tmp_path)).parts["train"]
    for (image, _), (path, _) in zip(part, part.pairs, strict=True):
        np.testing.assert_array_equal(image[..., 0], IMAGES[int(path.stem), ..., 0])


def test_names_that_lead_nowhere(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"Unknown segmentation set 'shape'\. Did you mean 'shapes'"
    ):
        load_scenes("shape")
    with pytest.raises(InputError, match="at least 8 pixels a side, got size 4"):
        load_scenes("shapes", size=4)
    write(tmp_path)
    with pytest.raises(InputError, match="only 'shapes' takes their sizes"):
        load_scenes(str(tmp_path), train=3)


# The task.


def test_batches_of_images_that_differ_in_size() -> None:
    torch = pytest.importorskip("torch")
    scenes = [(IMAGES[0], truth(0)), (IMAGES[1][:6, :4], truth(1)[:6, :4])]
    task = SegmentationData(Scenes("two", {"train": scenes}, ("a", "b", "c")))
    batch = task.collate(task.load("train")[:])
    assert batch["pixel_values"].shape == (2, 3, 10, 9)
    labels = batch["labels"].numpy()
    np.testing.assert_array_equal(labels[1, :6, :4], truth(1)[:6, :4])
    assert (labels[1, 6:] == -100).all()
    assert (labels[1, :, 4:] == -100).all()
    assert task.build_model()(batch["pixel_values"]).shape == (2, 10, 9, 3)
    kept = torch.cat(
        [batch["pixel_values"][0].flatten(1), batch["pixel_values"][1, :, :6, :4].flatten(1)], 1
    )
    torch.testing.assert_close(kept.mean(1), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(kept.std(1, correction=0), torch.ones(3), atol=1e-5, rtol=0)


def test_networks_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    from calibrant.tasks.segmentation.segmenter import build_segmenter

    with pytest.raises(
        InputError, match=r"Unknown segmentation network 'unit'\. Did you mean 'unet'"
    ):
        build_segmenter("unit", 3, 2)
    monkeypatch.setitem(sys.modules, "torchvision", None)
    monkeypatch.setitem(sys.modules, "torchvision.models.segmentation", None)
    with pytest.raises(MissingExtraError, match="'fcn_resnet50' needs torchvision"):
        build_segmenter("fcn_resnet50", 3, 2)
    with pytest.raises(InputError, match="takes images of 3 channels, got 1: take 'unet'"):
        build_segmenter("fcn_resnet50", 1, 2)
    assert torch.is_grad_enabled()


def test_a_network_in_the_manner_of_torchvision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Features under "out", coarser than the image; the real library is not needed for that."""
    torch = pytest.importorskip("torch")
    from calibrant.tasks.segmentation.segmenter import build_segmenter

    class Backbone(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Conv2d(3, 6, 8, stride=8)

        def forward(self, pixels: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"out": self.layer(pixels)}

    def network(weights: None, weights_backbone: None, num_classes: int) -> types.SimpleNamespace:
        assert weights is weights_backbone is None
        head = torch.nn.Conv2d(6, num_classes, 3, padding=1)
        return types.SimpleNamespace(backbone=Backbone(), classifier=head)

    library = types.SimpleNamespace(fcn_resnet50=network)
    monkeypatch.setitem(sys.modules, "torchvision", types.ModuleType("torchvision"))
    monkeypatch.setitem(sys.modules, "torchvision.models", types.ModuleType("models"))
    monkeypatch.setitem(sys.modules, "torchvision.models.segmentation", library)
    model = build_segmenter("fcn_resnet50", 3, 4, seed=1)
    images = torch.randn(2, 3, 16, 24)
    coarse = model.classifier.layers(model.features(images)["out"])
    fine = torch.nn.functional.interpolate(coarse, (16, 24), mode="bilinear")
    torch.testing.assert_close(model(images), fine.permute(0, 2, 3, 1))
    same = build_segmenter("fcn_resnet50", 3, 4, seed=1)
    torch.testing.assert_close(same(images), model(images))


@pytest.mark.parametrize("name", ["fcn_resnet50", "deeplabv3_resnet50"])
def test_networks_of_torchvision(name: str) -> None:
    torch = pytest.importorskip("torch")
    library = pytest.importorskip("torchvision.models.segmentation")
    from calibrant.tasks.segmentation.segmenter import build_segmenter

    model = build_segmenter(name, 3, 4).eval()
    theirs = getattr(library, name)(weights=None, weights_backbone=None, num_classes=4).eval()
    theirs.backbone.load_state_dict(model.features.state_dict())
    theirs.classifier.load_state_dict(model.classifier.layers.state_dict())
    images = torch.randn(1, 3, 40, 48)
    with torch.no_grad():
        torch.testing.assert_close(model(images).movedim(-1, 1), theirs(images)["out"])


def test_the_page_tells_the_truth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """The programs of docs/segmentation.md, one after the other, print what it says."""
    pytest.importorskip("torch")
    pytest.importorskip("matplotlib")
    page = (Path(__file__).parents[2] / "docs" / "segmentation.md").read_text(encoding="utf-8")
    programs = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", page, re.DOTALL)
    assert len(programs) == 4
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for program, printed in programs:
        exec(program, names)
        assert capsys.readouterr().out == printed
    assert (tmp_path / "maps.png").stat().st_size > 5000


def test_lists_that_share_images_are_noted(tmp_path: Path) -> None:
    write(tmp_path)
    for split, numbers in (("train", range(8)), ("val", range(6, 10)), ("test", range(10, 12))):
        (tmp_path / f"{split}.txt").write_text("".join(f"{i:02}\n" for i in numbers))
    notes = load_scenes(str(tmp_path)).notes
    assert [n for n in notes if "too" in n] == [
        "2 images of the dev split are training images too."
    ]


def test_each_class_is_measured_over_the_pixels_predicted_as_it():
    probabilities = [[0.8, 0.2, 0], [0.6, 0.4, 0], [0.1, 0.9, 0], [0.1, 0.9, 0]]
    found = Predictions.from_probabilities(probabilities, [0, 1, 1, 1], label_names=("a", "b", "c"))
    table = task_of("segmentation").by_class(found)
    assert table["a"] == pytest.approx(
        {"iou": 0.5, "ece": 0.4, "accuracy": 0.5, "mean_confidence": 0.7, "predicted": 2}
    )
    assert table["b"]["ece"] == pytest.approx(0.1)
    assert table["b"]["iou"] == pytest.approx(2 / 3)
    assert np.isnan(table["c"]["ece"])
    assert table["c"]["predicted"] == 0
