"""Reading predictions, at once or in chunks of bounded memory, from one file or many shards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.arrays import to_numpy
from calibrant.claims import Claims
from calibrant.conversion import NoWeightError, leading_group
from calibrant.encoding import check_one_reading, doubtful_names
from calibrant.errors import InputError
from calibrant.files.columns import DEFAULT_COLUMNS, Columns, find_layout, signal_name
from calibrant.files.format import Block, FileKind, Layout, Shape, Source, joined
from calibrant.files.formats import Paths, expand, open_source
from calibrant.labels import describe_ignored, label_numbers, positive_names, truth_values
from calibrant.predictions import Predictions
from calibrant.validation import RowError

__all__ = [
    "agree",
    "assemble",
    "check_rows",
    "count_rows",
    "read",
    "row_width",
    "stream",
    "with_predicted",
]

_CHUNK = 1 << 21  # Scores per chunk: 8 megabytes in float32.
_COLUMNS = 4  # Rows count as so many scores at least: half a million rows, at most.


def read(
    paths: Paths, columns: Columns = DEFAULT_COLUMNS, kind: FileKind | None = None
) -> Predictions | Claims:
    """Return all predictions of ``paths``: a file, a folder of shards, a glob, or several.

    The name of their column, ``columns`` or ``kind`` says whether the scores are logits or
    probabilities; it is never guessed from the values. A file of predicted labels with one
    confidence each gives :class:`~calibrant.Claims`.

    >>> from tempfile import TemporaryDirectory
    >>> p = Predictions.from_logits([[2.0, 0.0], [0.0, 1.0]], [0, 1], label_names=["cat", "dog"])
    >>> with TemporaryDirectory() as folder:
    ...     p.write(f"{folder}/dev.npz")
    ...     read(f"{folder}/dev.npz").names
    ('cat', 'dog')
    """
    return joined(stream(paths, columns, kind))


def stream(
    paths: Paths,
    columns: Columns = DEFAULT_COLUMNS,
    kind: FileKind | None = None,
    *,
    rows: int | None = None,
) -> Iterator[Any]:
    """Yield the predictions of ``paths`` in chunks of ``rows`` rows (about 2 million scores).

    Shards are checked against each other before the first chunk: kind, label names and classes
    must agree. A chunk in which every row is labelled −100 has no rows, and counts them.

    >>> from tempfile import TemporaryDirectory
    >>> p = Predictions.from_logits([[2.0, 0.0], [0.0, 1.0], [3.0, 0.0]], [0, 1, 0])
    >>> with TemporaryDirectory() as folder:
    ...     p.write(f"{folder}/dev.npz")
    ...     [len(chunk) for chunk in stream(f"{folder}/dev.npz", rows=2)]
    [2, 1]
    """
    check_rows(rows)
    sources, layouts = _open(paths, columns, kind)
    return _chunks(sources, layouts, agree(sources, layouts), rows)


def check_rows(rows: int | None) -> None:
    """Check the size of a chunk."""
    if rows is not None and rows < 1:
        raise InputError(f"rows must be at least 1, got {rows}.")


def one_confidence(who: str, kind: str) -> InputError:
    """Return the error of ``who`` needs the scores of all classes and got one confidence each."""
    return InputError(
        f"{who} needs the scores of all classes, got {kind} predictions with one confidence each; "
        "audit, compare, fit, apply, guarantee and watch take these."
    )


def count_rows(
    paths: Paths, columns: Columns = DEFAULT_COLUMNS, kind: FileKind | None = None
) -> int | None:
    """Return the number of examples with ignored ones, or None where only reading shows it.

    >>> from tempfile import TemporaryDirectory
    >>> p = Predictions.from_logits([[2.0, 0.0], [0.0, 1.0]], [0, 1])
    >>> with TemporaryDirectory() as folder:
    ...     p.write(f"{folder}/dev.npz")
    ...     count_rows(f"{folder}/dev.npz")
    2
    """
    sources, layouts = _open(paths, columns, kind)
    total = 0
    for source, layout in zip(sources, layouts, strict=True):
        rows = source.length(layout.label)
        if rows is None:
            return None
        total += rows * _size(source.columns[layout.label])
    return total


def _open(
    paths: Paths, columns: Columns, kind: FileKind | None
) -> tuple[list[Source], list[Layout]]:
    sources = [open_source(path) for path in expand(paths)]
    return sources, [find_layout(source, columns, kind) for source in sources]


def row_width(source: Source, layout: Layout) -> int:
    """Return the number of scores in a row."""
    return len(layout.scores) * _size(source.columns[layout.scores[0]])


def _size(shape: Shape) -> int:
    return prod(width or 64 for width in shape or ())  # 64: a guess for lists of unknown length.


def agree(sources: list[Source], layouts: list[Layout]) -> tuple[str, ...] | None:
    """Check that the shards hold the same kind of scores; return the label names they share."""
    first, names, named = layouts[0], None, sources[0]
    for source, found in zip(sources, layouts, strict=True):
        if (found.weights is None) != (first.weights is None):
            one, other = (source, sources[0]) if found.weights else (sources[0], source)
            raise InputError(
                f"{one.path} has sample weights, but {other.path} has none; add the column, or "
                "read none (--weights-column '')."
            )
        if found.kind != first.kind:
            raise InputError(
                f"{source.path} holds {found.kind}, but {sources[0].path} {first.kind}; "
                "say which to use (--kind), or read them separately."
            )
        if names is None and found.label_names is not None:
            names, named = found.label_names, source
        elif found.label_names not in (None, names):
            raise InputError(
                f"{source.path} has different label names from {named.path}: "
                f"{_difference(found.label_names or (), names or ())}."
            )
    return names


def _difference(these: tuple[str, ...], those: tuple[str, ...]) -> str:
    if len(these) != len(those):
        return f"{len(these)} against {len(those)}"
    k = next(k for k, (a, b) in enumerate(zip(these, those, strict=True)) if a != b)
    return f"class {k} is '{these[k]}' against '{those[k]}'"


def _chunks(
    sources: list[Source], layouts: list[Layout], names: tuple[str, ...] | None, rows: int | None
) -> Iterator[Predictions | Claims]:
    kept = ignored = unlabelled = classes = first = 0
    doubtful: set[str] = set()  # Texts such as NA that were read as no label.
    awaited = names[1] if names and tuple(names) == positive_names(names[-1]) else None
    for source, layout in zip(sources, layouts, strict=True):
        size = rows or max(1, _CHUNK // max(_COLUMNS, row_width(source, layout)))
        for block in source.blocks(size, layout):
            chunk = assemble(source.path, block, layout, names, first)
            classes = classes or chunk.classes
            if chunk.classes != classes:
                raise InputError(
                    f"{source.path} has {chunk.classes} classes from {block.unit} "
                    f"{block.numbers[0]} on, but {sources[0].path} {classes}."
                )
            kept, ignored = kept + len(chunk), ignored + chunk.ignored
            unlabelled += chunk.unlabelled
            first += len(block.numbers)
            if awaited is not None and (to_numpy(chunk.labels) == 1).any():
                awaited = None
            if isinstance(chunk, Claims) and chunk.kind == "top-label":
                names = with_predicted(chunk, names, doubtful, source.path)
            yield chunk
    if not kept:
        where = sources[0].path if len(sources) == 1 else f"{len(sources)} files"
        why = describe_ignored(ignored, unlabelled) if ignored else "no rows"
        if ignored and layouts[0].weights is not None:
            why = f"all {ignored} rows are ignored, without a label, or of weight 0"
        raise InputError(f"{where}: {why}.")
    if awaited is not None:
        raise InputError(
            f"{sources[-1].path}: no row has the label '{awaited}', the positive one "
            "(--positive); if this is so, name both labels (--labels FILE)."
        )


def with_predicted(
    chunk: Claims, names: tuple[str, ...] | None, doubtful: set[str], path: Path
) -> tuple[str, ...] | None:
    """Return the names of classes with predicted ones such as NA, which are then labels too.

    ``doubtful`` collects such texts that were read as a missing label in any chunk.
    """
    doubtful |= {*chunk.missing_texts}
    check_one_reading(doubtful, chunk.names, f"{path}: ")
    return tuple(dict.fromkeys((*(names or ()), *doubtful_names(chunk.names)))) or names


def assemble(
    path: Path, block: Block, layout: Layout, names: Sequence[str] | None, first: int
) -> Predictions | Claims:
    """Return the predictions of one block; an error names the file and its row or line.

    ``first`` counts the rows before this block, also of other files: where a row holds a whole
    sentence (scores of shape (n, words, K)), it numbers the sentences; and where it holds an image,
    the images. Those may have their classes second, (n, K, height, width), as convolutions do.
    """
    make = Predictions.from_logits if layout.kind == "logits" else Predictions.from_probabilities
    try:
        if layout.kind == "top-label":
            return _top_labels(block, layout, names)
        if layout.kind == "multi-label":
            return _multi_labels(block, layout, names, first)
        scores = _classes_last(_scores(block, layout), block.columns[layout.label].shape)
        labels = label_numbers(block.labels(layout), names, layout.label)
        groups = {name: block.columns[name] for name in layout.groups}
        if leading := leading_group(scores.ndim):
            groups.setdefault(leading, np.arange(first, first + len(scores)))
        return make(scores, labels, label_names=names, groups=groups, **_beside(block, layout))
    except NoWeightError:  # Nothing counts here, an error only if it is so in all blocks.
        part = assemble(path, block, replace(layout, weights=None), names, first)
        ignored = part.ignored + len(part)
        return replace(part[:0], weights=np.empty(0), ignored=ignored, unlabelled=part.unlabelled)
    except RowError as error:
        inner = 1 if layout.label in block.coded else prod(block.columns[layout.label].shape[1:])
        inner = len(layout.labels) if layout.labels else inner
        where = f"{block.unit} {block.numbers[error.row // inner]}"
        where += f", position {error.row % inner}" if inner > 1 else ""
        raise InputError(f"{path}: {error.at(where)}") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _top_labels(block: Block, layout: Layout, names: Sequence[str] | None) -> Claims:
    columns = block.all_columns
    own = (layout.predicted, layout.correct)
    return Claims.from_top_label(
        None if layout.predicted is None else columns[layout.predicted],
        columns[layout.scores[0]],
        None if layout.label in (*own, *layout.scores) else columns[layout.label],
        correct=None if layout.correct is None else columns[layout.correct],
        groups={name: columns[name] for name in layout.groups if name not in own},
        label_names=names,
        **_beside(block, layout),
    )


def _beside(block: Block, layout: Layout) -> dict[str, Any]:
    """Return the signals and the weights of a block, as arguments of a constructor."""
    signals = {signal_name(name): block.columns[name] for name in layout.signals}
    weights = None if layout.weights is None else block.columns[layout.weights]
    return {"signals": signals, "weights": weights}


def _multi_labels(block: Block, layout: Layout, names: Sequence[str] | None, first: int) -> Claims:
    scores, own = _scores(block, layout), (*layout.labels, layout.label)
    if layout.of_logits:
        scores = 1 / (1 + np.exp(-scores.astype(np.float64)))
    labels = block.columns[layout.label]
    if layout.labels:
        labels = np.stack(
            [truth_values(block.columns[name], name) for name in layout.labels], axis=1
        )
    groups = {name: block.columns[name] for name in layout.groups if name not in own}
    groups.setdefault("example", np.arange(first, first + len(scores)))
    beside = _beside(block, layout)
    return Claims.from_multi_label(scores, labels, label_names=names, groups=groups, **beside)


def _scores(block: Block, layout: Layout) -> np.ndarray:
    if not layout.per_class:
        return block.columns[layout.scores[0]]
    columns = [block.columns[name] for name in layout.scores]
    for name, column in zip(layout.scores, columns, strict=True):
        if column.dtype.kind not in "fiu" or column.ndim != 1:
            raise InputError(f"column '{name}' must hold one number per row.")
    return np.stack(columns, axis=1)


def _classes_last(scores: np.ndarray, labels: tuple[int, ...]) -> np.ndarray:
    """Return scores (n, K, height, width) of labels (n, height, width) as (n, height, width, K).

    Where both readings fit, because K, height and width are the same, the classes are last.
    """
    second = scores.ndim == 4 and scores.shape[:-1] != labels
    if second and (scores.shape[0], *scores.shape[2:]) == labels:
        return np.moveaxis(scores, 1, -1)
    return scores
