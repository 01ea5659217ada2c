"""The files that predicting entities needs: written after training, loaded by the predictor.

Calibrators, confidences of entities and guarantees that were learned on the words of a corpus hold
for such words. So they are learned a second time, on the validation split as raw text: detokenised,
and cut by the splitter of the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calibrant.calibrators import load_calibrator
from calibrant.comparison.span_calibrator import entity_words, fit_entities
from calibrant.comparison.under_shift import predicted_copies
from calibrant.errors import InputError
from calibrant.inputs import read_json
from calibrant.metrics import entity_f1
from calibrant.predictions import Predictions
from calibrant.tasks.encoders.pieces import PieceTokenizer
from calibrant.tasks.evidence import EVIDENCE, read_evidence
from calibrant.tasks.language.splitter_choice import Cutting
from calibrant.tasks.ner.cut_text import FIRST_CUTTING
from calibrant.tasks.ner.entity_confidence import (
    CALIBRATORS,
    ENTITIES,
    WORDS,
    EntityConfidence,
    read_entities,
    write_words,
)
from calibrant.tasks.ner.predictor import EntityPredictor
from calibrant.tasks.run_files import (
    check_classes,
    check_labels,
    find_file,
    read_labels,
    read_max_length,
)
from calibrant.tasks.scoring import Scorer, TorchScorer
from calibrant.tasks.task import TrainedRun

__all__ = [
    "CORPUS", "RAW", "entity_judge", "finish_raw_text", "load_exported", "load_predictor",
    "read_cutting", "read_judges",
]  # fmt: skip

CORPUS, RAW = "corpus", "raw"  # The words of the corpus, and those that raw text is cut into.
_VALID = {CORPUS: "valid", RAW: "raw_valid"}
_TARGET = 0.1  # The risk that corpus' words and raw text are compared at.


def finish_raw_text(trained: TrainedRun) -> dict[str, Any]:
    """Write the files for predicting raw text; return how raw text differs from the corpus."""
    run, data, calibrator = trained.run, trained.data, trained.calibrator
    made = trained.predictions
    judges = {CORPUS: EntityConfidence.fit(calibrator, made["valid"], trained.entities)}
    known = {CORPUS: _numbers(judges[CORPUS], made["test"])}
    (run.path / CALIBRATORS[RAW]).unlink(missing_ok=True)  # Of a run that was cut short.
    parts = data.raw_pieces()
    if parts:
        raw = {split: data.predict(trained.model, part) for split, part in parts.items()}
        raw["valid"].write(run.path / f"raw_valid.{trained.suffix}", overwrite=True)
        copies = predicted_copies(
            lambda part: data.predict(trained.model, part), data.copies(trained.copies, raw=True)
        )
        calibrator = trained.choose(raw["valid"], copies)
        calibrator.save(run.path / CALIBRATORS[RAW], overwrite=True)
        best = fit_entities(calibrator, raw["valid"], copies)
        judges[RAW] = EntityConfidence.fit(calibrator, raw["valid"], best)
        known[RAW] = _numbers(judges[RAW], raw["test"])
    write_words(run.path, judges, data.cutting)
    return {
        **data.cutting.to_dict(),
        "splitter": data.cutting.splitter.name,
        "calibrator": calibrator.name,
        "target_risk": _TARGET,
        "test": known,
    }


def _numbers(judged: EntityConfidence, test: Predictions) -> dict[str, float]:
    """Return F1, and the risk and share of the entities accepted at the target risk."""
    found = judged.span_calibrator().transform(entity_words(judged.calibrator, test))
    accepted = found.confidence >= judged.threshold(_TARGET).threshold
    wrong = (accepted & ~found.correct).sum()
    return {
        "entity_f1": float(entity_f1(test)),
        "accepted": float(accepted.mean()) if len(found) else 0.0,
        "risk": float(wrong / max(accepted.sum(), 1)),
    }


def load_predictor(folder: Path, recipe: Mapping[str, Any], device: str) -> EntityPredictor:
    """Load the model and the calibrators of the finished run in ``folder``."""
    from calibrant.tasks.encoders.model_folder import load_model
    from calibrant.tasks.feature_signals import with_saved_signals

    labels, length = read_labels(folder), read_max_length(folder, recipe)
    model, tokenizer = load_model(folder / "model")
    check_labels(folder, labels, model)
    scorer = TorchScorer(with_saved_signals(model, folder).to(device), device)
    return _predictor(folder, scorer, PieceTokenizer.of(tokenizer), labels, length)


def load_exported(
    folder: Path, labels: tuple[str, ...], settings: Mapping[str, Any], scorer: Scorer
) -> EntityPredictor:
    """Load an export; ``settings`` are those of :meth:`EntityPredictor.settings`."""
    tokenizer = PieceTokenizer.read(folder, settings["special"])
    return _predictor(folder, scorer, tokenizer, labels, int(settings["max_length"]))


def _predictor(
    folder: Path, scorer: Scorer, tokenizer: PieceTokenizer, labels: tuple[str, ...], length: int
) -> EntityPredictor:
    judges = read_judges(folder, labels)
    texts, cutting = judges.get(RAW, judges[CORPUS]), read_cutting(folder)
    return EntityPredictor(
        scorer, tokenizer, labels, texts, length, cutting=cutting, given=judges[CORPUS]
    )


def entity_judge(folder: Path, *, raw: bool) -> tuple[EntityConfidence, Predictions, str]:
    """Return what judges entities of raw text or of the corpus' words, its split and its words."""
    judges = read_judges(folder, read_labels(folder))
    words = RAW if raw and RAW in judges else CORPUS
    return judges[words], Predictions.read(_split(folder, _VALID[words])), words


def read_judges(folder: Path, labels: tuple[str, ...]) -> dict[str, EntityConfidence]:
    """Read the calibrators of entities; for earlier versions, learn them from predictions."""
    # The first version had one calibrator.
    calibrators = {
        CORPUS: load_calibrator(find_file(folder, "calibrator.json", "temperature.json"))
    }
    if (folder / CALIBRATORS[RAW]).exists():
        calibrators[RAW] = load_calibrator(folder / CALIBRATORS[RAW])
    for calibrator in calibrators.values():
        check_classes(folder, labels, "its calibrator", calibrator.n_classes_)
    if (folder / ENTITIES).exists():
        return read_entities(folder / ENTITIES, calibrators, read_evidence(folder / EVIDENCE))
    valid = {name: Predictions.read(_split(folder, _VALID[name])) for name in calibrators}
    for predictions in valid.values():
        check_classes(folder, labels, "its validation predictions", predictions.classes)
    return {name: EntityConfidence.fit(calibrators[name], valid[name]) for name in calibrators}


def _split(folder: Path, name: str) -> Path:
    return find_file(folder, f"{name}.parquet", f"{name}.npz")


def read_cutting(folder: Path) -> Cutting:
    """Read how a run cuts raw text; a run of an earlier version cuts as that version did."""
    path = folder / WORDS
    if not path.exists():
        return FIRST_CUTTING
    content = read_json(path, "it cannot be read")
    try:
        return Cutting.from_dict(content if isinstance(content, dict) else {})
    except (ValueError, TypeError) as error:
        raise InputError(f"{path} cannot be read: {error}.") from None
