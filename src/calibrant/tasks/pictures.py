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
from calibrant.tasks.catalogue import data_directory, find_file, find_folder
from calibrant.tasks.hub import column, is_saved, load_hub, load_saved, names_of
from calibrant.tasks.labelled import class_folders, label_names, number_labels
from calibrant.tasks.splits import complete, split_of

__all__ = [
    "DIGITS",
    "SUFFIXES",
    "TORCHVISION",
    "Pictures",
    "load_pictures",
    "load_test_pictures",
    "open_image",
]

DIGITS = "digits"
# Our name → torchvision's.
TORCHVISION = {
    "cifar10": "CIFAR10",
    "cifar100": "CIFAR100",
    "fashion-mnist": "FashionMNIST",
    "mnist": "MNIST",
}
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
Example = tuple[np.ndarray, str]  # (height, width, channels) of bytes, and label


@dataclass(frozen=True, eq=False)
class Pictures:
    """Images (n, height, width, channels) of bytes and their classes, by split."""

    name: str
    images: Mapping[str, np.ndarray]
    classes: Mapping[str, np.ndarray]
    labels: tuple[str, ...]
    notes: tuple[str, ...] = ()


def load_pictures(
    name: str,
    directory: str | Path | None = None,
    seed: int = 0,
    size: int | None = None,
) -> Pictures:
    """Images by name: ``digits``, an npz file, a folder, a name of torchvision or of the hub.

    A name is looked for in the data directory first, as a folder or as ``NAME.npz``. An npz holds
    ``train_images``, ``train_labels``, the same of other splits, and if you like ``label_names``. A
    folder holds a folder for each class, if you like within one for each split. Images of several
    sizes need ``size``, to which all are then brought. Missing splits are carved from the training
    split, seeded, and noted.
    """
    parts, where = _parts(name, directory, size)
    if not parts.get("train"):
        raise InputError(f"{where} has no training images.")
    labels = label_names(label for _, label in parts["train"])
    full, notes = complete(parts, where, seed, test=True)
    numbers = number_labels({s: [y for _, y in p] for s, p in full.items()}, labels, where)
    images = {split: _stack(part, f"{where}, {split} split") for split, part in full.items()}
    if size is not None and images["train"].shape[1:3] != (size, size):
        raise InputError(
            f"{where} holds arrays of images, which stay as they are: leave the image size out."
        )
    classes = {split: np.array(values, np.int64) for split, values in numbers.items()}
    return Pictures(name, images, classes, labels, notes)


def load_test_pictures(
    name: str, directory: str | Path | None = None
) -> tuple[np.ndarray, list[str]]:
    """The images (n, height, width, channels) of the test split alone, and their labels.

    Where there is no test split, it is the one that :func:`load_pictures` takes from training.
    """
    parts, where = _parts(name, directory, None)
    if "test" in parts:
        images = _stack(parts["test"], f"{where}, test split")
        return images, [label for _, label in parts["test"]]
    pictures = load_pictures(name, directory)
    return pictures.images["test"], [pictures.labels[n] for n in pictures.classes["test"]]


def _parts(
    name: str, directory: str | Path | None, size: int | None
) -> tuple[dict[str, Sequence[Example]], str]:
    if name == DIGITS:
        return {"train": _digits()}, name
    if name.endswith(".npz"):
        return _read_npz(find_file(name, "image", directory) or Path(name)), name
    folder = find_folder(name, "image", directory)
    packed = None if folder else find_file(f"{name}.npz", "image", directory)
    if packed is not None:
        return _read_npz(packed), str(packed)
    if folder is not None and is_saved(folder):
        return {s: _from_table(t, s, size) for s, t in load_saved(folder).items()}, str(folder)
    if folder is not None:
        parts = class_folders(folder, SUFFIXES)
        opened = {s: [(open_image(p, size), y) for p, y in part] for s, part in parts.items()}
        return dict(opened), str(folder)
    if name in TORCHVISION:
        return _from_torchvision(name, directory), name
    if "/" not in name:
        hint = "A folder of class folders, an npz, or owner/name on the hub, works too."
        raise unknown_name("image set", name, (DIGITS, *TORCHVISION), hint)
    return {s: _from_table(t, s, size) for s, t in load_hub(name).items()}, name


def _digits() -> list[Example]:
    """scikit-learn's 1,797 handwritten digits of 8×8 pixels, whose values are 0 to 16."""
    sklearn = require("sklearn.datasets", "sklearn", "The embedded digits")
    pixels, labels = sklearn.load_digits(return_X_y=True)
    images = np.round(pixels.reshape(-1, 8, 8, 1) * 255 / 16).astype(np.uint8)
    return list(zip(images, map(str, labels), strict=True))


def _read_npz(path: Path) -> dict[str, Sequence[Example]]:
    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays = dict(file)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"Cannot read {path}: {error}.".replace("..", ".")) from None
    except Exception:  # What zipfile and zlib raise for a damaged one.
        raise InputError(f"Cannot read {path}: it is damaged.") from None
    names = arrays.pop("label_names", None)
    parts: dict[str, Sequence[Example]] = {}
    for key, images in arrays.items():
        split = split_of(key.removesuffix("_images")) if key.endswith("_images") else None
        if split is not None:
            labels = arrays.get(key.replace("_images", "_labels"), np.empty(0))
            _check_arrays(images, labels, f"{path}, {key}")
            texts = labels if names is None else np.asarray(names)[labels]
            parts[split] = [
                (_bytes(i, str(path)), str(y)) for i, y in zip(images, texts, strict=True)
            ]
    if not parts:
        raise InputError(f"{path} has no 'train_images'; it has {', '.join(arrays) or 'nothing'}.")
    return parts


def _check_arrays(images: np.ndarray, labels: np.ndarray, where: str) -> None:
    if images.ndim not in (3, 4) or images.shape[0] != labels.size or images.dtype != np.uint8:
        raise InputError(
            f"{where}: expected bytes (n, height, width[, channels]) and n labels, got "
            f"{images.dtype} {images.shape} and {labels.size} labels."
        )


def _from_torchvision(name: str, directory: str | Path | None) -> dict[str, Sequence[Example]]:
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
        names = [str(label) for label in found.classes]
        pairs = zip(np.asarray(found.data), found.targets, strict=True)
        parts[split] = [(_bytes(image, name), names[int(y)]) for image, y in pairs]
    return parts


def _from_table(table: Any, split: str, size: int | None) -> list[Example]:
    image = column(table, ("image", "img", "images"), split)
    label = column(table, ("label", "labels", "fine_label"), split)
    names = names_of(table, label)
    return [
        (_resized(picture, size), str(y if names is None else names[y]))
        for picture, y in zip(table[image], table[label], strict=True)
    ]


def open_image(path: Path, size: int | None = None) -> np.ndarray:
    """An image file as (height, width, 1 or 3) of bytes, brought to ``size`` where one is given."""
    pil = require("PIL.Image", "data", "Reading images")
    try:
        with pil.open(path) as picture:
            return _resized(picture, size)
    except (OSError, SyntaxError, ValueError):
        raise InputError(f"{path} is not an image that can be read.") from None


def _resized(picture: Any, size: int | None) -> np.ndarray:
    if picture.mode not in ("L", "RGB"):
        picture = picture.convert("RGB")
    return _bytes(np.asarray(picture.resize((size, size)) if size else picture), "image")


def _bytes(image: np.ndarray, where: str) -> np.ndarray:
    image = image[..., None] if image.ndim == 2 else image
    if image.ndim != 3:
        raise InputError(f"{where}: expected images (height, width, channels), got {image.shape}.")
    return image


def _stack(part: Sequence[Example], where: str) -> np.ndarray:
    shapes = [image.shape for image, _ in part]
    odd = next((i for i, shape in enumerate(shapes) if shape != shapes[0]), None)
    if odd is not None:
        raise InputError(
            f"{where}: images of several shapes, {shapes[0]} and (example {odd + 1}) "
            f"{shapes[odd]}; set an image size (size=…, --image-size) to bring them to one."
        )
    return np.stack([image for image, _ in part])
