"""Build the site: stage the pages, run their code, write the reference, call Sphinx.

    python scripts/docs/build.py            # site/
    python scripts/docs/build.py --quick    # without running the pages

Warnings and broken links are errors. Nothing is fetched: formulas become MathML, fonts are the
system's.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "src")]

from execution import QUIET, run_pages  # noqa: E402
from pages import stage  # noqa: E402
from reference import write_reference  # noqa: E402


def main() -> int:
    """Build the site; return Sphinx's exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="do not run the pages")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "site")
    args = parser.parse_args()
    start = time.perf_counter()
    os.environ.update(QUIET)  # Before the reference imports what reads it.
    with tempfile.TemporaryDirectory() as temporary:
        source = Path(temporary) / "source"
        stage(source, write_reference(source / "reference"))
        if not args.quick:
            run_pages(source)
        code = call_sphinx(source, args.output)
    print(f"{args.output}: built in {time.perf_counter() - start:.0f} s")
    return code


def call_sphinx(source: Path, output: Path) -> int:
    """Write the HTML pages; a warning is an error."""
    from sphinx.cmd.build import build_main

    # Documents are large trees that live until the end: to look for garbage among them takes a
    # quarter of Sphinx's time.
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)
    shutil.rmtree(output, ignore_errors=True)
    strict = ["--fail-on-warning", "--keep-going", "--quiet", "--jobs", "auto"]
    extra = source.parent / "extra"
    extra.mkdir(exist_ok=True)
    settings = ["-c", str(HERE), "-D", f"html_extra_path={extra}"]
    code = build_main(["-b", "html", *settings, *strict, str(source), str(output)])
    shutil.rmtree(output / ".doctrees", ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
