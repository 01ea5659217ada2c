"""Hugging Face pipelines with honest scores: a fitted calibrator as their last stage."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.arguments import check_kind
from calibrant.calibrators.backend import log_probabilities
from calibrant.calibrators.base import Calibrator
from calibrant.errors import InputError
from calibrant.predictions import Predictions

__all__ = ["calibrated"]

# Pipelines that turn logits into scores by a softmax, by class: a pipeline keeps the name that it
# was created with, which may be an alias ("ner", "sentiment-analysis") or none.
_TASKS = {
    "TokenClassificationPipeline": "token-classification",
    "TextClassificationPipeline": "text-classification",
    "ImageClassificationPipeline": "image-classification",
}


def calibrated(pipeline: Any, calibrator: Calibrator) -> Any:
    """Return a pipeline like ``pipeline`` whose scores are calibrated by the fitted calibrator.

    It supports token classification (with every ``aggregation_strategy``), text and image
    classification; options, batching, devices and the format of the output are the pipeline's own.
    The given pipeline and its model do not change, and the weights are shared.

    Fit the calibrator on logits of the same model, at the tokens that will be shown: the first word
    pieces for ``aggregation_strategy="first"``. The strategies combine several pieces of a
    word after calibration. A calibrator that reads ``position`` gets the number of the word in
    its text.

    .. code-block:: python

        calibrator = calibrant.load_calibrator("calibrator.json")
        ner = calibrated(transformers.pipeline("ner", model="my-model"), calibrator)
        ner("Ada Lovelace lived in London.", aggregation_strategy="first")
    """
    _check(pipeline, calibrator)
    own = type(pipeline)
    stage: Any = object.__new__(type(f"Calibrated{own.__name__}", (_CalibratedStage, own), {}))
    stage.__dict__.update(vars(pipeline), calibrator=calibrator)  # A shallow copy.
    return stage


class _CalibratedStage:
    """A mixin for the class of the pipeline that calibrates its logits."""

    calibrator: Calibrator

    def _sanitize_parameters(self, **parameters: Any) -> Any:
        _check_function(parameters.get("function_to_apply"))
        return super()._sanitize_parameters(**parameters)  # type: ignore[misc]

    def _forward(self, model_inputs: Any, **parameters: Any) -> Any:
        groups = self._groups(model_inputs)
        outputs = super()._forward(model_inputs, **parameters)  # type: ignore[misc]
        logits = self.calibrator.transform_scores(outputs["logits"], "logits", groups)
        if self.calibrator.kind_of("logits") == "probabilities":
            logits = log_probabilities(logits)  # The pipeline will apply its softmax to them.
        outputs["logits"] = logits
        return outputs

    def _groups(self, model_inputs: Any) -> dict[str, np.ndarray]:
        if not self.calibrator.needs_groups:
            return {}
        return {"position": _word_positions(self, model_inputs)}


def _word_positions(stage: Any, model_inputs: Any) -> np.ndarray:
    """Return the number of each token's word in its text, (texts, tokens); special tokens: 0."""
    words = model_inputs.get("word_ids")
    if words is not None:  # The text came as words.
        rows = words if isinstance(words[0], list) else [words]
        longest = max(len(row) for row in rows)
        return np.array([[w or 0 for w in row] + [0] * (longest - len(row)) for row in rows])
    texts, positions = model_inputs["sentence"], []
    texts = texts if isinstance(texts, list) else [texts]
    for offsets, text in zip(np.asarray(model_inputs["offset_mapping"]), texts, strict=True):
        if text is not None:  # Further pieces of a long text come without it.
            splitter = stage.tokenizer.backend_tokenizer.pre_tokenizer
            stage.word_starts = [start for _, (start, _) in splitter.pre_tokenize_str(text)]
        number = np.searchsorted(stage.word_starts, offsets[:, 0], side="right") - 1
        positions.append(np.where(offsets[:, 1] > offsets[:, 0], number, 0))
    return np.stack(positions)


def _check(pipeline: Any, calibrator: Calibrator) -> None:
    kinds = [kind.__name__ for kind in type(pipeline).__mro__]
    task = next((_TASKS[kind] for kind in kinds if kind in _TASKS), None)
    if task is None:
        raise InputError(
            f"calibrated takes pipelines for {', '.join(_TASKS.values())}; got "
            f"{getattr(pipeline, 'task', None) or kinds[0]}."
        )
    check_kind("calibrated", calibrator, Calibrator)
    config = pipeline.model.config
    if config.num_labels < 2 or config.problem_type in ("multi_label_classification", "regression"):
        raise InputError(
            "calibrated takes models with one softmax over at least 2 classes; this one has "
            f"{config.num_labels} output(s) and problem_type {config.problem_type!r}."
        )
    _check_function(pipeline._postprocess_params.get("function_to_apply"))
    read = (*calibrator.needs_groups, *calibrator.signals_)
    if set(read) - {"position"} or (read and task != "token-classification"):
        raise InputError(
            f"This {calibrator.name} calibrator reads {', '.join(read)}, which a {task} pipeline "
            "does not know."
        )
    names = [str(config.id2label[k]) for k in range(config.num_labels)]
    named = names != [f"LABEL_{k}" for k in range(config.num_labels)]  # Else they are generated.
    nothing = Predictions.from_logits(
        np.zeros((0, len(names))),
        np.zeros(0, np.int64),
        label_names=names if named else None,
        groups={name: np.zeros(0, np.int64) for name in calibrator.needs_groups},
    )
    calibrator.transform(nothing)  # Refuses other classes, other names and unfitted calibrators.


def _check_function(chosen: Any) -> None:
    name = getattr(chosen, "value", chosen)
    if name not in (None, "default", "softmax"):
        raise InputError(
            f"A calibrated pipeline gives probabilities; function_to_apply={name!r} does not fit."
        )
