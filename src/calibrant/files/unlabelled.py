"""Reading predictions whose labels are missing, all of them or some."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from calibrant.claims import Claims
from calibrant.errors import InputError
from calibrant.files.columns import DEFAULT_COLUMNS, Columns, find_label, find_layout
from calibrant.files.format import Block, FileKind, Layout, Source
from calibrant.files.formats import Paths, expand, open_source
from calibrant.files.reading import agree, assemble, check_rows, row_width, with_all_classes
from calibrant.labels import label_numbers
from calibrant.predictions import Kind, Predictions
from calibrant.validation import RowError

__all__ = ["LABELLED", "stream_top_labels", "stream_unlabelled"]

LABELLED = "labelled"  # The group that says which labels mean something.
_CHUNK = 1 << 20  # Scores per chunk.
_NO_LABEL = "\0label"  # No column of a file is called so.


def stream_unlabelled(
    paths: Paths,
    columns: Columns = DEFAULT_COLUMNS,
    kind: Kind | None = None,
    *,
    rows: int | None = None,
) -> Iterator[Predictions]:
    """Yield the predictions of ``paths`` in chunks, as :func:`stream`; labels may be missing.

    All rows are kept, except those labelled −100. The group ``labelled`` is false where a row has
    no label: if there is no column of labels, or it has null, NaN or an empty text. Labels of
    such rows mean nothing.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(f"{folder}/day.csv").write_text("probability,label\\n0.9,1\\n0.2,\\n")
    ...     [chunk] = stream_unlabelled(f"{folder}/day.csv")
    >>> chunk.groups
    {'labelled': array([ True, False])}
    """
    check_rows(rows)
    if columns.weights:
        raise InputError("This command counts every row alike; it takes no --weights-column.")
    columns = replace(columns, weights="")
    sources = [open_source(path) for path in expand(paths)]
    layouts = [_layout(source, columns, kind) for source in sources]
    if any(layout.kind == "multi-label" for layout in layouts):
        raise InputError(
            "This command takes examples of one class each, not many labels; audit, compare, fit "
            "and apply (without a policy) take these. In Python a policy decides about them: "
            "calibrant.load(path).decide(probabilities.ravel())."
        )
    return _chunks(sources, layouts, agree(sources, layouts), rows)


def stream_top_labels(
    paths: Paths, columns: Columns = DEFAULT_COLUMNS, kind: FileKind | None = None
) -> Iterator[Claims] | None:
    """Yield the top labels of ``paths`` in chunks, or return None for files of all classes.

    Labels are not read, and every claim counts as true.
    """
    sources = [open_source(path) for path in expand(paths)]
    try:
        layouts = [find_layout(source, columns, kind, labelled=False) for source in sources]
    except InputError:  # Scores of all classes without labels; or bad input, which is met again.
        return None
    if any(layout.kind != "top-label" for layout in layouts):
        return None
    return (
        _claims(block, layout)
        for source, layout in zip(sources, layouts, strict=True)
        for block in source.blocks(_CHUNK, layout)
    )


def _claims(block: Block, layout: Layout) -> Claims:
    confidence = block.columns[layout.scores[0]]
    predicted = None if layout.predicted is None else block.columns[layout.predicted]
    return Claims.from_top_label(predicted, confidence, correct=np.ones(len(confidence), bool))


def _layout(source: Source, columns: Columns, kind: Kind | None) -> Layout:
    """Return the layout of a file; without labels the scores take their place."""
    if source.columns and find_label(source, columns) is None:
        some = next(iter(source.columns))
        scores = find_layout(source, replace(columns, label=some, groups=()), kind).scores
        return find_layout(source, replace(columns, label=scores[0]), kind)
    return find_layout(source, columns, kind)


def _chunks(
    sources: list[Source], layouts: list[Layout], names: tuple[str, ...] | None, rows: int | None
) -> Iterator[Predictions]:
    first = 0
    for source, layout in zip(sources, layouts, strict=True):
        size = rows or max(1, _CHUNK // row_width(source, layout))
        groups = tuple(name for name in layout.groups if name != LABELLED)
        label = _NO_LABEL if layout.label in layout.scores else layout.label
        read = replace(layout, label=label, groups=(*groups, LABELLED), named=False)
        for block in source.blocks(size, layout):
            marked = _marked(block, layout, label, names)
            found = assemble(source.path, marked, read, names, first)
            yield with_all_classes(found, "This command")
            first += len(block.numbers)


def _marked(block: Block, layout: Layout, label: str, names: Sequence[str] | None) -> Block:
    """Return the block with a column that says which rows are labelled."""
    column = block.columns[layout.label]
    if label == _NO_LABEL:
        shape = column.shape[:-1] if column.ndim > 1 else column.shape
        labels, known = np.zeros(shape, np.int64), np.zeros(shape, bool)
    else:
        labels, known = _filled(block.labels(layout), names, label)
    given = block.columns.get(LABELLED)  # As calibrant writes such predictions.
    if given is not None and given.shape == known.shape and given.dtype.kind in "biu":
        known = known & given.astype(bool)
    columns = {**block.columns, label: labels, LABELLED: known}
    return Block(columns, block.numbers, block.unit)


def _filled(
    column: np.ndarray, names: Sequence[str] | None, label: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return labels without a gap, and where they were known; class 0 fills the gaps."""
    try:
        numbers = label_numbers(column, names, label)
    except RowError:
        return column, np.ones(column.shape, bool)  # Reported with its place later.
    if numbers.dtype.kind != "f":
        return numbers, np.ones(numbers.shape, bool)
    known = ~np.isnan(numbers)
    return np.where(known, numbers, 0.0), known
