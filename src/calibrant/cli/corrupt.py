"""``calibrant corrupt``: write a copy of a file with corrupted texts or images."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from calibrant.cli.options import add_output
from calibrant.errors import InputError, printable, unknown_name

__all__ = ["add_parser", "run"]


def add_parser(commands: Any) -> None:
    """Add the command's options."""
    parser = commands.add_parser(
        "corrupt",
        help="write a copy of texts or images that is corrupted",
        description="Write a copy of a file (CoNLL, jsonl, csv, tsv, txt; also gzipped) with "
        "corrupted texts, or of an npz file or a folder with corrupted images. Tags and labels "
        "stay the same. The same seed gives the same copy.",
    )
    parser.add_argument("input", metavar="FILE", type=Path, help="a file, or a folder of images")
    parser.add_argument(
        "--kind",
        required=True,
        help="corruption, such as typos or jpeg; 'calibrant list corruptions' shows all",
    )
    parser.add_argument("--strength", type=int, default=3, help="strength from 1 to 5 (3)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the corruption (0)")
    add_output(parser, "file or new folder to write", metavar="OUT")
    text = parser.add_argument_group("text")
    text.add_argument(
        "--layout",
        metavar="NAME",
        help="layout of the file: conll, jsonl, csv or lines (by its suffix; .txt: lines)",
    )
    text.add_argument("--column", metavar="NAME", help="column that holds the text (text)")
    image = parser.add_argument_group("images")
    image.add_argument("--split", help="corrupt only this split of an npz file (all)")
    image.add_argument("--device", help="cpu or cuda (cpu)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the copy and print its size."""
    from calibrant.corruptions import IMAGE, TEXT
    from calibrant.tasks.image.picture_files import SUFFIXES

    if not args.input.exists():
        raise InputError(f"There is no file {args.input}.")
    if args.input.is_file() and args.input.suffix.lower() in SUFFIXES:
        raise InputError(f"{args.input} is one image: name the folder of images, or an npz.")
    images = args.input.is_dir() or args.input.suffix.lower() == ".npz"
    known, other = (IMAGE, TEXT) if images else (TEXT, IMAGE)
    if args.kind in other:
        has = "images" if images else "text"
        hint = " Texts are corrupted file by file." if args.input.is_dir() else ""
        raise InputError(f"{args.input} holds {has}, which '{args.kind}' is not for.{hint}")
    if args.kind not in known:
        raise unknown_name("corruption", args.kind, known)
    for name in ("layout", "column") if images else ("split", "device"):
        if getattr(args, name) is not None:
            has = "images" if images else "text"
            raise InputError(f"{args.input} holds {has}, which --{name} is not for.")
    from calibrant.charts.numbers import counted

    count = _corrupt(args, images)
    what = counted(count, "image" if images else "text")
    written = printable(str(args.output))
    print(f"{args.kind} of strength {args.strength}: {what}.\nWritten: {written}")
    return 0


def _corrupt(args: argparse.Namespace, images: bool) -> int:
    """Write the copy; return the number of texts or images."""
    from calibrant.progress import Progress

    what = (args.input, args.output, args.kind, args.strength)
    with Progress(None, "images" if images else "texts") as progress:
        how = {"seed": args.seed, "overwrite": args.overwrite, "progress": progress.advance}
        if images:
            from calibrant.tasks.corrupted_pictures import corrupt_pictures

            return corrupt_pictures(*what, split=args.split, device=args.device or "cpu", **how)
        from calibrant.tasks.corrupted_files import corrupt_file

        return corrupt_file(*what, layout=args.layout, column=args.column, **how)
