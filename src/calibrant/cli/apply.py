"""``calibrant apply``: write a copy of a file of predictions with calibrated probabilities."""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.cli.entities import apply_entities
from calibrant.cli.entity_options import add_entity_options, without_entities
from calibrant.cli.options import (
    add_cluster,
    add_file_options,
    check_cluster,
    columns_from,
    files_read,
)
from calibrant.errors import InputError, printable
from calibrant.files.standard_input import STANDARD

if TYPE_CHECKING:
    from calibrant.calibrators import Calibrator

__all__ = ["add_parser", "apply_command", "run"]


def add_parser(commands: Any) -> None:
    """Add the command's options."""
    parser = commands.add_parser(
        "apply",
        help="write a copy of a file with calibrated probabilities, or decisions",
        description="Apply a fitted calibrator to a file of predictions, chunk by chunk. The copy "
        "has the same format, rows and other columns. Labels are not needed. With --policy, write "
        "what the policy decides about each row or entity instead.",
    )
    parser.add_argument(
        "calibrator",
        metavar="CALIBRATOR",
        type=Path,
        help="a file that 'calibrant fit' saved; left out with a policy that was made without one",
    )
    add_file_options(parser, "FILE", least="*")
    parser.add_argument(
        "--policy",
        metavar="POLICY",
        type=Path,
        help="a file that 'calibrant guarantee' saved; OUT is then .jsonl or .csv",
    )
    add_entity_options(parser, gold=False)
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        type=lambda given: given if "://" in given else Path(given),
        required=True,
        help="the file to write; a folder for several files; '-' is standard output; with --engine "
        "a folder, also at s3://… or gs://…",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace existing files")
    add_cluster(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write a calibrated copy of each file, or what a policy decides."""
    check_cluster(args)
    if isinstance(args.output, str) and args.engine is None:
        raise InputError(f"{args.output} needs --engine ray or --engine spark.")
    if args.policy is not None:
        if args.engine is not None:
            raise InputError("--policy is not for --engine: it writes one file of decisions.")
        from calibrant.cli.apply_policy import decide

        return decide(args)
    if not args.files:
        raise InputError("Name a calibrator and a file: calibrant apply CALIBRATOR FILE -o OUT.")
    from calibrant.calibrators import load_calibrator
    from calibrant.charts.numbers import counted
    from calibrant.entities.calibrator import is_entity_calibrator
    from calibrant.files import expand
    from calibrant.progress import Progress

    if is_entity_calibrator(args.calibrator):
        if args.engine is not None:
            raise InputError(
                f"{args.calibrator} is for documents with entities, which --engine does not read: "
                "leave --engine out."
            )
        return apply_entities(args)
    without_entities(args)
    calibrator = load_calibrator(args.calibrator)
    if args.engine is not None:
        return _apply_on_cluster(calibrator, args)
    sources = expand(args.files)
    if str(args.output) == STANDARD:
        return _to_standard_output(calibrator, sources, args)
    with _targets(sources, args) as targets, Progress(_total(sources), "rows") as progress:
        for source, target in zip(sources, targets, strict=True):
            _rewrite(calibrator, source, target, args, progress.advance)
    written = printable(str(args.output))
    print(f"{calibrator.name} applied to {counted(progress.done, 'row')}.\nWritten: {written}")
    return 0


def _rewrite(
    calibrator: Calibrator,
    source: Path,
    target: Path,
    args: argparse.Namespace,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Write the calibrated copy of one file."""
    from calibrant.files import rewrite

    rewrite(
        source,
        target,
        calibrator.transform,
        columns_from(args),
        args.kind,
        groups=calibrator.groups_,
        whole=bool(calibrator.signals_),  # Means over sentences: none may be cut.
        overwrite=args.overwrite,
        progress=progress,
    )


def _apply_on_cluster(calibrator: Calibrator, args: argparse.Namespace) -> int:
    """Write calibrated copies of parquet files to a folder, by the workers of an engine."""
    from calibrant.charts.numbers import counted
    from calibrant.distributed import apply_to_files
    from calibrant.distributed.engines import using_engine

    if str(args.output) == STANDARD:
        raise InputError("--engine writes a folder: name one with -o FOLDER.")
    with using_engine(args.engine) as engine:
        copied = apply_to_files(
            calibrator,
            args.files,
            args.output,
            engine=engine,
            columns=columns_from(args),
            kind=args.kind,
            skip_damaged=args.skip_corrupt,
            overwrite=args.overwrite,
        )
    for message in copied.damaged:
        print(f"Warning: left out: {printable(message)}", file=sys.stderr)
    were = "was" if len(copied.damaged) == 1 else "were"
    left_out = f" {len(copied.damaged):,} {were} left out." if copied.damaged else ""
    rows, files = counted(copied.rows, "row"), counted(copied.files, "file")
    print(f"{calibrator.name} applied to {rows} of {files}.{left_out}")
    print(f"Written: {printable(str(args.output))}")
    return 0


def _to_standard_output(
    calibrator: Calibrator, sources: list[Path], args: argparse.Namespace
) -> int:
    """Write the calibrated copy of one file to standard output, once it is complete."""
    if len(sources) != 1:
        raise InputError(f"'-o -' writes one file, got {len(sources)}.")
    with tempfile.TemporaryDirectory(prefix="calibrant-") as folder:
        target = Path(folder) / sources[0].name
        _rewrite(calibrator, sources[0], target, args)
        with target.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
    sys.stdout.flush()
    return 0


@contextmanager
def _targets(sources: list[Path], args: argparse.Namespace) -> Iterator[list[Path]]:
    """Yield the output of each source: a file for one, a folder of files for several.

    The folder appears when all files are written: some shards would look like all of them.
    """
    from calibrant.outputs import check_writable, new_files

    output: Path = args.output
    if len(sources) == 1 and not Path(args.files[0]).is_dir() and not output.is_dir():
        yield [check_writable(output, overwrite=args.overwrite, inputs=files_read(args))]
        return
    names = [source.name for source in sources]
    if len(set(names)) < len(names):
        raise InputError("Two of the files have the same name; give each its own command.")
    if output.suffix and not output.is_dir():
        raise InputError(f"{output}: {len(sources)} files need a folder as the output (-o FOLDER).")
    with new_files(output, names, overwrite=args.overwrite, inputs=files_read(args)) as folder:
        yield [folder / name for name in names]


def _total(sources: list[Path]) -> int | None:
    from calibrant.files.formats import open_source

    opened = [open_source(path) for path in sources]
    # A source without columns is refused when it is read.
    counts = [
        source.length(next(iter(source.columns))) if source.columns else 0 for source in opened
    ]
    return None if None in counts else sum(count or 0 for count in counts)


def apply_command(calibrator: Path, file: str = "FILE") -> str:
    """Return the command that applies a saved calibrator, as the next step of other commands.

    >>> apply_command(Path("my calibrator.json"))
    "calibrant apply 'my calibrator.json' FILE -o OUTPUT    # write the calibrated scores"
    """
    saved = shlex.quote(str(calibrator))
    return f"calibrant apply {saved} {file} -o OUTPUT    # write the calibrated scores"
