"""Fine-tuned classifiers of images, of transformers or of timm, taken as they are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.errors import InputError
from calibrant.extras import require
from calibrant.inputs import read_json
from calibrant.tasks.encoders.finding import find_encoder
from calibrant.tasks.encoders.fine_tuned import (
    FineTuned,
    class_names,
    load_fine_tuned,
    write_fine_tuned,
)
from calibrant.tasks.encoders.foreign_models import loading, trusted
from calibrant.tasks.image.data import ImageData
from calibrant.tasks.image.framing import Framing, about_images
from calibrant.tasks.image.picture_files import in_channels
from calibrant.tasks.image.pictures import Pictures, given_pictures, load_pictures, table_examples
from calibrant.tasks.image.predictor import read_image
from calibrant.tasks.label_matching import match_classes, renumbered
from calibrant.tasks.reading.hub import asking_the_hub
from calibrant.tasks.reading.splits import pairs_of

if TYPE_CHECKING:
    from calibrant.experiments.recipe import Recipe

__all__ = ["load_wrapped", "prepare_wrapped", "wrap_examples", "write_wrapped"]

_ABOUT = "images.json"


def prepare_wrapped(recipe: Recipe, directory: str | None) -> ImageData:
    """Load a fine-tuned model, and the pictures of a recipe as its processor makes them."""
    own = FineTuned(load_fine_tuned(recipe.model, "image"), _load_processor(recipe.model))
    about = about_images(own.reader, _channels(own))
    framing = Framing.from_dict(about["framing"])
    pictures = load_pictures(recipe.data, directory, size=framing, trained=True)
    return wrap_pictures(pictures, own, recipe, about)


def wrap_examples(parts: Mapping[str, Any], own: FineTuned, recipe: Recipe) -> ImageData:
    """Return pairs of an image and its label, or tables, as data of a fine-tuned model."""
    about = about_images(own.reader, _channels(own))
    framing, channels = Framing.from_dict(about["framing"]), int(about["channels"])
    found: dict[str, Any] = {
        split: table_examples(part, split, framing)
        if hasattr(part, "column_names")
        else [(read_image(i, channels, framing), str(y)) for (i, y), _ in pairs_of(part, split)]
        for split, part in parts.items()
    }
    return wrap_pictures(given_pictures(found), own, recipe, about)


def wrap_pictures(
    pictures: Pictures, own: FineTuned, recipe: Recipe, about: dict[str, Any]
) -> ImageData:
    """Return pictures, made by the model's processor, as data of a fine-tuned model."""
    _check_channels(pictures, about["channels"])
    names = match_classes(own.classes, pictures.labels, recipe.labels)
    labels = tuple(dict.fromkeys(names))
    own = own.named(names)
    _try(own.model, about, recipe.model)
    numbers = renumbered(
        {s: part.tolist() for s, part in pictures.classes.items()}, pictures.labels, labels
    )
    classes = {split: np.array(part, np.int64) for split, part in numbers.items()}
    made = Pictures(pictures.name, pictures.images, classes, labels, pictures.notes)
    return ImageData(made, own=own, about=about)


def write_wrapped(data: ImageData, folder: Path) -> None:
    """Write the model, its processor, and what calibrant does to images."""
    assert data.own is not None
    write_fine_tuned(data.own.model, data.own.reader, folder)
    content = {"labels": list(data.labels), **data.about}
    text = json.dumps(content, indent=1, ensure_ascii=False)
    (folder / _ABOUT).write_text(text + "\n", encoding="utf-8")


def load_wrapped(folder: Path) -> tuple[Any, dict[str, Any]] | None:
    """Load what :func:`write_wrapped` wrote; None if the folder holds a network of calibrant."""
    if not (folder / _ABOUT).exists():
        return None
    about = read_json(folder / _ABOUT, "it cannot be read")
    model = load_fine_tuned(str(folder), "image")
    with loading(f"{folder / _ABOUT} is damaged"):
        Framing.from_dict(about["framing"])
        if list(class_names(model)) != about["labels"]:
            raise ValueError("its labels are not those of the model.")
    return model, about


def _load_processor(name: str) -> Any:
    transformers = require("transformers", "transformers", "A fine-tuned model")
    where = find_encoder(name)
    with loading(f"Cannot load the image processor of '{name}'"), asking_the_hub(where):
        return transformers.AutoImageProcessor.from_pretrained(where, trust_remote_code=trusted())


def _channels(own: FineTuned) -> int:
    config = own.model.config
    size = (getattr(config, "pretrained_cfg", None) or {}).get("input_size") or (3,)
    return int(getattr(config, "num_channels", None) or size[0])


def _check_channels(pictures: Pictures, channels: int) -> None:
    """Refuse coloured pictures for a model of grey ones; grey ones get what a model needs."""
    for images in pictures.images.values():
        found = in_channels(images[:1], channels).shape[-1]
        if found != channels:
            raise InputError(
                f"'{pictures.name}' has images of {found} channels, and the model takes "
                f"{channels}: give grey images to a model of one channel, coloured ones to a "
                "model of three."
            )


def _try(model: Any, about: dict[str, Any], name: str) -> None:
    """Run the model once: its processor may make images that it does not take."""
    import torch

    shape = (1, about["channels"], about["size"], about["size"])
    failure = f"'{name}' cannot run on the images that its processor makes"
    with loading(failure), torch.inference_mode():
        model(pixel_values=torch.zeros(shape))
