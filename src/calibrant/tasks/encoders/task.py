"""What tasks on texts share: an encoder of transformers with a head, or a fine-tuned classifier."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from calibrant.corruptions import TEXT, TEXT_COPIES
from calibrant.tasks.encoders import ENCODER_NAMES
from calibrant.tasks.task import Task

if TYPE_CHECKING:
    from torch import nn

    from calibrant.experiments.recipe import Recipe

__all__ = ["EncoderTask"]


class EncoderTask(Task):
    """A classifier of tokens or of sequences, as ``wraps`` says, on a corpus in word pieces."""

    embedded = "synthetic"
    known_models = ENCODER_NAMES
    corruptions = TEXT
    default_copies = TEXT_COPIES
    engines = ("lean", "trainer", "wrapped")
    pretrained = True

    def build_model(self, recipe: Recipe, data: Any) -> nn.Module:
        """Build a fresh copy of the encoder with a head drawn from the recipe's seed."""
        from calibrant.tasks.encoders.encoded_data import check_encoder

        if data.own is not None:
            check_encoder(data.own, recipe.max_length, 0)
            return cast("nn.Module", data.own)
        model = data.build_model(recipe.seed, depth=recipe.head_depth, **_head(recipe))
        check_encoder(model, recipe.max_length, recipe.head_depth)
        return cast("nn.Module", model)

    def write_model(self, recipe: Recipe, data: Any, model: Any, folder: Path) -> None:
        """Write a folder that plain transformers loads."""
        from calibrant.tasks.encoders.fine_tuned import write_fine_tuned
        from calibrant.tasks.encoders.model_folder import write_model

        if data.own is not None:
            write_fine_tuned(model, data.tokenizer, folder)
            return
        about = {"depth": recipe.head_depth, "unit": self.wraps, **_head(recipe)}
        write_model(model, data.tokenizer, folder, **about)


def _head(recipe: Recipe) -> dict[str, Any]:
    return {"width": recipe.head_width, "activation": recipe.head_activation}
