"""Reading predictions whose labels are missing, all of them or some."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.claims import Claims
from calibrant.encoding import encode
from calibrant.errors import InputError
from calibrant.files.columns import DEFAULT_COLUMNS, Columns, find_label, find_layout
from calibrant.files.format import Block, FileKind, Layout, Source
from calibrant.files.formats import Paths, expand, open_source
from calibrant.files.reading import (
    agree,
    assemble,
    check_rows,
    one_confidence,
    row_width,
    with_predicted,
)
from calibrant.labels import label_numbers, truth_values
from calibrant.predictions import IGNORED, Predictions
from calibrant.validation import RowError

__all__ = ["LABELLED", "stream_top_labels", "stream_unlabelled"]

LABELLED = "labelled"  # The group that says which labels mean something.
_CHUNK = 1 << 20  # Scores per chunk.
_NO_LABEL = "\0label"  # No column of a file is called so.


def stream_unlabelled(
    paths: Paths,
    columns: Columns = DEFAULT_COLUMNS,
    kind: FileKind | None = None,
    *,
    rows: int | None = None,
    top_labels: bool = False,
) -> Iterator[Any]:
    """Yield the predictions of ``paths`` in chunks, as :func:`stream`; labels may be missing.

    All rows are kept, except those labelled −100. The group ``labelled`` is false where a row has
    no label: if there is no column of labels, or it has null, NaN or an empty text. Labels of
    such rows mean nothing. With ``top_labels``, files of predicted labels with one confidence each
    give :class:`~calibrant.Claims`; otherwise they are an error.

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
    layouts = [_layout(source, columns, kind, top_labels) for source in sources]
    if any(layout.kind == "multi-label" for layout in layouts):
        raise InputError(
            "This command takes examples of one class each, not many labels; audit, compare, fit "
            "and apply (without a policy) take these. In Python a policy decides about them: "
            "calibrant.load(path).decide(probabilities.ravel())."
        )
    return _chunks(sources, layouts, agree(sources, layouts), rows, top_labels)


def stream_top_labels(
    paths: Paths, columns: Columns = DEFAULT_COLUMNS, kind: FileKind | None = None
) -> Iterator[Claims] | None:
    """Yield the top labels of ``paths`` in chunks, or return None for files of all classes.

    Labels are not read, and every claim counts as true.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(f"{folder}/day.csv").write_text("predicted,confidence\\ncat,0.9\\ndog,0.6\\n")
    ...     [chunk] = stream_top_labels(f"{folder}/day.csv")
    >>> chunk.confidence
    array([0.9, 0.6])
    """
    sources = [open_source(path) for path in expand(paths)]
    columns = replace(columns, groups=(), signals=())
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
    predicted = None if layout.predicted is None else block.all_columns[layout.predicted]
    return Claims.from_top_label(predicted, confidence, correct=np.ones(len(confidence), bool))


def _layout(source: Source, columns: Columns, kind: FileKind | None, top_labels: bool) -> Layout:
    """Return the layout of a file; without labels the scores take their place."""
    if top_labels and (found := _top_label_layout(source, columns, kind)) is not None:
        return found
    if source.columns and find_label(source, columns) is None:
        some = next(iter(source.columns))
        scores = find_layout(source, replace(columns, label=some, groups=()), kind).scores
        return find_layout(source, replace(columns, label=scores[0]), kind)
    return find_layout(source, columns, kind)


def _top_label_layout(source: Source, columns: Columns, kind: FileKind | None) -> Layout | None:
    """Return the layout of a file of top labels, true labels or not; None for other files."""
    for labelled in (True, False):
        try:
            found = find_layout(source, columns, kind, labelled=labelled)
        except InputError:  # Also of other files, which are met again.
            continue
        return found if found.kind == "top-label" else None
    return None


def _chunks(
    sources: list[Source],
    layouts: list[Layout],
    names: tuple[str, ...] | None,
    rows: int | None,
    top_labels: bool,
) -> Iterator[Predictions | Claims]:
    first, doubtful = 0, set[str]()
    for source, layout in zip(sources, layouts, strict=True):
        size = rows or max(1, _CHUNK // row_width(source, layout))
        groups = tuple(name for name in layout.groups if name != LABELLED)
        label = _NO_LABEL if layout.label in layout.scores else layout.label
        read = replace(layout, label=label, groups=(*groups, LABELLED), named=False)
        of_claims = layout.kind == "top-label"
        if of_claims and not top_labels:
            raise one_confidence("This command", layout.kind)
        if of_claims:  # Whether each is right is found out here.
            read = replace(read, label=layout.scores[0], correct=_NO_LABEL)
        for block in source.blocks(size, layout):
            if of_claims:
                marked, judged = _marked_claims(source.path, block, layout, names)
                if judged is not None:
                    names = with_predicted(judged, names, doubtful, source.path)
            else:
                marked = _marked(block, layout, label, names)
            yield assemble(source.path, marked, read, names, first)
            first += len(block.numbers)


def _marked_claims(
    path: Path, block: Block, layout: Layout, names: Sequence[str] | None
) -> tuple[Block, Claims | None]:
    """Return a block of top labels with a column of which are right, and of which have a label.

    The second part is the rows with a true label, if there is a column of these.
    """
    try:
        right, judged = _right(block.all_columns, layout, names)
    except RowError as error:
        where = f"{block.unit} {block.numbers[error.row]}"
        raise InputError(f"{path}: {error.at(where)}") from None
    known = ~np.isnan(right)
    return _with_known(block, _NO_LABEL, np.where(known, right, 0.0), known), judged


def _right(
    columns: Mapping[str, Any], layout: Layout, names: Sequence[str] | None
) -> tuple[np.ndarray, Claims | None]:
    """Return 1 where the predicted label is right, else 0, NaN without a label; −100 stays."""
    if layout.correct is not None:
        return truth_values(columns[layout.correct], layout.correct), None
    if layout.predicted is None or layout.label in layout.scores:
        return np.full(len(columns[layout.scores[0]]), np.nan), None
    claims = Claims.from_top_label(
        columns[layout.predicted],
        np.zeros(len(columns[layout.scores[0]])),
        columns[layout.label],
        label_names=names,
    )
    truth = encode(columns[layout.label], claims.names)
    right = np.full(len(truth.codes), np.nan)
    if str(IGNORED) in truth.names:
        right[truth.codes == truth.names.index(str(IGNORED))] = IGNORED
    right[slice(None) if claims.rows is None else claims.rows] = claims.correct
    return right, claims


def _marked(block: Block, layout: Layout, label: str, names: Sequence[str] | None) -> Block:
    """Return the block with a column that says which rows are labelled."""
    column = block.columns[layout.label]
    if label == _NO_LABEL:
        shape = column.shape[:-1] if column.ndim > 1 else column.shape
        labels, known = np.zeros(shape, np.int64), np.zeros(shape, bool)
    else:
        labels, known = _filled(block.labels(layout), names, label)
    return _with_known(block, label, labels, known)


def _with_known(block: Block, label: str, labels: np.ndarray, known: np.ndarray) -> Block:
    given = block.columns.get(LABELLED)  # As calibrant writes such predictions.
    if given is not None and given.shape == known.shape and given.dtype.kind in "biu":
        known = known & given.astype(bool)
    columns = {**block.columns, label: labels, LABELLED: known}
    return replace(block, columns=columns)


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
