"""Named entity recognition as a task to be trained."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from calibrant.experiments.ner_data import TINY, Prepared, build_model, prepare
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.shift import check_shift, shifted_tests
from calibrant.inputs import check_file
from calibrant.prediction.model_folder import write_model
from calibrant.tasks.encoders.finding import find_encoder
from calibrant.tasks.ner.corpus import find_corpus
from calibrant.tasks.ner.subword_windows import Pieces

__all__ = ["Ner"]


class Ner:
    """A token classifier of transformers on a corpus in word pieces."""

    def check(self, recipe: Recipe, directory: str | None = None) -> None:
        """Corpus, encoder and shift are there, as far as names tell."""
        for path in recipe.files.values():
            check_file(Path(path))
        if not recipe.files:
            find_corpus(recipe.data, directory)
        if recipe.model != TINY:
            find_encoder(recipe.model)
        for name in recipe.shift:
            check_shift(name, directory)

    def prepare(self, recipe: Recipe, directory: str | None = None) -> Prepared:
        """See :func:`~calibrant.experiments.ner_data.prepare`."""
        return prepare(recipe, directory)

    def build_model(self, recipe: Recipe, data: Prepared) -> nn.Module:
        """See :func:`~calibrant.experiments.ner_data.build_model`."""
        return build_model(recipe, data)

    def write_model(self, recipe: Recipe, data: Prepared, model: Any, folder: Path) -> None:
        """See :func:`~calibrant.prediction.model_folder.write_model`."""
        write_model(
            model,
            data.tokenizer,
            folder,
            width=recipe.head_width,
            depth=recipe.head_depth,
            activation=recipe.head_activation,
        )

    def shifted(
        self, recipe: Recipe, data: Prepared, directory: str | None
    ) -> Mapping[str, Pieces]:
        """See :func:`~calibrant.experiments.shift.shifted_tests`."""
        return shifted_tests(recipe, data, directory)
