"""Read images from the arrays of an npz file, and explain what is wrong with some."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from calibrant.errors import InputError
from calibrant.extras import require
from calibrant.files.npz import array_names, opened_npz, read_array
from calibrant.inputs import check_file, first_repeated
from calibrant.tasks.image.framing import Framing
from calibrant.tasks.image.picture_files import resized
from calibrant.tasks.reading.splits import only_one, split_of

__all__ = ["Example", "array_examples", "read_npz"]

Example = tuple[np.ndarray, str]  # (height, width, channels) of bytes, and label


def read_npz(path: Path, size: Framing | int | None = None) -> dict[str, list[Example]]:
    """Read the examples of each split: ``train_images``, ``train_labels`` and so on.

    Labels are whole numbers or texts. With ``label_names`` they are numbers of these names. A
    negative label means no class, which only out-of-domain images may have.
    """
    arrays = _arrays(path)
    names = _names(arrays.pop("label_names", None), path)
    parts: dict[str, list[Example]] = {}
    keys: dict[str, str] = {}
    for key, images in arrays.items():
        split = split_of(key.removesuffix("_images")) if key.endswith("_images") else None
        if split is not None:
            only_one(keys, split, key, f"{path} has two arrays for one split")
            keys[split] = key
            where = f"{path}, {key}"
            labels = arrays.get(key.replace("_images", "_labels"), np.empty(0))
            if labels.ndim == 2 and labels.shape[1] == 1:  # Some sets have one column.
                labels = labels[:, 0]
            _check_arrays(images, labels, where)
            texts = _labels(labels, names, where, outside=split == "ood")
            parts[split] = array_examples(images, texts, size, where)
    if not parts:
        raise InputError(f"{path} has no 'train_images'; it has {', '.join(arrays) or 'nothing'}.")
    return parts


def array_examples(
    images: np.ndarray, labels: list[str], size: Framing | int | None, where: str
) -> list[Example]:
    """Return pairs of an image, scaled to ``size``, and its label.

    >>> images = np.zeros((2, 8, 8), np.uint8)
    >>> [image.shape for image, _ in array_examples(images, ["a", "b"], size=4, where="zeros")]
    [(4, 4, 1), (4, 4, 1)]
    """
    whole = images[..., None] if images.ndim == 3 else images
    if size is not None and whole.shape[1:3] != (size, size):
        if whole.shape[-1] not in (1, 3):
            raise InputError(
                f"{where}: images of {whole.shape[-1]} channels cannot be resized: leave "
                "the image size out."
            )
        pil = require("PIL.Image", "data", "Bringing images to a size")
        plain = whole[..., 0] if whole.shape[-1] == 1 else whole
        return [(resized(pil.fromarray(i), size), y) for i, y in zip(plain, labels, strict=True)]
    return list(zip(whole, labels, strict=True))


def _arrays(path: Path) -> dict[str, np.ndarray]:
    with opened_npz(check_file(path)) as archive:
        return {key: read_array(archive, key) for key in array_names(archive)}


def _names(given: np.ndarray | None, path: Path) -> list[str] | None:
    if given is None:
        return None
    names = [str(name) for name in given.reshape(-1)]
    if (twice := first_repeated(names)) is not None:
        raise InputError(f"{path}: 'label_names' has '{twice}' twice.")
    return names


def _check_arrays(images: np.ndarray, labels: np.ndarray, where: str) -> None:
    bad = images.ndim not in (3, 4) or labels.ndim != 1 or len(images) != len(labels)
    if bad or images.dtype != np.uint8 or (len(images) and not images[0].size):
        found = f"{labels.size} labels" if labels.ndim == 1 else f"labels {labels.shape}"
        raise InputError(
            f"{where}: expected bytes (n, height, width[, channels]) and n labels, got "
            f"{images.dtype} {images.shape} and {found}."
        )


def _labels(labels: np.ndarray, names: list[str] | None, where: str, *, outside: bool) -> list[str]:
    if labels.dtype.kind in "US":
        if names is not None and not outside:
            unknown = next((i for i, y in enumerate(labels) if str(y) not in names), None)
            if unknown is not None:
                found = f"label '{labels[unknown]}' of image {unknown + 1}"
                raise InputError(f"{where}: {found} is not in 'label_names'.")
        return [str(label) for label in labels]
    if labels.dtype.kind not in "iu":
        raise InputError(
            f"{where}: expected labels that are whole numbers or texts, got {labels.dtype}."
        )
    most = np.iinfo(labels.dtype).max if names is None else len(names) - 1
    odd = np.flatnonzero((labels < 0) | (labels > most))
    if len(odd) and not outside:
        found = f"label {labels[odd[0]]} of image {odd[0] + 1}"
        known = "0 on" if names is None else f"0 to {most}, by 'label_names'"
        raise InputError(f"{where}: {found}; classes are numbered from {known}.")
    inside = (labels >= 0) & (labels <= most)
    return [
        str(y) if names is None or not known else names[y]
        for y, known in zip(labels.tolist(), inside.tolist(), strict=True)
    ]
