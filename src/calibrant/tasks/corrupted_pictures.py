"""Copy images with corruptions: an npz file, or a folder with everything in it."""

from __future__ import annotations

import shutil
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import numpy as np

from calibrant.corruptions import IMAGE
from calibrant.corruptions.names import check_strength
from calibrant.errors import InputError, unknown_name
from calibrant.extras import require, usable_device
from calibrant.files.npz import opened_npz, read_array
from calibrant.outputs import new_file, new_folder
from calibrant.tasks.image.picture_files import SUFFIXES, open_image
from calibrant.tasks.reading.splits import split_files, split_of
from calibrant.tasks.segmentation.mask_folder import listed_names

__all__ = ["corrupt_pictures"]

_PIECE = 1 << 20
_TOGETHER = 256  # Images that are corrupted at a time.
Change = Callable[[np.ndarray, int], np.ndarray]


def corrupt_pictures(
    source: str | Path,
    target: str | Path,
    kind: str,
    strength: int,
    *,
    seed: int = 0,
    split: str | None = None,
    device: str = "cpu",
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Write a copy of ``source`` with corrupted images; return the number of images.

    An npz (see :func:`~calibrant.tasks.image.pictures.load_pictures`) keeps its labels; with
    ``split`` only the images of that split are changed. A folder keeps its folders; its images
    become PNG, which loses nothing more; masks and files that are not images are copied.
    Images are numbered in the order of an array, of the list of a split, or of their paths within a
    split.
    """
    source, target = Path(source), Path(target)
    if kind not in IMAGE:
        raise unknown_name("image corruption", kind, IMAGE)
    check_strength(strength)
    require("torch", "torch", "Corrupting images")
    usable_device(device)
    from calibrant.corruptions.image import corrupt_bytes

    def change(images: np.ndarray, first: int) -> np.ndarray:
        changed = corrupt_bytes(images, kind, strength, seed=seed, first=first, device=device)
        if progress is not None:
            progress(len(images))
        return changed

    if source.is_dir():
        if split is not None:
            raise InputError(f"{source} is a folder: name the folder of the split in it.")
        return _folder(source, target, change)
    if source.suffix.lower() != ".npz" or not source.is_file():
        raise InputError(f"{source} is neither an npz nor a folder of images.")
    with new_file(target, overwrite=overwrite, inputs=[source]) as unfinished:
        return _npz(source, unfinished, change, split)


def _npz(source: Path, target: Path, change: Change, split: str | None) -> int:
    """Corrupt array by array, each packed as it was; copy arrays that are no images."""
    count = 0
    with zipfile.ZipFile(target, "w") as archive:
        for member, parts in groupby(_members(source, split), itemgetter(0)):
            place = zipfile.ZipInfo(member.filename, member.date_time)
            place.compress_type = member.compress_type
            with archive.open(place, "w", force_zip64=True) as file:
                for _, part in parts:
                    if isinstance(part, bytes):
                        file.write(part)
                    else:
                        changed = _array(part, change, f"{source}, {member.filename}")
                        np.lib.format.write_array(file, changed, allow_pickle=False)
                        count += len(part)
    if not count:
        which = "images" if split is None else f"images of the split '{split}'"
        raise InputError(f"{source} has no {which}: expected arrays such as 'test_images'.")
    return count


def _members(
    source: Path, split: str | None
) -> Iterator[tuple[zipfile.ZipInfo, np.ndarray | bytes]]:
    """Yield each member with its images, or with the pieces of its bytes."""
    with opened_npz(source) as archive:
        for member in archive.infolist():
            key = member.filename.removesuffix(".npy")
            if _holds_images(key, split):
                yield member, read_array(archive, key)
                continue
            yield member, b""
            with archive.open(member) as file:
                while piece := file.read(_PIECE):
                    yield member, piece


def _holds_images(key: str, split: str | None) -> bool:
    if not key.endswith("images"):
        return False
    own = split_of(key.removesuffix("images").removesuffix("_"))
    return split is None or own == (split_of(split) or split)


def _array(images: np.ndarray, change: Change, where: str) -> np.ndarray:
    if images.ndim not in (3, 4) or images.dtype != np.uint8:
        raise InputError(
            f"{where}: expected bytes (n, height, width[, channels]), got {images.dtype} "
            f"{images.shape}."
        )
    whole = images if images.ndim == 4 else images[..., None]
    parts = [
        change(whole[start : start + _TOGETHER], start) for start in range(0, len(whole), _TOGETHER)
    ]
    return np.concatenate([whole[:0], *parts]).reshape(images.shape)


def _folder(source: Path, target: Path, change: Change) -> int:
    pil = require("PIL.Image", "data", "Writing images")
    images, others = _content(source)
    _check_apart(source, target)
    with new_folder(target) as unfinished:
        for path in others:
            place = unfinished / path.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)
        for path, number in zip(images, _numbers(source, images), strict=True):
            image = change(open_image(path)[None], number)[0]
            place = (unfinished / path.relative_to(source)).with_suffix(".png")
            place.parent.mkdir(parents=True, exist_ok=True)
            if place.exists():
                raise InputError(f"{path}: another image would be called {place.name} too.")
            pil.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(place)
    return len(images)


def _numbers(folder: Path, images: list[Path]) -> Iterator[int]:
    """Return the number of each image within its split, in the order of the task."""
    lists = split_files(folder, (".txt",)) if (folder / "images").is_dir() else {}
    listed: dict[str, int] = {}
    for split in ("train", "dev", "ood", "test"):  # An image on two lists belongs to the last.
        if split in lists:
            listed.update({name: n for n, name in enumerate(listed_names(lists[split]))})
    seen: Counter[str] = Counter()
    for path in images:
        split = split_of(path.relative_to(folder).parts[0]) or ""
        yield listed.get(path.stem, seen[split])
        seen[split] += 1


def _content(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the images to change, in the order of the task, and what goes with masks."""
    files = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]
    images = [path for path in files if path.suffix.lower() in SUFFIXES]
    if any(map(_is_masked, images)):
        images = sorted(filter(_is_masked, images), key=lambda path: (path.parent, path.stem))
        others = sorted(set(files) - set(images))
    else:
        others = []
    if not images:
        raise InputError(f"{folder} holds no image: expected {', '.join(SUFFIXES)}.")
    return images, others


def _is_masked(path: Path) -> bool:
    """Return whether an image has masks."""
    return path.parent.name == "images" and (path.parent.parent / "masks").is_dir()


def _check_apart(source: Path, target: Path) -> None:
    whole, inputs = target.resolve(), source.resolve()
    if whole == inputs or inputs in whole.parents or whole in inputs.parents:
        raise InputError(f"{target} is the folder that is read, contains it, or is inside it.")
