"""From texts to classes with calibrated confidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.calibrators import Calibrator
from calibrant.errors import InputError
from calibrant.inputs import shortened
from calibrant.metrics import Confidences
from calibrant.predictions import Predictions
from calibrant.tasks.class_predictor import ClassPredictor
from calibrant.tasks.encoders.pieces import PieceTokenizer
from calibrant.tasks.evidence import read_calibration
from calibrant.tasks.run_files import check_labels, read_labels, read_max_length
from calibrant.tasks.scoring import Scored, Scorer, TorchScorer
from calibrant.tasks.text.encoded_texts import EncodedTexts, encode_texts, score_texts

__all__ = ["TextPredictor", "load_exported", "load_predictor"]


class TextPredictor(ClassPredictor):
    """Predicts the class of each text with a sequence classifier."""

    def __init__(
        self,
        scorer: Scorer,
        tokenizer: PieceTokenizer,
        labels: Sequence[str],
        calibrator: Calibrator,
        evidence: Confidences,
        max_length: int = 256,
    ) -> None:
        super().__init__(scorer, labels, calibrator, evidence)
        self.tokenizer, self.max_length = tokenizer, max_length

    def scored(self, inputs: Sequence[Any]) -> Scored:
        """Return the raw logits of some texts, (n, classes), and signals."""
        for text in inputs:
            if not isinstance(text, str):
                raise InputError(f"A text is expected, got {shortened(repr(text))}.")
        encoded = encode_texts(inputs, [0] * len(inputs), self.tokenizer, self.max_length)
        return score_texts(self.scorer, encoded, self.tokenizer.pad_token_id)

    def is_empty(self, given: str) -> bool:
        """Return whether a text has no visible character: spaces and marks of no width alone."""
        return not any(c.isprintable() and not c.isspace() for c in given)

    def predict_part(self, part: EncodedTexts, scorer: Scorer) -> Predictions:
        """Predict the encoded texts of a split, raw, with a scorer."""
        found = score_texts(scorer, part, self.tokenizer.pad_token_id)
        return Predictions.from_logits(
            found.logits, part.labels, label_names=self.labels, signals=found.signals
        )

    def example(self, size: int = 2) -> dict[str, tuple[np.ndarray, tuple[int, ...]]]:
        """Return word pieces, some of them padding."""
        return self.tokenizer.example(size)

    def settings(self) -> dict[str, Any]:
        """Return the longest text, and the special pieces of the tokenizer."""
        return {"max_length": self.max_length, "special": self.tokenizer.special()}

    def write_parts(self, folder: Path) -> None:
        """Write labels, calibrator, evidence and tokenizer."""
        super().write_parts(folder)
        self.tokenizer.write(folder)


def load_exported(
    folder: Path, labels: tuple[str, ...], settings: Mapping[str, Any], scorer: Scorer
) -> TextPredictor:
    """Load an export; ``settings`` are those of :meth:`TextPredictor.settings`."""
    tokenizer = PieceTokenizer.read(folder, settings["special"])
    return TextPredictor(
        scorer, tokenizer, labels, *read_calibration(folder, labels), int(settings["max_length"])
    )


def load_predictor(folder: Path, recipe: Mapping[str, Any], device: str) -> TextPredictor:
    """Load the model and the calibrator of the finished run in ``folder``."""
    from calibrant.tasks.encoders.model_folder import load_model
    from calibrant.tasks.feature_signals import with_saved_signals

    labels, length = read_labels(folder), read_max_length(folder, recipe)
    model, tokenizer = load_model(folder / "model", unit="sequence")
    check_labels(folder, labels, model)
    scorer = TorchScorer(with_saved_signals(model, folder).to(device), device)
    return TextPredictor(
        scorer, PieceTokenizer.of(tokenizer), labels, *read_calibration(folder, labels), length
    )
