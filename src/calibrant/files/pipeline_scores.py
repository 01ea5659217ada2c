"""What a Hugging Face ``pipeline(…, top_k=None)`` returns, in a jsonl file.

The scores of a text are a list of ``{"label": …, "score": …}``, the largest first. A line is such a
list, or an object that has one beside the true label. Labels of lists are in a second file, one on
each line: ``test_labels.txt`` beside ``test_scores.jsonl``, or ``labels.txt``.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

from calibrant.errors import InputError
from calibrant.files.format import Block, Layout, NewScores
from calibrant.files.jsonl import JsonlSource
from calibrant.files.lines import json_records, numbered_lines, text_file
from calibrant.files.npy import partner_names

__all__ = ["PipelineSource", "is_pipeline"]

_SCORES = "probabilities"


def is_pipeline(line: Any) -> bool:
    """Return whether a line is the scores of a pipeline, or an object that has them.

    >>> is_pipeline([{"label": "pos", "score": 0.9}, {"label": "neg", "score": 0.1}])
    True
    >>> is_pipeline({"label": "pos", "score": 0.9})
    False
    """
    return _is_scores(line) or (isinstance(line, Mapping) and _key(line) is not None)


class PipelineSource(JsonlSource):
    """The scores of a pipeline as probabilities by name; ``apply`` writes them as they were."""

    @property
    def label_place(self) -> Path | None:
        """Where the labels of lists are expected; objects have their own."""
        _, first = next(json_records(self.path, lists=True))
        if not isinstance(first, list):
            return None
        return next((place for place in self._places() if "labels" in place.name), None)

    def records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield line and translated record of each text."""
        labels = self._labels()
        number = 0
        for line, found in json_records(self.path, lists=True):
            number += 1
            if isinstance(found, dict):
                yield line, self._translated(found, line)
                continue
            record: dict[str, Any] = {_SCORES: self._by_name(found, line)}
            if labels:
                if number > len(labels):
                    raise InputError(f"{self.path} has more lines than labels, {len(labels):,}.")
                record["label"] = labels[number - 1]
            yield line, record
        if labels and number < len(labels):
            raise InputError(f"{self.path} has {number:,} lines, and {len(labels):,} labels.")

    def arrow_blocks(self, rows: int, layout: Layout) -> Generator[Block, None, int | None]:
        """Read nothing by pyarrow: the file's own columns are not the predictions."""
        del rows, layout
        yield from ()
        return 0

    def rewrite(self, target: Path, new: NewScores) -> None:
        """Write each line as it was, with the new scores, the largest first."""
        if new.names != (_SCORES,):
            raise InputError(f"{self.path} holds probabilities, and the new scores are others.")
        names = self.label_names(_SCORES) or ()
        lines = (found for _, found in json_records(self.path, lists=True))
        with text_file(target) as file:
            for found, (_, row) in zip(lines, self.rewritten(new), strict=True):
                pairs = sorted(zip(names, row, strict=True), key=lambda pair: -pair[1])
                scores = [{"label": name, "score": score} for name, score in pairs]
                whole = {**found, _key(found): scores} if isinstance(found, dict) else scores
                file.write(json.dumps(whole, ensure_ascii=False) + "\n")

    def _translated(self, found: Mapping[str, Any], line: int) -> dict[str, Any]:
        key = _key(found)
        if key is None:
            raise InputError(f"{self.path}: expected scores of a pipeline at line {line}.")
        others = {name: value for name, value in found.items() if name not in (key, _SCORES)}
        return {_SCORES: self._by_name(found[key], line), **others}

    def _by_name(self, scores: Any, line: int) -> dict[str, Any]:
        if not _is_scores(scores):
            raise InputError(f"{self.path}: expected scores of a pipeline at line {line}.")
        found = {one["label"]: one["score"] for one in scores}
        if len(found) < len(scores):
            raise InputError(f"{self.path}: a label has two scores at line {line}.")
        return {name: found[name] for name in sorted(found)}

    def _labels(self) -> list[str]:
        """Return the labels of the file beside this one; empty if there is none."""
        found = next((place for place in self._places() if place.is_file()), None)
        if found is None:
            return []
        return [line.strip() for _, line in numbered_lines(found) if line.strip()]

    def _places(self) -> list[Path]:
        stem = self.path.name.removesuffix(".gz").removesuffix(".jsonl")
        return [self.path.with_name(f"{name}.txt") for name in partner_names(stem)]


def _key(record: Mapping[str, Any]) -> str | None:
    """Return the key of the scores of a pipeline in a record, if it has them."""
    return next((key for key, value in record.items() if _is_scores(value)), None)


def _is_scores(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) > 1
        and all(isinstance(one, dict) and one.keys() == {"label", "score"} for one in value)
        and all(isinstance(one["label"], str) for one in value)
    )
