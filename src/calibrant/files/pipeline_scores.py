"""What a Hugging Face pipeline that classifies texts or images returns, in a jsonl file.

With ``top_k=None``, the scores of a text are a list of ``{"label": …, "score": …}``, the largest
first. A line is such a list, or an object that has one beside the true label. Otherwise a line is
the predicted label and its score alone. True labels of lines without one are in a second file, one
on each line: ``test_labels.txt`` beside ``test_scores.jsonl``, or ``labels.txt``.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from calibrant.errors import InputError
from calibrant.files.format import Block, Layout, NewScores
from calibrant.files.jsonl import JsonlSource
from calibrant.files.lines import json_records, numbered_lines, text_file
from calibrant.files.npy import partner_names
from calibrant.inputs import shortened
from calibrant.labels import is_number, without_zeros
from calibrant.predictions import IGNORED

__all__ = ["PipelineSource", "TopPipelineSource", "is_pipeline", "is_top_pipeline"]

_SCORES, _TRUE = "probabilities", "true_label"
_COUNTED = "LABEL_"  # Before the number of a class that has no name.


def is_pipeline(line: Any) -> bool:
    """Return whether a line is the scores of a pipeline, or an object that has them.

    >>> is_pipeline([{"label": "pos", "score": 0.9}, {"label": "neg", "score": 0.1}])
    True
    >>> is_pipeline({"label": "pos", "score": 0.9})
    False
    """
    return _is_scores(line) or (isinstance(line, Mapping) and _key(line) is not None)


def is_top_pipeline(path: Path, line: Any) -> bool:
    """Return whether a line is one label with its score, and the true labels are beside the file.

    The list of one that a pipeline returns for a single text is such a line in any case.
    """
    alone = isinstance(line, list) and len(line) == 1 and _is_top(line[0])
    return alone or (_is_top(line) and any(place.is_file() for place in _label_places(path)))


class TopPipelineSource(JsonlSource):
    """Predicted labels with their scores; ``apply`` writes them as they were."""

    @property
    def label_place(self) -> Path | None:
        """Where the true labels are expected."""
        return next((place for place in _label_places(self.path) if "labels" in place.name), None)

    def records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield line and record of each text, with its true label if there is one."""
        for line, found, label in _with_labels(self.path):
            record = found[0] if isinstance(found, list) and len(found) == 1 else found
            if not _is_top(record):
                raise InputError(f"{self.path}: expected one label and score at line {line}.")
            yield line, dict(record) if label is None else {**record, _TRUE: label}

    def arrow_blocks(self, rows: int, layout: Layout) -> Generator[Block, None, int | None]:
        """Read nothing by pyarrow, which does not know the file of labels."""
        del rows, layout
        yield from ()
        return 0

    def rewrite(self, target: Path, new: NewScores) -> None:
        """Write each line as it was, with the new score."""
        lines = (found for _, found in json_records(self.path, lists=True))
        with text_file(target) as file:
            for found, (record, score) in zip(lines, self.rewritten(new), strict=True):
                one = {"label": record["label"], "score": score}
                file.write(json.dumps([one] if isinstance(found, list) else one) + "\n")


class PipelineSource(JsonlSource):
    """The scores of a pipeline as probabilities by name; ``apply`` writes them as they were."""

    @property
    def label_place(self) -> Path | None:
        """Where the labels of lists are expected; objects have their own."""
        _, first = next(json_records(self.path, lists=True))
        if not isinstance(first, list):
            return None
        return next((place for place in _label_places(self.path) if "labels" in place.name), None)

    def records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield line and translated record of each text."""
        for line, found, label in _with_labels(self.path):
            if isinstance(found, dict):
                yield line, self._translated(found, line)
                continue
            record: dict[str, Any] = {_SCORES: self._by_name(found, line)}
            yield line, record if label is None else {**record, "label": label}

    def block(
        self, records: Sequence[dict[str, Any]], lines: Sequence[int], layout: Layout
    ) -> Block:
        """Return some records as columns; refuse labels whose class nothing tells.

        A pipeline puts the largest score first, so that a number means a class only if the names
        have numbers, or were given in their order.
        """
        names = layout.label_names or ()
        counted = names == tuple(f"{_COUNTED}{k}" for k in range(len(names)))
        if layout.named and not counted and not any(map(is_number, names)):
            for record, line in zip(records, lines, strict=True):
                if _is_class_number(label := record.get(layout.label)):
                    raise InputError(
                        f"{self.path}: the label {shortened(str(label))} at line {line} is a "
                        "number, but the scores of a pipeline do not say which class that is; "
                        f"write names ({', '.join(map(shortened, names[:4]))}), or give the names "
                        "in the order of the file (--labels FILE)."
                    )
        return super().block(records, lines, layout)

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
        return {name: found[name] for name in _in_order(found)}


def _in_order(names: Iterable[str]) -> list[str]:
    """Return the names in order; those that transformers makes, in the order of their numbers.

    >>> _in_order(["LABEL_10", "LABEL_2"]), _in_order(["pos", "neg"])
    (['LABEL_2', 'LABEL_10'], ['neg', 'pos'])
    """
    numbers = {name: name.removeprefix(_COUNTED) for name in names}
    if all(name != number and number.isdecimal() for name, number in numbers.items()):
        return sorted(numbers, key=lambda name: int(numbers[name]))
    return sorted(numbers)


def _is_class_number(label: Any) -> bool:
    return is_number(str(label)) and without_zeros(str(label)) != str(IGNORED)


def _with_labels(path: Path) -> Iterator[tuple[int, Any, str | None]]:
    """Yield number, value and label of each line; None where no file of labels is beside it."""
    place = next((place for place in _label_places(path) if place.is_file()), None)
    labels = [] if place is None else _labels(place)
    number = 0
    for number, (line, found) in enumerate(json_records(path, lists=True), start=1):
        if labels and number > len(labels):
            raise InputError(f"{path} has more lines than labels, {len(labels):,}.")
        yield line, found, labels[number - 1] if labels else None
    if labels and number < len(labels):
        raise InputError(f"{path} has {number:,} lines, and {len(labels):,} labels.")


def _labels(place: Path) -> list[str]:
    return [line.strip() for _, line in numbered_lines(place) if line.strip()]


def _label_places(path: Path) -> list[Path]:
    stem = path.name.removesuffix(".gz").removesuffix(".jsonl")
    return [path.with_name(f"{name}.txt") for name in partner_names(stem)]


def _is_top(value: Any) -> bool:
    """Return whether a value is one label with its score."""
    named = isinstance(value, dict) and value.keys() == {"label", "score"}
    return named and isinstance(value["label"], str)


def _key(record: Mapping[str, Any]) -> str | None:
    """Return the key of the scores of a pipeline in a record, if it has them."""
    return next((key for key, value in record.items() if _is_scores(value)), None)


def _is_scores(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 1 and all(_is_top(one) for one in value)
