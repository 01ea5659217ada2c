"""What language models leave in jsonl files: samples of a harness, log-probabilities, words.

Each kind of record is turned into one of calibrant's own: ``logits`` and ``label``, or
``predicted``, ``confidence`` and ``label`` where the model names its confidence in words. ``note``
says in one sentence what the scores are.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.errors import InputError
from calibrant.files.format import Block, Layout, NewScores
from calibrant.files.jsonl import JsonlSource, record_shape
from calibrant.files.language_models.completions import is_completion, translate_completions
from calibrant.files.language_models.harness import RIGHT_CHOICES, is_harness, translate_harness
from calibrant.files.language_models.translated import Numbered, Translated
from calibrant.files.language_models.verbalised import is_verbalised, translate_verbalised
from calibrant.files.lines import json_records
from calibrant.files.pipeline_scores import (
    PipelineSource,
    TopPipelineSource,
    is_pipeline,
    is_top_pipeline,
)

__all__ = ["LanguageModelSource", "open_jsonl"]

_KINDS: tuple[tuple[Callable[[Mapping[str, Any]], bool], Callable[[Path], Translated]], ...] = (
    (is_harness, translate_harness),
    (is_completion, translate_completions),
    (is_verbalised, translate_verbalised),
)


def open_jsonl(path: Path) -> JsonlSource:
    """Open a jsonl file, by the translator of its first record if a model or pipeline wrote it."""
    _, first = next(json_records(path, lists=True), (0, {}))
    if is_pipeline(first):
        return PipelineSource(path)
    if is_top_pipeline(path, first):
        return TopPipelineSource(path)
    for recognises, translate in _KINDS:
        if isinstance(first, dict) and recognises(first):
            return LanguageModelSource(path, translate)
    return JsonlSource(path)


class LanguageModelSource(JsonlSource):
    """The records of a language model, turned into predictions when the file is opened."""

    def __init__(self, path: Path, translate: Callable[[Path], Translated]) -> None:
        found = translate(path)
        self.path, self.note, self._translated = path, found.note, found.records
        self._first = found.records[0][1]
        self.columns = {key: record_shape(value) for key, value in self._first.items()}

    def records(self) -> Iterator[Numbered]:
        """Yield line and translated record of each example."""
        return iter(self._translated)

    def block(
        self, records: Sequence[dict[str, Any]], lines: Sequence[int], layout: Layout
    ) -> Block:
        """Return some records as columns.

        Where several choices are right, the one that these scores choose counts as the label.
        """
        if RIGHT_CHOICES in self._first:
            records = [
                {**r, "label": _chosen(r[layout.scores[0]], r[RIGHT_CHOICES])} for r in records
            ]
        return super().block(records, lines, layout)

    def arrow_blocks(self, rows: int, layout: Layout) -> Generator[Block, None, int | None]:
        """Read nothing by pyarrow: the file's own columns are not the predictions."""
        del rows, layout
        yield from ()
        return 0

    def rewrite(self, target: Path, new: NewScores) -> None:
        """Refuse: scores of this kind have no place in the file."""
        del target, new
        raise InputError(
            f"{self.path}: calibrated scores cannot be written back into a language model's "
            'records; calibrant.read(path).write("predictions.parquet") makes a file that can.'
        )


def _chosen(scores: Sequence[float], right: Sequence[int]) -> int:
    top = int(np.argmax(scores))
    return top if top in right else right[0]
