"""Read Tiny-ImageNet-200 from its own folders: 200 classes of 500 images, 64 × 64 pixels.

``train/WNID/images/*.JPEG`` holds the training images of a class; ``val/images/`` holds the images
that ``val/val_annotations.txt`` labels; ``wnids.txt`` lists the classes and ``words.txt`` their
names. The images of its ``test/`` have no labels, so ``val`` is the test split here, and a tenth of
the training images of each class is the validation split.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from calibrant.errors import InputError
from calibrant.files.lines import numbered_lines
from calibrant.inputs import first_repeated
from calibrant.progress import Progress
from calibrant.tasks.image.framing import Framing
from calibrant.tasks.image.picture_arrays import Example
from calibrant.tasks.image.picture_files import SUFFIXES, open_image
from calibrant.tasks.reading.splits import carve

__all__ = ["TINY_IMAGENET", "is_tiny_imagenet", "read_tiny_imagenet"]

TINY_IMAGENET = "tiny-imagenet"
_CLASSES, _WORDS = "wnids.txt", "words.txt"
_ANNOTATIONS = Path("val", "val_annotations.txt")
Labelled = tuple[Path, str]


def is_tiny_imagenet(folder: Path) -> bool:
    """Return whether a folder has the layout of Tiny-ImageNet, with any number of classes."""
    return (folder / _CLASSES).is_file() and (folder / _ANNOTATIONS).is_file()


def read_tiny_imagenet(
    folder: Path, size: Framing | int | None = None, seed: int = 0
) -> dict[str, Sequence[Example]]:
    """Read all images with the names of their classes; ``seed`` draws the validation images."""
    names = _names(folder)
    kept: list[Labelled] = []
    held: list[Labelled] = []
    for number, (wnid, name) in enumerate(names.items()):
        files = _training_files(folder / "train" / wnid / "images")
        parts = carve([(path, name) for path in files], (seed, number), f"{folder}, class {wnid}")
        kept, held = kept + parts[0], held + parts[1]
    test = list(_test_files(folder, names))
    return {s: _opened(p, size) for s, p in (("train", kept), ("dev", held), ("test", test))}


def _names(folder: Path) -> dict[str, str]:
    """Return the name of each class: its first word, or its number where words are missing."""
    classes = [line.strip() for _, line in numbered_lines(folder / _CLASSES) if line.strip()]
    if (twice := first_repeated(classes)) is not None:
        raise InputError(f"{folder / _CLASSES} has '{twice}' twice.")
    words: dict[str, str] = {}
    if (folder / _WORDS).is_file():
        lines = (line.partition("\t") for _, line in numbered_lines(folder / _WORDS))
        words = {wnid: meaning.partition(",")[0].strip() for wnid, _, meaning in lines}
    names = {wnid: words.get(wnid) or wnid for wnid in classes}
    return names if first_repeated(list(names.values())) is None else {wnid: wnid for wnid in names}


def _training_files(folder: Path) -> list[Path]:
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    found = [path for path in files if path.suffix.lower() in SUFFIXES and path.name[0] != "."]
    if not found:
        raise InputError(f"{folder} holds no images, but {_CLASSES} lists this class.")
    return found


def _test_files(folder: Path, names: dict[str, str]) -> Iterator[Labelled]:
    """Yield the files that the annotations name: ``val_0.JPEG``, class, and a box, by tabs."""
    path = folder / _ANNOTATIONS
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        file, wnid = (*line.rstrip("\r\n").split("\t"), "")[:2]
        if wnid not in names:
            raise InputError(
                f"{path}, line {number}: expected a file and one of the {len(names)} classes of "
                f"{_CLASSES}, separated by a tab, got '{wnid}'."
            )
        yield folder / "val" / "images" / file, names[wnid]


def _opened(files: Sequence[Labelled], size: Framing | int | None) -> list[Example]:
    """Open images in threads: files of a few kilobytes mostly wait for the disk."""
    threads = min(8, os.cpu_count() or 1)
    with ThreadPoolExecutor(threads) as pool, Progress(len(files), "images") as progress:
        images = pool.map(partial(open_image, size=size), [path for path, _ in files])
        found = []
        for image, (_, name) in zip(images, files, strict=True):
            found.append((image, name))
            progress.advance()
        return found
