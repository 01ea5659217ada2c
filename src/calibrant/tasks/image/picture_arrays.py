"""Images as arrays: in an npz file, and their mean and deviation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.errors import InputError
from calibrant.extras import require
from calibrant.files.npz import array_names, opened_npz, read_array
from calibrant.inputs import check_file, first_repeated
from calibrant.outputs import new_file
from calibrant.tasks.image.framing import Framing
from calibrant.tasks.image.picture_files import resized
from calibrant.tasks.reading.splits import only_one, split_of

__all__ = ["Example", "array_examples", "channel_moments", "read_npz", "write_npz"]

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


def write_npz(
    path: Path,
    images: Mapping[str, np.ndarray],
    classes: Mapping[str, np.ndarray],
    labels: Sequence[str],
    *,
    overwrite: bool = False,
) -> None:
    """Write the images of each split, without compression, as :func:`read_npz` reads them."""
    arrays: dict[str, Any] = {f"{split}_images": part for split, part in images.items()}
    arrays |= {f"{split}_labels": part for split, part in classes.items()}
    with new_file(path, overwrite=overwrite) as unfinished, unfinished.open("wb") as file:
        np.savez(file, **arrays, label_names=np.array(labels))


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


def channel_moments(parts: Iterable[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and deviation of the bytes of each channel over arrays (…, channels).

    The values of a channel are counted, which is exact in any order and needs the memory of one
    part.

    >>> channel_moments([np.array([[1, 0]], np.uint8), np.array([[3, 0]], np.uint8)])
    (array([2., 0.]), array([1.   , 0.001]))
    """
    counts: Any = 0  # (channels, 256)
    for part in parts:
        channels = part.reshape(-1, part.shape[-1]).T
        counts = counts + np.array([np.bincount(values, minlength=256) for values in channels])
    number, values = counts.sum(1), np.arange(256)
    mean = counts @ values / number
    variance = (counts * (values - mean[:, None]) ** 2).sum(1) / number
    # A channel that is the same everywhere is left at zero.
    return mean, np.maximum(np.sqrt(variance), 1e-3)


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
