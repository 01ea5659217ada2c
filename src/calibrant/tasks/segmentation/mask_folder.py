"""A folder of pictures and masks: ``images/`` and ``masks/`` with the same names in both.

Splits are folders (``train/images``, ``train/masks``, ``val/images``, …) or lists of names next to
them (``train.txt``, ``val.txt``, one name per line, as PASCAL VOC has them); without either, all is
the training split. Masks are PNG or another exact format in grey or palette colours whose numbers
are the classes; 255 is ignored. Names of the classes are in ``labels.json`` or ``labels.txt`` (also
``classes.…``); without such a file the classes are the numbers that occur.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np

from calibrant.errors import InputError
from calibrant.extras import require
from calibrant.files import read_label_names
from calibrant.files.lines import numbered_lines
from calibrant.predictions import IGNORED
from calibrant.tasks.image.picture_files import (
    SUFFIXES,
    in_bytes,
    is_grey,
    opened_picture,
    upright_size,
)
from calibrant.tasks.reading.splits import complete, split_files, split_folders

__all__ = ["VOID", "MaskedPictures", "listed_names", "read_mask_folder", "read_test_masks"]

VOID = 255  # In a mask: belongs to no class, as in PASCAL VOC, Cityscapes and ADE20K.
_EXACT = (".png", ".bmp", ".tif", ".tiff", ".gif")  # JPEG would blur the class numbers.
_SCALES = {"L;2": 85, "L;4": 17}  # Pillow scales grey of few bits to 0 … 255.
_MOST = 1000  # More numbers than this are probably not classes.
_NAMES = ("labels.json", "labels.txt", "classes.json", "classes.txt")
Pair = tuple[Path, Path]


@dataclass(frozen=True)
class MaskedPictures(Sequence[tuple[np.ndarray, np.ndarray]]):
    """Pairs of files as images (height, width, channels) and masks, read one by one."""

    pairs: tuple[Pair, ...]
    classes: int
    channels: int
    size: int | None = None

    def __len__(self) -> int:
        return len(self.pairs)

    @overload
    def __getitem__(self, number: int) -> tuple[np.ndarray, np.ndarray]: ...
    @overload
    def __getitem__(self, number: slice) -> MaskedPictures: ...
    def __getitem__(self, number: int | slice) -> Any:
        """Read the image and the mask of one pair, or return some of the pairs."""
        if isinstance(number, slice):
            return MaskedPictures(self.pairs[number], self.classes, self.channels, self.size)
        picture, mask = self.pairs[number]
        with opened_picture(picture) as file:
            colours = in_bytes(file).convert("RGB" if self.channels == 3 else "L")
        labels = _mask(mask, self.size)
        image = np.asarray(_sized(colours, self.size))
        if image.shape[:2] != labels.shape:  # EXIF that follows the pixels of a PNG has turned it.
            raise _of_two_sizes(picture, colours.size, labels.shape[::-1])
        odd = labels[(labels >= self.classes) | ((labels < 0) & (labels != IGNORED))]
        if len(odd):
            raise InputError(
                f"{mask}: class {odd[0]}, but there are {self.classes} classes, 0 to "
                f"{self.classes - 1}; {VOID} marks pixels to ignore."
            )
        return image.reshape(*image.shape[:2], self.channels), labels.astype(np.int16)


def read_mask_folder(
    folder: Path, size: int | None = None, seed: int = 0
) -> tuple[dict[str, MaskedPictures], tuple[str, ...], tuple[str, ...]]:
    """Read the pictures of each split, the names of the classes, and notes.

    Every file is opened far enough to see that it is a picture, and as large as its mask. Missing
    splits are carved from the training split.
    """
    pairs = _splits(folder)
    if not pairs.get("train"):
        raise InputError(f"{folder} has no training images.")
    coloured = [_checked(pair) for part in pairs.values() for pair in part]
    labels, notes = _labels(folder, pairs["train"])
    full, carved = complete(pairs, str(folder), seed, test=True)
    parts = {
        split: MaskedPictures(tuple(part), len(labels), 3 if any(coloured) else 1, size)
        for split, part in full.items()
    }
    return parts, labels, (*notes, *_learned(pairs), *carved)


def read_test_masks(folder: Path, labels: Sequence[str], channels: int) -> MaskedPictures:
    """Read the test split, or all of a folder without splits, for a trained network.

    Where the folder names its classes, they are ``labels``; else its numbers mean those.
    """
    pairs = _splits(folder)
    unsplit = (folder / "images").is_dir() and not split_files(folder, (".txt",))
    part = pairs["train"] if unsplit and pairs.keys() == {"train"} else pairs.get("test", ())
    if not part:
        raise InputError(f"{folder} has no test images; found: {', '.join(pairs)}.")
    for pair in part:
        _checked(pair)
    named = _named(folder)
    if named is not None and named != tuple(labels):
        names = ", ".join(named)
        raise InputError(f"{folder}: expected the run's classes, {', '.join(labels)}, got {names}.")
    return MaskedPictures(tuple(part), len(labels), channels)


def _splits(folder: Path) -> dict[str, Sequence[Pair]]:
    within = split_folders(folder)
    if within:
        return {split: _pairs(path) for split, path in within.items()}
    lists = split_files(folder, (".txt",))
    if not lists:
        return {"train": _pairs(folder)}
    return {split: _pairs(folder, path) for split, path in lists.items()}


def _pairs(folder: Path, names: Path | None = None) -> list[Pair]:
    """Find the pictures of a folder with their masks; of a list only, in its order."""
    images, masks = _files(folder / "images", SUFFIXES), _files(folder / "masks", _EXACT)
    if names is None:
        wanted = sorted(images)
        lonely = sorted(set(masks) - set(images))
        if lonely:
            raise InputError(f"{masks[lonely[0]]} has no image of the same name in images/.")
    else:
        wanted = listed_names(names)
    for what, found in (("images", images), ("masks", masks)):
        missing = [name for name in wanted if name not in found]
        if missing:
            more = f" ({len(missing):,} are missing)" if len(missing) > 1 else ""
            kinds = ", ".join(SUFFIXES if what == "images" else _EXACT)
            raise InputError(f"{folder / what} has no file for '{missing[0]}'{more}, as {kinds}.")
    return [(images[name], masks[name]) for name in wanted]


def listed_names(path: Path) -> list[str]:
    """Read the names on the list of a split, one on each line."""
    return [line.strip() for _, line in numbered_lines(path) if line.strip()]


def _files(folder: Path, suffixes: Sequence[str]) -> dict[str, Path]:
    if not folder.is_dir():
        raise InputError(
            f"There is no folder {folder}: put masks to train on into masks/, their images under "
            "the same names into images/, and both into train/, val/, … if there are splits."
        )
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in suffixes and path.name[0] != ".":
            if path.stem in found:
                raise InputError(f"{folder} has two files named '{path.stem}'.")
            found[path.stem] = path
    return found


def _learned(pairs: Mapping[str, Sequence[Pair]]) -> Iterator[str]:
    """Note images that are on the lists of both training and test."""
    train = set(pairs["train"])
    for split, part in pairs.items():
        both = len(train.intersection(part)) if split != "train" else 0
        if both:
            yield f"{both:,} images of the {split} split are training images too."


def _checked(pair: Pair) -> bool:
    """Return whether the picture has colours; it must be as large as its mask."""
    with opened_picture(pair[0]) as picture, opened_picture(pair[1]) as mask:
        size = upright_size(picture)
        if size != mask.size:
            raise _of_two_sizes(pair[0], size, mask.size, turned=size != picture.size)
        return not is_grey(picture)


def _of_two_sizes(
    path: Path, image: Sequence[int], mask: Sequence[int], *, turned: bool = True
) -> InputError:
    upright = ", turned upright as its EXIF data say" if turned else ""
    return InputError(
        f"{path} has {image[0]} × {image[1]} pixels{upright}, but its mask {mask[0]} × {mask[1]}."
    )


def _labels(folder: Path, train: Sequence[Pair]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the classes from a file, else the numbers in the training masks."""
    named = _named(folder)
    if named is not None:
        return named, ()
    classes = 1 + max(int(_mask(mask, None).max(initial=0)) for _, mask in train)
    if not 2 <= classes <= _MOST:
        raise InputError(
            f"{folder}: expected masks whose numbers are the classes, from 0 on; the largest in "
            f"the training masks is {classes - 1}. ({VOID} is ignored: where masks are 0 and "
            f"{VOID}, write 0 and 1.) Names of the classes go into {_NAMES[0]}."
        )
    return tuple(map(str, range(classes))), (
        f"No names of classes ({_NAMES[0]}): {classes} classes, by the largest number in the "
        "training masks.",
    )


def _named(folder: Path) -> tuple[str, ...] | None:
    """Read the names of the classes, if there is a file of them."""
    named = next((folder / name for name in _NAMES if (folder / name).is_file()), None)
    if named is None:
        return None
    labels = tuple(read_label_names(str(named)))
    if len(labels) < 2:
        raise InputError(f"{named}: expected at least two classes, got {len(labels)}.")
    return labels


def _mask(path: Path, size: int | None) -> np.ndarray:
    with opened_picture(path) as file:
        if file.mode not in ("1", "L", "P", "I", "I;16"):
            raise InputError(
                f"{path}: expected a mask in grey or palette colours, whose numbers are the "
                f"classes, got colours ({file.mode})."
            )
        scale = _scale(file)
        values = np.asarray(_sized(file, size, exact=True)).astype(np.int64) // scale
    return np.where(values == VOID, IGNORED, values)


def _scale(file: Any) -> int:
    """Return by how much Pillow multiplies the numbers of a file that it has not loaded yet."""
    how = file.tile[0][3] if file.tile else ""
    return _SCALES.get(str(how if isinstance(how, str) else how[0])[:3], 1)


def _sized(picture: Any, size: int | None, *, exact: bool = False) -> Any:
    if size is None:
        return picture
    sampling = require("PIL.Image", "data", "Reading images").Resampling
    return picture.resize((size, size), sampling.NEAREST if exact else sampling.BILINEAR)
