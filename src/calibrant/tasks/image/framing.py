"""Scale and crop pictures to the images that a fine-tuned model expects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from calibrant.errors import InputError

__all__ = ["Framing", "about_images", "frame_of"]

_BILINEAR = 2  # Pillow's number, which is also the usual default of image processors.
_INTERPOLATIONS = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "box": 4, "hamming": 5}
_LARGE = 384  # From this size on, ConvNeXt's processor does not crop.


@dataclass(frozen=True)
class Framing:
    """Scales a picture to ``resize`` with Pillow's ``resample``, then crops ``crop`` at the centre.

    ``resize`` is (height, width), or the length of the shorter side; ``rounds`` chooses
    between two central pixels.
    """

    resize: tuple[int, int] | int | None = None
    resample: int = _BILINEAR
    crop: tuple[int, int] | None = None
    rounds: bool = False

    @property
    def size(self) -> tuple[int, int] | None:
        """Height and width of every image, if all have the same size."""
        return self.crop or (self.resize if isinstance(self.resize, tuple) else None)

    def __call__(self, picture: Any) -> Any:
        """Return a Pillow image as the model expects it."""
        if self.resize is not None:
            height, width = self._scaled(picture.height, picture.width)
            picture = picture.resize((width, height), resample=self.resample)
        if self.crop is None:
            return picture
        height, width = self.crop
        top, left = self._half(picture.height - height), self._half(picture.width - width)
        return picture.crop((left, top, left + width, top + height))

    def to_dict(self) -> dict[str, Any]:
        """Return the framing as data for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Framing:
        """Read what :meth:`to_dict` returned."""
        pairs: dict[str, Any] = {
            name: tuple(v) if isinstance(v, list) else v for name, v in content.items()
        }
        return cls(**pairs)

    def _scaled(self, height: int, width: int) -> tuple[int, int]:
        if isinstance(self.resize, tuple):
            return self.resize
        short, long = sorted((height, width))
        side: Any = self.resize
        other = int(side * long / short)
        return (side, other) if height <= width else (other, side)

    def _half(self, rest: int) -> int:
        return round(rest / 2) if self.rounds else rest // 2


def frame_of(about: Mapping[str, Any]) -> Framing | int:
    """Return the framing of a model's images, or the size to which they are scaled."""
    framing = about.get("framing")
    return int(about["size"]) if framing is None else Framing.from_dict(framing)


def about_images(processor: Any, channels: int) -> dict[str, Any]:
    """Return the steps of an image processor of transformers that calibrant repeats.

    They are tried on a picture of noise: a processor that does more is an error.
    """
    settings = processor.to_dict()
    timm = settings.get("data_config") or settings.get("pretrained_cfg")
    framing = _of_timm(timm) if timm else _of_processor(settings)
    size = framing.size
    if size is None or size[0] != size[1]:
        raise InputError(
            f"Wrapped models need square images of one size, but {type(processor).__name__} makes "
            f"{'several sizes' if size is None else f'{size[0]}×{size[1]}'}."
        )
    normal = _normal(dict(timm) if timm else settings, bool(timm), channels)
    about = {"channels": channels, "size": size[0], **normal}
    return {**about, "framing": _verified(framing, about, processor).to_dict()}


def _of_processor(settings: Mapping[str, Any]) -> Framing:
    resample = settings.get("resample")
    framing = Framing(resample=_BILINEAR if resample is None else int(resample))
    size, cut = _side(settings.get("size")), settings.get("crop_pct")
    if settings.get("do_resize") and size is not None:
        if isinstance(size, int) and cut is not None:  # ConvNeXt
            large = size >= _LARGE
            resize, crop = ((size, size), None) if large else (int(size / cut), (size, size))
            return replace(framing, resize=resize, crop=crop)
        framing = replace(framing, resize=size)
    if settings.get("do_center_crop"):
        side = _side(settings.get("crop_size")) or size
        framing = replace(framing, crop=(side, side) if isinstance(side, int) else side)
    return framing


def _side(size: Any) -> tuple[int, int] | int | None:
    """Read a size as processors write it."""
    if not isinstance(size, Mapping):
        return size if isinstance(size, int) else None
    if size.get("height") and size.get("width"):
        return int(size["height"]), int(size["width"])
    side = size.get("shortest_edge")
    return None if side is None else int(side)


def _of_timm(settings: Mapping[str, Any]) -> Framing:
    height, width = (int(side) for side in settings["input_size"][-2:])
    share = float(settings.get("crop_pct") or 0.875)
    squash = settings.get("crop_mode") == "squash"
    sides = int(height / share), int(width / share)
    return Framing(
        resize=sides if squash else min(sides),
        resample=_INTERPOLATIONS.get(str(settings.get("interpolation")), 3),
        crop=(height, width),
        rounds=True,
    )


def _normal(settings: Mapping[str, Any], timm: bool, channels: int) -> dict[str, list[float]]:
    """Return mean and deviation on the scale from 0 to 255."""
    scale = 1 / 255 if timm else float(settings.get("rescale_factor") or 1 / 255)
    if not timm and not settings.get("do_rescale", True):
        scale = 1.0
    plain = not timm and not settings.get("do_normalize", True)
    names = ("mean", "std") if timm else ("image_mean", "image_std")
    mean, deviation = (
        np.broadcast_to(np.asarray(value if plain else settings[name], float), channels) / scale
        for name, value in zip(names, (0.0, 1.0), strict=True)
    )
    return {"mean": mean.tolist(), "deviation": deviation.tolist()}


def _verified(framing: Framing, about: Mapping[str, Any], processor: Any) -> Framing:
    """Return the framing whose images equal the processor's to less than a grey level."""
    from PIL import Image

    size = int(about["size"])
    shape = (size + 37, size + 58, 3)  # An odd and an even side, not square.
    noise = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    picture = Image.fromarray(noise).convert("L" if about["channels"] == 1 else "RGB")
    made_by = processor(picture, return_tensors="pt")  # timm supports no other kind.
    wanted = made_by["pixel_values"].numpy().astype(np.float64)[0]
    for made in _variants(framing):
        pixels = np.asarray(made(picture), np.float64).reshape(size, size, -1)
        mean, deviation = (np.asarray(about[name]) for name in ("mean", "deviation"))
        found = ((pixels - mean) / deviation).transpose(2, 0, 1)
        if found.shape == wanted.shape:
            levels = np.abs(found - wanted) * deviation[:, None, None]
            if levels.mean() < 1:
                return made
    raise InputError(
        f"calibrant cannot repeat what {type(processor).__name__} does to images: calibrant only "
        "scales, crops the centre and normalises."
    )


def _variants(framing: Framing) -> Iterator[Framing]:
    yield framing
    yield replace(framing, rounds=not framing.rounds)
