"""Show predictions: on a terminal, as lines of JSON, as a table, and masks as pictures."""

from __future__ import annotations

import argparse
import io
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.charts.numbers import counted
from calibrant.distributed.predicted_columns import as_json
from calibrant.errors import InputError, printable
from calibrant.extras import require
from calibrant.files.lines import CsvWriter
from calibrant.json_values import json_values
from calibrant.outputs import check_writable, make_folder, new_file
from calibrant.resumable import ResumableFile

if TYPE_CHECKING:
    from calibrant.cli.predict_blocks import Lines
    from calibrant.cli.predict_input import Input, Row
    from calibrant.tasks.class_predictor import Classification
    from calibrant.tasks.ner.found_entities import Entity, Prediction
    from calibrant.tasks.predictor import Acceptance, Predictor
    from calibrant.tasks.segmentation.predictor import Mask

__all__ = [
    "check_output",
    "json_line",
    "masked_rows",
    "printed_lines",
    "save_mask",
    "written",
]

_COLORS = (36, 33, 35, 32, 34, 31)  # One per entity type, in turn.


def check_output(args: argparse.Namespace, source: Path | None) -> None:
    """Check that the output can be written, before anything is loaded."""
    from calibrant.experiments.run_folder import RunFolder

    if args.output is None:
        return
    if args.output.suffix.lower() == ".csv" and args.field is not None:
        raise InputError("--field names a field of JSON lines; a .csv file has columns.")
    inputs = [*([] if source is None else [source]), *RunFolder(args.model).files()]
    check_writable(args.output, overwrite=args.overwrite, inputs=inputs)
    if args.output.suffix.lower() not in (".jsonl", ".json", ".csv"):
        raise InputError(f"{args.output}: predictions are written as .jsonl or .csv.")


def written(
    args: argparse.Namespace, predictor: Predictor, accept: Acceptance, lines: Lines, given: Input
) -> int:
    """Write all predictions to a file, and continue a file that a killed process left."""
    about, unit = _about(args, predictor, accept, given), predictor.unit.removesuffix("s")
    show: Callable[[Row, Any], str] = partial(json_line, field=args.field, accept=accept)
    with ResumableFile(args.output, about, overwrite=args.overwrite) as file:
        rows = masked_rows(args, given.rows, replace=file.resumed)
        if args.output.suffix.lower() == ".csv":
            first = list(islice(rows, 1))
            rows = chain(first, rows)
            table = _Table(predictor.columns(args.top_k, accept), first)
            show = table.lines
            if not file.done:
                file.write(table.header)
        before, empty = file.done, 0
        if before:
            print(f"Continuing after {counted(file.done, unit)}.")
        for texts in lines(show, rows, before):
            file.write("".join(texts), len(texts))
            empty += texts.count("")
    by_entity = predictor.finds_entities and args.output.suffix.lower() == ".csv"
    left_out = _without_rows(empty, continued=before > 0) if by_entity else ""
    done = counted(file.done, unit)
    print(f"{done}.{left_out}\nWritten: {printable(str(args.output))}")
    return 0


def _without_rows(empty: int, *, continued: bool) -> str:
    """Say that texts are not in a table, which has a row for each entity.

    >>> _without_rows(15, continued=False), _without_rows(0, continued=True)
    (' 15 texts without entities have no row.', ' Texts without entities have no row.')
    """
    if continued:  # The process before counted the others.
        return " Texts without entities have no row."
    if not empty:
        return ""
    count = (
        "1 text without entities has" if empty == 1 else f"{empty:,} texts without entities have"
    )
    return f" {count} no row."


def _about(
    args: argparse.Namespace, predictor: Predictor, accept: Acceptance, given: Input
) -> dict[str, Any]:
    """Describe model, options and input: an unfinished output continues if all are the same."""
    from calibrant.distributed.worker_models import identity

    # A cluster and one process can continue each other's work.
    left_out = {"run", "command", "model", "overwrite", "device", "output", "masks", "engine"}
    options = {k: str(v) for k, v in vars(args).items() if k not in left_out | {"jobs"}}
    policy = None if accept.policy is None else accept.policy.to_dict()
    return {
        "options": options,
        "files": _sources(given),
        "model": list(identity(predictor)),
        "accepts": {"least": accept.least, "policy": policy},
        "block": predictor.block,
    }


def _sources(given: Input) -> list[tuple[str, int, int]]:
    """Describe what is read; standard input may differ each time, and never continues."""
    files = [(str(f), f.stat().st_size, f.stat().st_mtime_ns) for f in given.files]
    return files or [("standard input", time.time_ns(), os.getpid())]


def json_line(row: Row, prediction: Any, *, field: str | None, accept: Acceptance) -> str:
    """Return a line of JSON: the fields of the input and the predictions."""
    found = as_json(prediction, accept)
    if field is not None:
        found = {field: {k: v for k, v in found.items() if k != "text" or row.get(k) != v}}
    return json.dumps(json_values({**row, **found}), ensure_ascii=False) + "\n"


class _Table:
    """Rows of CSV: the fields of the input, then the predictions."""

    def __init__(self, columns: Sequence[str], first: Sequence[Row]) -> None:
        """Set the columns of predictions, and the fields: those of the first row, if any."""
        self.columns, self.fields = columns, [name for row in first for name in row if name]
        there = next((name for name in self.fields if name in columns), None)
        if there is not None:
            raise InputError(
                f"The input has a field '{there}', which is a column of the predictions: rename "
                "it, or write .jsonl with --field NAME."
            )
        self.header = _csv([[*self.fields, *columns]] * len(first))

    def lines(self, row: Row, prediction: Any) -> str:
        """Return the rows of one input."""
        for name in row:
            if name not in self.fields:
                raise InputError(
                    f"A line has a field '{name}' that the first one lacks, and a table has the "
                    "same columns everywhere: write .jsonl."
                )
        own = [_cell(row.get(name, "")) for name in self.fields]
        cells = prediction.cells()
        return _csv([*own, *(cell.get(name, "") for name in self.columns)] for cell in cells)


def _cell(value: Any) -> Any:
    """Return lists and objects of a line of JSON as JSON, for tables have no such values."""
    if isinstance(value, (list, dict)):
        return json.dumps(json_values(value), ensure_ascii=False)
    return value


def _csv(rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO(newline="")
    CsvWriter(text).writerows(rows)
    return text.getvalue()


def masked_rows(
    args: argparse.Namespace, rows: Iterator[Row], *, replace: bool = False
) -> Iterator[Row]:
    """Add to each row where its mask goes, with ``--masks``; ``replace`` those of a killed run."""
    if args.masks is None:
        return rows
    return map(_MaskFiles(args.masks, Path(args.input), args.overwrite or replace).placed, rows)


class _MaskFiles:
    """Says where masks go: ``NAME.png`` and ``NAME.confidence.png``, a name for each image."""

    def __init__(self, folder: Path, source: Path, overwrite: bool) -> None:
        """Set where masks go, and the image or folder that they are made of."""
        require("PIL.Image", "data", "Writing masks")
        self.folder, self.overwrite = make_folder(folder), overwrite
        self.source, self.names = source, set[str]()

    def placed(self, row: Row) -> Row:
        """Return the row with the places of its masks."""
        name = self._name(row)
        places = {"mask": f"{name}.png", "confidence_map": f"{name}.confidence.png"}
        for field, file in places.items():
            row[field] = str(check_writable(self.folder / file, overwrite=self.overwrite))
        return row

    def _name(self, row: Row) -> str:
        """Return a unique name: the path below the folder of images, its parts joined."""
        if "file" not in row:
            return f"{row['number']:06}"
        path = Path(row["file"])
        inside = path.relative_to(self.source) if self.source.is_dir() else Path(path.name)
        name = "-".join(inside.with_suffix("").parts)
        if name in self.names:
            raise InputError(f"{path}: another image has a mask called '{name}'; rename it.")
        self.names.add(name)
        return name


def save_mask(row: Row, mask: Mask) -> None:
    """Write a mask as two pictures: the number of each pixel's class, and its confidence."""
    pillow = require("PIL.Image", "data", "Writing masks")
    for field, values in zip(("mask", "confidence_map"), mask.pictures(), strict=True):
        # A block may run again after its worker is lost: it writes the same file.
        with new_file(row[field], overwrite=True) as unfinished:
            pillow.fromarray(values).save(unfinished)


def printed_lines(row: Row, prediction: Any, *, types: Sequence[str] = ()) -> str:
    """Return the lines that a terminal shows; types of entities in ``types`` have colours."""
    colors = {kind: _COLORS[i % len(_COLORS)] for i, kind in enumerate(types)}
    if hasattr(prediction, "entities"):
        lines = list(_entity_lines(prediction, colors))
    elif hasattr(prediction, "label"):
        lines = list(_class_lines(row, prediction))
    else:
        lines = list(_mask_lines(row, prediction))
    return "\n".join(lines) + "\n"


def _entity_lines(prediction: Prediction, colors: dict[str, int]) -> Iterator[str]:
    """Yield the text with its accepted entities marked, then a line for each entity."""
    text, place, pieces = prediction.text, 0, list[str]()
    for entity in prediction.entities:
        pieces.append(printable(text[place : entity.start]))
        pieces.append(_colored(text[entity.start : entity.end], colors.get(entity.type)))
        place = entity.end
    yield "".join([*pieces, printable(text[place:])])
    for entity in prediction.entities:
        yield f"  {_described(entity, colors.get(entity.type))}"
    for entity in prediction.abstained:
        yield f"  {_described(entity, None)}   (not sure enough)"
    if prediction.review:
        words = ", ".join(f"{token.text} ({token.start})" for token in prediction.review)
        yield printable(f"  to review: {words}")


def _described(entity: Entity, color: int | None) -> str:
    words = ", ".join(f"{token.text} {token.confidence:.3f}" for token in entity.tokens)
    name = _colored(f"{entity.type:<6}", color)
    place = f"{entity.start}–{entity.end}"
    text = printable(f"{entity.text}   [{words}]{_others(entity)}")
    return f"{name} {entity.confidence:.3f}   {place:<9} {text}"


def _class_lines(row: Row, prediction: Classification) -> Iterator[str]:
    why = "an empty text" if prediction.empty else "not sure enough"
    sure = f"   ({why})" if prediction.accepted is False else ""
    line = f"{prediction.confidence:.3f}   {prediction.label}{_others(prediction)}{sure}"
    if prediction.labels is not None:
        line += f"   {{{', '.join(prediction.labels)}}}"
    yield f"{printable(line)}   {_name(row)}"


def _mask_lines(row: Row, mask: Mask) -> Iterator[str]:
    found = mask.to_dict()
    yield f"{_name(row)}   {found['confidence']:.3f}   {found['accepted']:.1%} accepted"
    pixels = found["height"] * found["width"]
    for name, numbers in found["classes"].items():
        share = numbers["pixels"] / pixels
        yield printable(f"  {share:6.1%}   {numbers['confidence']:.3f}   {name}")


def _others(prediction: Any) -> str:
    found = ", ".join(f"{other.label} {other.confidence:.3f}" for other in prediction.alternatives)
    return f"   (or {found})" if found else ""


def _name(row: Row) -> str:
    return printable(str(next((row[k] for k in ("text", "file", "number") if k in row), "")))


def _colored(text: str, color: int | None) -> str:
    text = printable(text)
    return text if color is None else f"\x1b[1;{color}m{text}\x1b[0m"
