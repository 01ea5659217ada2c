"""Text classification as a task."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from calibrant.corruptions import TEXT, known_corruption
from calibrant.tasks.encoders.task import EncoderTask
from calibrant.tasks.task import EvaluationTarget

if TYPE_CHECKING:
    from calibrant.experiments.recipe import Recipe
    from calibrant.tasks.encoders.fine_tuned import FineTuned
    from calibrant.tasks.scoring import Scorer
    from calibrant.tasks.text.data import LabelledTexts, TextData
    from calibrant.tasks.text.encoded_texts import EncodedTexts
    from calibrant.tasks.text.predictor import TextPredictor

__all__ = ["Text"]


class Text(EncoderTask):
    """A sequence classifier of transformers on a corpus of texts."""

    name = "text"
    summary = "text classification: one class for each text"
    known_data = f"20newsgroups, clinc150, {EncoderTask.embedded}"
    hint = "Try: calibrant predict {run} texts.txt -o out.jsonl"
    defaults: ClassVar[Mapping[str, Any]] = {
        "data": "synthetic",
        "learning_rate": 1e-4,
        "max_length": 256,
    }
    own_settings = ("max_length",)
    wraps = "sequence"

    def open(
        self, data: str, directory: str | Path | None = None, seed: int = 0, **options: Any
    ) -> TextData:
        """Open a corpus that :func:`~calibrant.tasks.text.corpus.load_texts` finds."""
        from calibrant.tasks.text.corpus import load_texts
        from calibrant.tasks.text.data import encode_corpus

        return encode_corpus(load_texts(data, directory, seed), **options)

    def tiny(self, seed: int = 0, **options: Any) -> TextData:
        """Open a few dozen sentences of the generated corpus."""
        from calibrant.tasks.text.corpus import generated_texts
        from calibrant.tasks.text.data import encode_corpus

        return encode_corpus(generated_texts(seed, train=80, dev=20, test=20, ood=20), **options)

    def check(self, recipe: Recipe, directory: str | None = None) -> None:
        """Check that corpus, encoder and corruptions exist, as far as names tell."""
        from calibrant.tasks.encoders.finding import find_encoder
        from calibrant.tasks.text.corpus import find_texts

        find_texts(recipe.data, directory)
        find_encoder(recipe.model)
        for name in recipe.shift:
            known_corruption(name, TEXT, of="texts")

    def prepare(self, recipe: Recipe, directory: str | None = None) -> TextData:
        """Load the corpus of a recipe and cut it into the pieces of its encoder."""
        from calibrant.tasks.text.data import prepare

        return prepare(recipe, directory)

    def shifted(
        self,
        recipe: Recipe,
        data: TextData,
        directory: str | None,  # noqa: ARG002
    ) -> Mapping[str, EncodedTexts]:
        """Return the test split corrupted."""
        from calibrant.tasks.text.data import shifted_tests

        return shifted_tests(recipe.shift, data)

    def wrap(self, parts: Mapping[str, Any], own: FineTuned, recipe: Recipe) -> TextData:
        """Return pairs of a text and its label as data of a fine-tuned model."""
        from calibrant.tasks.text.corpus import given_texts
        from calibrant.tasks.text.data import wrap_corpus

        return wrap_corpus(given_texts(parts), own, recipe)

    def examples(self, target: EvaluationTarget) -> LabelledTexts:
        """Load a run's model and labelled texts."""
        from calibrant.tasks.text.data import LabelledTexts

        return LabelledTexts(target)

    def predictor(self, folder: Path, recipe: Mapping[str, Any], device: str) -> TextPredictor:
        """Return the predictor of classes of texts."""
        from calibrant.tasks.text.predictor import load_predictor

        return load_predictor(folder, recipe, device)

    def exported(
        self, folder: Path, labels: tuple[str, ...], settings: Mapping[str, Any], scorer: Scorer
    ) -> TextPredictor:
        """Return the predictor of an export."""
        from calibrant.tasks.text.predictor import load_exported

        return load_exported(folder, labels, settings, scorer)
