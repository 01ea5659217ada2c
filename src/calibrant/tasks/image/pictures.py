"""Images with one label each: digits, npz, class folders, torchvision and the hub."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.errors import InputError, unknown_name
from calibrant.extras import require
from calibrant.inputs import nearest_path
from calibrant.tasks.image.framing import Framing
from calibrant.tasks.image.picture_arrays import Example, array_examples, read_npz, write_npz
from calibrant.tasks.image.picture_files import SUFFIXES, in_channels, open_image, resized
from calibrant.tasks.image.tiny_imagenet import (
    TINY_IMAGENET,
    is_tiny_imagenet,
    read_tiny_imagenet,
)
from calibrant.tasks.reading.catalogue import data_directory, find_file, find_folder
from calibrant.tasks.reading.class_labels import (
    class_folders,
    has_splits,
    label_names,
    lost_classes,
    number_labels,
    training_labels,
)
from calibrant.tasks.reading.hub import (
    check_name,
    class_name,
    column,
    is_saved,
    load_hub,
    load_saved,
    names_of,
)
from calibrant.tasks.reading.splits import complete, for_wrapping

__all__ = [
    "DIGITS",
    "TORCHVISION",
    "Pictures",
    "find_pictures",
    "given_pictures",
    "load_pictures",
    "load_test_pictures",
    "table_examples",
]

DIGITS = "digits"
_SHOWN = 5000  # Training images that are kept for a model that is trained already.
# Our name → torchvision's.
TORCHVISION = {
    "cifar10": "CIFAR10",
    "cifar100": "CIFAR100",
    "fashion-mnist": "FashionMNIST",
    "mnist": "MNIST",
}


@dataclass(frozen=True, eq=False)
class Pictures:
    """Images (n, height, width, channels) of bytes and their classes, by split."""

    name: str
    images: Mapping[str, np.ndarray]
    classes: Mapping[str, np.ndarray]
    labels: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def write(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write them to one npz file: many small image files take far longer to read."""
        write_npz(Path(path), self.images, self.classes, self.labels, overwrite=overwrite)


def load_pictures(
    name: str,
    directory: str | Path | None = None,
    seed: int = 0,
    size: Framing | int | None = None,
    *,
    trained: bool = False,
) -> Pictures:
    """Load images by name: ``digits``, an npz file, a folder, a name of torchvision or the hub.

    A name is looked for in the data directory first, as a folder or as ``NAME.npz``. An npz holds
    ``train_images``, ``train_labels``, the same of other splits, and optionally ``label_names``. A
    folder holds a folder for each class, optionally within one for each split, or is that of
    Tiny-ImageNet (:mod:`.tiny_imagenet`). Images of several sizes need ``size``, to which all are
    scaled. Missing splits are carved from the training split, seeded, and noted. A model that is
    ``trained`` already needs validation and test data, and nothing is carved for it.
    """
    parts, where = _parts(name, directory, size, seed)
    if trained:
        given = {**for_wrapping(parts, where), "train": parts.get("train", ())}
        return given_pictures(given, name, where)
    labels = training_labels(parts.get("train", ()), where, "images")
    before = parts["train"]
    full, notes = complete(parts, where, seed, test=True)
    return _pictures(name, full, labels, (*notes, *lost_classes(before, full["train"])), where)


def given_pictures(
    parts: Mapping[str, Sequence[Example]], name: str = "given", where: str = "The data"
) -> Pictures:
    """Return the splits for a model that is trained already.

    Some training images of the same classes stay, if there are any: signals are learned from them.
    """
    kept = {split: part for split, part in parts.items() if split != "train"}
    labels = label_names(y for split, part in kept.items() if split != "ood" for _, y in part)
    known = [example for example in parts.get("train", ()) if example[1] in labels]
    rows = np.random.default_rng(0).permutation(len(known))[:_SHOWN]
    train = {"train": [known[row] for row in np.sort(rows)]} if known else {}
    return _pictures(name, {**kept, **train}, labels, (), where)


def _pictures(
    name: str,
    parts: Mapping[str, Sequence[Example]],
    labels: tuple[str, ...],
    notes: tuple[str, ...],
    where: str,
) -> Pictures:
    numbers = number_labels({s: [y for _, y in p] for s, p in parts.items()}, labels, where)
    images = _stacked({s: [image for image, _ in p] for s, p in parts.items()}, where)
    classes = {split: np.array(values, np.int64) for split, values in numbers.items()}
    return Pictures(name, images, classes, labels, notes)


def load_test_pictures(
    name: str,
    directory: str | Path | None = None,
    size: Framing | int | None = None,
    *,
    whole: bool = False,
) -> tuple[np.ndarray, list[str]]:
    """Load the images (n, height, width, channels) of the test split alone, and their labels.

    Without a test split it is the one that :func:`load_pictures` takes from training. With
    ``whole``, a folder of class folders that has no splits is all to test on, and what has splits
    but no test split is an error.
    """
    parts, where = _parts(name, directory, size)
    folder = find_folder(name, "image", directory)
    unsplit = folder is not None and not is_saved(folder) and not has_splits(folder)
    if whole and unsplit:
        parts = {"test": parts["train"]}
    if "test" in parts:
        images = _stacked({"test": [image for image, _ in parts["test"]]}, where)["test"]
        return images, [label for _, label in parts["test"]]
    if whole and name != DIGITS:
        raise InputError(f"{where} has no test split; found: {', '.join(parts)}.")
    pictures = load_pictures(name, directory, size=size)
    return pictures.images["test"], [pictures.labels[n] for n in pictures.classes["test"]]


def find_pictures(name: str, directory: str | Path | None = None) -> Path | None:
    """Return the folder or npz of images, or None for other sources. Reads nothing.

    >>> find_pictures("digits") is None
    True
    """
    if name == DIGITS or name.endswith(".npz"):
        return None
    folder = find_folder(name, "image", directory)
    found = folder or find_file(f"{name}.npz", "image", directory)
    if found is None and name == TINY_IMAGENET:
        raise InputError(
            f"There is no '{name}': unpack tiny-imagenet-200.zip (Stanford, CS231n) in the data "
            "directory (--data-dir, CALIBRANT_DATA), or name its folder."
        )
    if found is None and name not in TORCHVISION and "/" not in name:
        hint = "A folder of class folders, an npz, or owner/name on the hub, works too."
        hint += nearest_path(Path(name))
        raise unknown_name("image set", name, (DIGITS, *TORCHVISION, TINY_IMAGENET), hint)
    if found is None and name not in TORCHVISION:
        check_name(name)
    return found


def _parts(
    name: str, directory: str | Path | None, size: Framing | int | None, seed: int = 0
) -> tuple[dict[str, Sequence[Example]], str]:
    if name == DIGITS:
        return {"train": _digits(size)}, name
    if name.endswith(".npz"):
        return dict(read_npz(find_file(name, "image", directory) or Path(name), size)), name
    folder = find_pictures(name, directory)
    if folder is not None and folder.is_file():
        return dict(read_npz(folder, size)), str(folder)
    if folder is not None and is_saved(folder):
        return {s: table_examples(t, s, size) for s, t in load_saved(folder).items()}, str(folder)
    if folder is not None and is_tiny_imagenet(folder):
        return read_tiny_imagenet(folder, size, seed), str(folder)
    if folder is not None:
        return _opened(folder, size), str(folder)
    if name in TORCHVISION:
        return _from_torchvision(name, directory, size), name
    return {s: table_examples(t, s, size) for s, t in load_hub(name).items()}, name


def _opened(folder: Path, size: Framing | int | None) -> dict[str, Sequence[Example]]:
    """Open the images of class folders; the first of another size is an error at once."""
    first: tuple[int, ...] | None = None
    found: dict[str, list[Example]] = {}
    for split, part in class_folders(folder, SUFFIXES).items():
        if {label for _, label in part} == {"images", "masks"}:
            raise InputError(f"{folder} holds images and masks: they are for task 'segmentation'.")
        for path, label in part:
            image = open_image(path, size)
            first = first or image.shape[:2]
            if image.shape[:2] != first:
                raise _several(str(folder), first, str(path), image.shape[:2])
            found.setdefault(split, []).append((image, label))
    return dict(found)


def _several(where: str, first: tuple[int, ...], which: str, other: tuple[int, ...]) -> InputError:
    return InputError(
        f"{where}: images of several shapes, {first} and ({which}) {other}; set an image size "
        "(size=…, --image-size of 'calibrant train') to resize them."
    )


def _digits(size: Framing | int | None) -> list[Example]:
    """Load scikit-learn's 1,797 handwritten digits of 8×8 pixels, whose values are 0 to 16."""
    sklearn = require("sklearn.datasets", "sklearn", "The data set 'digits'")
    pixels, labels = sklearn.load_digits(return_X_y=True)
    images = np.round(pixels.reshape(-1, 8, 8, 1) * 255 / 16).astype(np.uint8)
    return array_examples(images, list(map(str, labels)), size, DIGITS)


def _from_torchvision(
    name: str, directory: str | Path | None, size: Framing | int | None
) -> dict[str, Sequence[Example]]:
    torchvision = require("torchvision.datasets", "image", f"The image set '{name}'")
    home = os.environ.get("TORCH_HOME", str(Path.home() / ".cache" / "torch"))
    root = data_directory(directory) or Path(home) / "datasets"
    parts: dict[str, Sequence[Example]] = {}
    for split in ("train", "test"):
        try:
            found = getattr(torchvision, TORCHVISION[name])(
                root=str(root), train=split == "train", download=True
            )
        except (OSError, RuntimeError) as error:
            raise InputError(f"Cannot load '{name}' with torchvision: {error}.") from None
        labels = [str(found.classes[int(y)]) for y in found.targets]
        parts[split] = array_examples(np.asarray(found.data), labels, size, name)
    return parts


def table_examples(table: Any, split: str, size: Framing | int | None) -> list[Example]:
    """Read a table of the datasets library with a column of images and one of labels."""
    image = column(table, ("image", "img", "images"), split)
    label = column(table, ("label", "labels", "fine_label"), split)
    names = names_of(table, label)
    found, outside = [], split == "ood"
    for row, (picture, y) in enumerate(zip(table[image], table[label], strict=True), start=1):
        name = class_name(names, y, f"{split}, row {row}", outside=outside)
        found.append((resized(picture, size), str(name)))
    return found


def _stacked(parts: Mapping[str, Sequence[np.ndarray]], where: str) -> dict[str, np.ndarray]:
    """Stack the images of each split; grey images among coloured ones get three channels."""
    coloured = any(image.shape[-1] == 3 for part in parts.values() for image in part)
    first, found = None, {}
    for split, part in parts.items():
        images = [in_channels(image, 3 if coloured else 1) for image in part]
        for number, image in enumerate(images, start=1):
            first = image.shape if first is None else first
            if image.shape != first:
                raise _several(where, first, f"{split} split, example {number}", image.shape)
        found[split] = np.stack(images)
    return found
