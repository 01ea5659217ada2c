"""Writing predictions, and files again with other scores. Writes are atomic."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.claims import Claims
from calibrant.errors import InputError
from calibrant.files.columns import DEFAULT_COLUMNS, Columns, find_layout
from calibrant.files.format import Block, FileKind, Format, Layout, NewScores, Source
from calibrant.files.formats import FORMATS, format_of, open_source
from calibrant.files.parquet import PARQUET
from calibrant.files.reading import assemble, check_rows, row_width
from calibrant.inputs import first_repeated
from calibrant.outputs import new_file, new_folder
from calibrant.predictions import Predictions

__all__ = ["new_scores", "rewrite", "write"]

_ROWS = 1 << 20  # Rows per part of predictions that are given whole.
_CHUNK = 1 << 20  # Scores that are mapped at once.
_WHOLE = (1 << 31) - 1  # Rows: more than any chunk.
_NO_LABEL = "\0label"  # No column of a file has this name.

# Group columns with these names would be read back as scores, labels, signals or weights.
_TAKEN = re.compile(
    r"labels?|label_names|(logits?|prob(abilit(y|ies)|s)?)([:_].*)?|signal\..*|(?i:(sample_)?weights?)"
)


def write(
    predictions: Predictions | Claims | Iterable[Predictions] | Iterable[Claims],
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
) -> None:
    """Write predictions, or a stream of them, to ``path`` in the format of its suffix.

    A path without a suffix becomes a new folder of parquet shards, one per part of the stream.
    The file or folder appears under its name when it is complete. A file that exists is an error
    unless ``overwrite`` is set; a folder is never replaced. Ignored rows are not written. npz and
    safetensors hold the whole in memory once.

    >>> from tempfile import TemporaryDirectory
    >>> from calibrant import Predictions
    >>> from calibrant.files import read
    >>> p = Predictions.from_logits([[2.0, 0.0], [0.0, 1.0]], [0, 1])
    >>> with TemporaryDirectory() as folder:
    ...     write(p, f"{folder}/dev.npz")
    ...     read(f"{folder}/dev.npz")
    Predictions(n=2, classes=2, kind='logits', ignored=0)
    """
    target = Path(path)
    known = format_of(target) if target.suffix else None
    given = isinstance(predictions, (Predictions, Claims))
    parts: Iterator[Any] = iter(predictions.chunks(_ROWS) if given else predictions)  # type: ignore[union-attr]
    first = next(parts, None)
    if first is None:
        raise InputError(f"{target}: no predictions to write.")
    _check_names(target, known or PARQUET, first)
    parts = chain([first], parts)
    if known is None:
        _write_shards(parts, target)
        return
    with new_file(target, overwrite=overwrite) as unfinished:
        known.write(parts, unfinished)


def _check_names(target: Path, known: Format, part: Predictions | Claims) -> None:
    for name in part.groups:
        if _TAKEN.fullmatch(name):
            raise InputError(f"{target}: a group may not be called '{name}'; rename it.")
    if isinstance(part, Claims):
        return
    twice = first_repeated(part.label_names or ())
    if known.by_name and twice is not None:
        by_name = " and ".join(name for name, other in FORMATS.items() if other.by_name)
        raise InputError(
            f"{target}: two classes are called '{twice}', but {by_name} identify classes by name; "
            "write another format."
        )


def _write_shards(parts: Iterable[Any], folder: Path) -> None:
    if os.path.lexists(folder):
        raise InputError(f"{folder} exists; shards need a new folder.")
    with new_folder(folder) as unfinished:
        for number, part in enumerate(parts):
            PARQUET.write(iter([part]), unfinished / f"part-{number:05}.parquet")


def rewrite(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    transform: Callable[[Any], Any],
    columns: Columns = DEFAULT_COLUMNS,
    kind: FileKind | None = None,
    *,
    groups: Sequence[str] = (),
    rows: int | None = None,
    whole: bool = False,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Write the file ``path`` to ``target`` with the probabilities that ``transform`` gives.

    All columns are kept, also those that calibrant cannot read, and all rows, also ignored ones;
    labels need not be there. Probabilities replace the probabilities that were read. Logits give
    way to probabilities, in columns called ``probabilities`` (or ``probabilities:NAME``, or
    ``probabilities_0``, …, after the pattern of the logits). The format stays.

    ``transform`` gets predictions in chunks of ``rows`` rows (about a million scores), with the
    columns ``groups``; their labels mean nothing. ``whole`` maps all rows at once instead.
    ``progress`` is called with the number of rows of each chunk. npz and safetensors hold the new
    scores in memory, the others one chunk.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from calibrant import Predictions, Temperature
    >>> fitted = Temperature().fit(Predictions.from_logits([[2.0, 0.0]] * 4, [0, 0, 0, 1]))
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(f"{folder}/new.csv").write_text("id,logits_0,logits_1\\n7,0.0,0.0\\n")
    ...     rewrite(f"{folder}/new.csv", f"{folder}/honest.csv", fitted.transform)
    ...     print(Path(f"{folder}/honest.csv").read_text().strip())
    id,probabilities_0,probabilities_1
    7,0.5,0.5
    """
    check_rows(rows)
    path, target = Path(path), Path(target)
    known = format_of(path)
    if format_of(target) is not known:
        ending = known.suffixes[0]
        raise InputError(
            f"{target}: the format stays, so the name must end in {ending} as {path} does."
        )
    source = open_source(path)
    rows = _WHOLE if whole else rows
    new = new_scores(source, transform, columns, kind, groups=groups, rows=rows, progress=progress)
    with new_file(target, overwrite=overwrite) as unfinished:
        source.rewrite(unfinished, new)


def new_scores(
    source: Source,
    transform: Callable[[Any], Any],
    columns: Columns = DEFAULT_COLUMNS,
    kind: FileKind | None = None,
    *,
    groups: Sequence[str] = (),
    rows: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> NewScores:
    """Return the scores that :func:`rewrite` gives a source, and the names of their columns."""
    layout = _rewritten_layout(source, columns, kind, groups)
    return NewScores(
        source.path,
        layout,
        _new_names(layout),
        rows or max(1, _CHUNK // row_width(source, layout)),
        lambda block, first: _mapped(source.path, block, layout, transform, first),
        progress or (lambda _: None),
    )


def _rewritten_layout(
    source: Source, columns: Columns, kind: FileKind | None, groups: Sequence[str]
) -> Layout:
    """Return the layout of scores and wanted groups, without a label, which may be missing."""
    some = next(iter(source.columns), None)  # A label column that is surely there.
    wanted = replace(columns, label=some, groups=(), weights="")
    found = find_layout(source, wanted, kind, labelled=False)
    for name in groups:
        if name not in source.columns:
            raise InputError(
                f"{source.path}: the calibrator reads the column '{name}', which is missing."
            )
    groups = [*groups, *found.groups]
    return replace(found, label=found.scores[0], groups=tuple(groups))


def _new_names(layout: Layout) -> tuple[str, ...]:
    if layout.kind in ("probabilities", "top-label") or (
        layout.kind == "multi-label" and not layout.of_logits
    ):
        return layout.scores
    if not layout.per_class:
        return ("probabilities",)
    for prefix in ("logits", "logit"):
        if all(name.startswith(prefix) for name in layout.scores):
            return tuple(f"probabilities{name.removeprefix(prefix)}" for name in layout.scores)
    if layout.label_names is None:
        return tuple(f"probabilities_{k}" for k in range(len(layout.scores)))
    return tuple(f"probabilities:{name}" for name in layout.label_names)


def _mapped(
    path: Path,
    block: Block,
    layout: Layout,
    transform: Callable[[Any], Any],
    first: int,
) -> np.ndarray:
    """Return the new scores of a block, in the shape of the old ones."""
    scores = block.columns[layout.scores[0]]
    shape = (len(scores), len(layout.scores)) if layout.per_class else scores.shape
    many = layout.kind == "multi-label"
    labels = np.zeros(shape[:-1] if len(shape) > 1 and not many else shape, np.int64)
    columns = {**block.columns, _NO_LABEL: labels}
    labelled = replace(block, columns=columns)
    top = layout.kind == "top-label"
    layout = replace(layout, label=_NO_LABEL, correct=_NO_LABEL if top else None, named=False)
    old = assemble(path, labelled, layout, layout.label_names, first)
    if isinstance(old, Claims):
        return np.asarray(transform(old).confidence).reshape(shape)
    new = np.asarray(transform(old).numpy().probabilities())
    return new[:, 1] if len(shape) == 1 else new.reshape(shape)  # (n,): P(class 1) of two.
