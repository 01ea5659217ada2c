"""Named entity recognition as a task."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.metrics import accumulate, accuracy, entity_f1
from calibrant.predictions import Predictions
from calibrant.tasks.encoders.task import EncoderTask
from calibrant.tasks.ner.corpora import CORPORA
from calibrant.tasks.task import AdaptedRun, EvaluationTarget, TrainedRun

if TYPE_CHECKING:
    from calibrant.experiments.recipe import Recipe
    from calibrant.tasks.encoders.fine_tuned import FineTuned
    from calibrant.tasks.ner.data import NerData, TrimmedData
    from calibrant.tasks.ner.labelled import TaggedSentences
    from calibrant.tasks.ner.predictor import EntityPredictor
    from calibrant.tasks.ner.subword_windows import Pieces
    from calibrant.tasks.scoring import Scorer

__all__ = ["Ner"]

# A model that always predicts O has an F1 of 0; one that guesses finds a few entities.
_ZERO_F1, _LOW_F1 = 0.05, 0.2


class Ner(EncoderTask):
    """A token classifier of transformers on a corpus in word pieces."""

    name = "ner"
    summary = "named entity recognition: words with BIO tags"
    known_data = f"{', '.join(CORPORA)}, {EncoderTask.embedded}"
    enough_to_copy = 5000
    kinds = ("classes", "tags")
    score_metric = "entity_f1"
    shown = ("entity_f1", "ece", "nll", "entity_ece", "apcr")
    hint = 'Try: calibrant predict {run} "Anna Lind lives in Paris ."'
    own_settings = (
        "max_length", "train_file", "dev_file", "test_file", "unseen_types", "scheme",
    )  # fmt: skip
    own_files = (
        "words.json", "entities.json", "raw_calibrator.json", "raw_valid.parquet", "raw_valid.npz",
    )  # fmt: skip
    own_calibrators = ("type-temperature", "position-temperature")
    wraps = "token"
    stacks = True

    def open(
        self, data: str, directory: str | Path | None = None, seed: int = 0, **options: Any
    ) -> NerData:
        """Open a corpus that :func:`~calibrant.tasks.ner.corpus.load_corpus` finds."""
        from calibrant.tasks.ner.corpus import load_corpus
        from calibrant.tasks.ner.data import encode_corpus

        return encode_corpus(load_corpus(data, directory, seed), **options)

    def tiny(self, seed: int = 0, **options: Any) -> NerData:
        """Open 60 + 20 + 20 + 20 sentences of the generated corpus."""
        from calibrant.tasks.language.synthetic import generate_splits
        from calibrant.tasks.ner.corpus import NerCorpus
        from calibrant.tasks.ner.data import encode_corpus

        parts = generate_splits(seed, train=60, dev=20, test=20, ood=20)
        train, dev, test, ood = parts.values()
        return encode_corpus(NerCorpus(self.embedded, train, dev, test, ood=ood), **options)

    def check(self, recipe: Recipe, directory: str | None = None) -> None:
        """Check that corpus, encoder and shift exist, as far as names tell."""
        from calibrant.inputs import check_file
        from calibrant.tasks.encoders.finding import find_encoder
        from calibrant.tasks.ner.corpus import find_corpus
        from calibrant.tasks.ner.shift import check_shift

        for path in recipe.files.values():
            check_file(Path(path))
        if not recipe.files:
            find_corpus(recipe.data, directory)
        find_encoder(recipe.model)
        for name in recipe.shift:
            check_shift(name, directory)

    def prepare(self, recipe: Recipe, directory: str | None = None) -> NerData:
        """Load the corpus of a recipe and cut it into the pieces of its encoder."""
        from calibrant.tasks.ner.data import prepare

        return prepare(recipe, directory)

    def shifted(self, recipe: Recipe, data: NerData, directory: str | None) -> Mapping[str, Pieces]:
        """Return the test split corrupted, and the test splits of other corpora."""
        from calibrant.tasks.ner.shift import shifted_tests

        return shifted_tests(recipe, data, directory)

    def wrap(self, parts: Mapping[str, Any], own: FineTuned, recipe: Recipe) -> NerData:
        """Return pairs of words and tags as data of a fine-tuned model."""
        from calibrant.tasks.ner.corpus import given_corpus
        from calibrant.tasks.ner.data import wrap_corpus

        return wrap_corpus(given_corpus(parts), own, recipe)

    def examples(self, target: EvaluationTarget) -> TaggedSentences:
        """Load a run's model and labelled sentences."""
        from calibrant.tasks.ner.labelled import TaggedSentences

        return TaggedSentences(target)

    def score(self, predictions: Predictions) -> float:
        """Compute the F1 of entities."""
        return float(entity_f1(predictions))

    def nothing_learned(self, test: Predictions) -> str | None:
        """Describe a model no better than one that says O everywhere."""
        f1, most = self.score(test), np.bincount(test.labels).max() / len(test)
        better = float(accuracy(accumulate(test))) > most
        if f1 >= _LOW_F1 or (f1 >= _ZERO_F1 and better):
            return None
        return f"F1 {f1:.3f} on the test split, where O for every word would be right in {most:.1%}"

    def finish(self, trained: TrainedRun) -> dict[str, Any]:
        """Write what predicting from raw text needs."""

        from calibrant.tasks.ner.finished_run import finish_raw_text

        return {"raw_text": finish_raw_text(trained)}

    def finish_adapted(self, adapted: AdaptedRun) -> dict[str, Any]:
        """Also correct the confidences of entities."""
        from calibrant.tasks.ner.adapted_entities import adapt_entities

        return adapt_entities(adapted)

    def stacked(self, recipe: Recipe, data: NerData, directory: str | None) -> TrimmedData:
        """Return the data with only the word pieces that occur."""
        from calibrant.tasks.ner.data import TrimmedData

        return TrimmedData(self, recipe, data, directory)

    def predictor(self, folder: Path, recipe: Mapping[str, Any], device: str) -> EntityPredictor:
        """Return the predictor of entities in raw text."""
        from calibrant.tasks.ner.finished_run import load_predictor

        return load_predictor(folder, recipe, device)

    def exported(
        self, folder: Path, labels: tuple[str, ...], settings: Mapping[str, Any], scorer: Scorer
    ) -> EntityPredictor:
        """Return the predictor of an export."""
        from calibrant.tasks.ner.finished_run import load_exported

        return load_exported(folder, labels, settings, scorer)
