"""Run the pages that have code to run: put outputs and pictures under it, and write notebooks.

A block of a page runs if the word ``run`` follows its language, ``python`` or ``sh``. Blocks of a
page share their variables and a temporary folder. More words change what is shown:

- ``hide``: the block runs and is not shown,
- ``quiet``: without what it prints,
- ``fails``: the command must end with exit code 2; its message is shown,
- ``show=FILE``: the HTML file that it wrote is embedded.

The comment ``<!-- needs: files,plots -->`` names the extras of a page, for its notebook.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import posixpath
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"^```(python|sh) run([^\n]*)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
NEEDS = re.compile(r"<!-- needs: ([\w,]*) -->\n")
SITE = "https://calibrant.github.io/calibrant/"
KERNEL = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
# A kernel may run in an environment that is not active: its commands are beside its Python.
PATH = """\
import os, sys
os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
"""
EXTRA = "../extra"  # Beside the pages: files that the site takes as they are.
# The environment of a page: offline, one thread, tables of one width.
QUIET = {"MPLBACKEND": "agg", "COLUMNS": "86", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}


def run_pages(source: Path) -> None:
    """Run the pages in one process per core.

    Where it is safe, they are copies of this process, which has imported the large libraries.
    """
    pages = [page for page in sorted(source.rglob("*.md")) if BLOCK.search(page.read_text("utf-8"))]
    # Those that train take longest, so they start first.
    pages.sort(key=lambda page: "transformers" not in needs_of(page.read_text("utf-8")))
    places = [page.relative_to(source).as_posix() for page in pages]
    context = get_context("fork" if sys.platform == "linux" else "spawn")
    with ProcessPoolExecutor(max(2, os.cpu_count() or 2), context) as pool:
        if failed := [error for error in pool.map(run_page, repeat(source), places) if error]:
            raise SystemExit("\n".join(failed))


def needs_of(text: str) -> str:
    """Return the extras that a page names.

    >>> needs_of("# A page\\n\\n<!-- needs: files,plots -->\\n")
    'files,plots'
    """
    found = NEEDS.search(text)
    return found.group(1) if found else ""


def run_page(source: Path, place: str) -> str:
    """Run one page; return what went wrong, or nothing."""
    start = time.perf_counter()
    warnings.simplefilter("error", DeprecationWarning)
    try:
        Page(source, place).run()
    except BaseException:  # Also SystemExit, with which a command ends.
        return f"{place}:\n{traceback.format_exc()}"
    print(f"{time.perf_counter() - start:5.1f} s  {place}", flush=True)
    return ""


class Page:
    """A page that runs: its variables, and where its pictures go."""

    def __init__(self, source: Path, place: str) -> None:
        self.source, self.place = source, place
        self.name = place.removesuffix(".md").replace("/", "-")
        self.up = "../" * place.count("/")
        self.variables: dict[str, Any] = {"__name__": "__main__"}
        self.pictures = 0

    def run(self) -> None:
        """Run all blocks; write the page with their outputs, and its notebook."""
        path = self.source / self.place
        text = path.read_text("utf-8")
        notebook = self.write_notebook(text)
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            text = BLOCK.sub(self.run_block, text)
        path.write_text(re.sub(r"^(# .+\n)", rf"\1\n{notebook}\n", text, count=1), "utf-8")

    def run_block(self, found: re.Match[str]) -> str:
        """Run one block; return what the page shows of it."""
        language, words, code = found.group(1), found.group(2).split(), found.group(3)
        if language == "sh":
            shown = self.run_shell(code, fails="fails" in words)
        else:
            shown = self.run_python(code)
        shown = "" if "quiet" in words else shown
        for word in words:
            if word.startswith("show="):
                shown += self.embed(word.removeprefix("show="))
        return shown if "hide" in words else f"```{language}\n{code}```\n{shown}"

    def run_shell(self, code: str, *, fails: bool) -> str:
        """Run the commands of a block, calibrant's own in this process."""
        printed = io.StringIO()
        for line in code.replace("\\\n", " ").strip().splitlines():
            words = shlex.split(line, comments=True)
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                ended = call(words)
            if ended != (2 if fails else 0):
                raise SystemExit(f"{line}\n{printed.getvalue()}")
        return text_block(printed.getvalue())

    def run_python(self, code: str) -> str:
        """Run a block; return what it prints, and its last value or figure."""
        tree = ast.parse(code)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, self.place, "exec"), self.variables)
            value = None
            if isinstance(last, ast.Expr):
                expression = compile(ast.Expression(last.value), self.place, "eval")
                value = eval(expression, self.variables)
        return text_block(printed.getvalue()) + self.value_block(value)

    def value_block(self, value: Any) -> str:
        """Return what a notebook would show of a value."""
        if value is None:
            return ""
        if type(value).__name__ == "Figure":
            return self.picture(value)
        if hasattr(value, "_repr_html_"):
            return f"\n```{{raw}} html\n<div class='output'>{value._repr_html_()}</div>\n```\n"
        return text_block(repr(value))

    def picture(self, figure: Any) -> str:
        """Save a figure; return the picture."""
        self.pictures += 1
        file = f"pictures/{self.name}-{self.pictures}.svg"
        (self.source / "pictures").mkdir(exist_ok=True)
        figure.savefig(self.source / file, bbox_inches="tight")
        return f"\n![Figure {self.pictures} of this page]({self.up}{file})\n"

    def embed(self, file: str) -> str:
        """Embed a page that a block wrote."""
        target = f"embedded/{self.name}/{file}"
        to = (self.source / EXTRA / target).parent
        to.mkdir(parents=True, exist_ok=True)
        if "/" in file:  # The page of a folder needs what lies beside it.
            shutil.copytree(Path(file).parent, to, dirs_exist_ok=True)
        else:
            shutil.copy(file, to)
        frame = f'<iframe src="{self.up}{target}" title="{file}" loading="lazy"'
        style = 'style="width:100%;height:32rem;border:1px solid #8888"></iframe>'
        link = f'<p><a href="{self.up}{target}">Open {file} as a page of its own</a></p>'
        return f"\n```{{raw}} html\n{frame} {style}{link}\n```\n"

    def write_notebook(self, text: str) -> str:
        """Write the page as a notebook without outputs; return the link to it."""
        extras = f"[{needs}]" if (needs := needs_of(text)) else ""
        cells = [code_cell(f"%pip install --quiet 'calibrant{extras}'\n%matplotlib inline\n{PATH}")]
        parts = BLOCK.split(with_web_links(NEEDS.sub("", text), self.place))
        for start in range(0, len(parts), 4):
            cells += [markdown_cell(parts[start])] if parts[start].strip() else []
            if start + 3 < len(parts):
                language, words, code = parts[start + 1 : start + 4]
                cells.append(code_cell(code if language == "python" else bang(code)))
                cells += [code_cell(frame(word[5:])) for word in words.split() if "show=" in word]
        cells = [cell | {"id": f"cell-{number}"} for number, cell in enumerate(cells)]
        target = f"notebooks/{self.name}.ipynb"
        (self.source / EXTRA / "notebooks").mkdir(parents=True, exist_ok=True)
        book = {"cells": cells, "metadata": KERNEL, "nbformat": 4, "nbformat_minor": 5}
        (self.source / EXTRA / target).write_text(json.dumps(book, indent=1), "utf-8")
        link = f'<p><a href="{self.up}{target}" download>Download this page as a notebook</a></p>'
        return f"```{{raw}} html\n{link}\n```\n"


def call(words: list[str]) -> int:
    """Run one command; return its exit code."""
    if words[0] != "calibrant":
        done = subprocess.run(words, capture_output=True, text=True)
        print(done.stdout + done.stderr, end="")
        return done.returncode
    from calibrant.cli import main

    try:
        return main(words[1:])
    except SystemExit as end:
        return int(end.code or 0)


def text_block(text: str) -> str:
    """Return printed text as a block, shortened if it is long."""
    lines = [re.sub(r"\x1b\[[\d;]*m", "", line.split("\r")[-1]) for line in text.splitlines()]
    if len(lines) > 96:  # An audit is shown whole.
        lines = [*lines[:88], f"… {len(lines) - 88} more lines"]
    return "\n```text\n" + "\n".join(lines).strip("\n") + "\n```\n" if any(lines) else ""


def bang(code: str) -> str:
    """Return shell commands as a notebook runs them."""
    return "\n".join(f"!{line}" if line[:1].isalpha() else line for line in code.splitlines())


def frame(file: str) -> str:
    """Return code that shows a page which lies beside the notebook."""
    return f'from IPython.display import IFrame\n\nIFrame("{file}", width="100%", height=500)'


def with_web_links(text: str, place: str) -> str:
    """Return a page whose links lead to the site, as a notebook lies elsewhere.

    >>> with_web_links("[a](../files.md#csv) [b](https://c.org)", "tutorials/a.md")
    '[a](https://calibrant.github.io/calibrant/files.html#csv) [b](https://c.org)'
    """

    def changed(found: re.Match[str]) -> str:
        path, mark, anchor = found.group(1).partition("#")
        target = posixpath.normpath(posixpath.join(posixpath.dirname(place), path))
        return f"]({SITE}{re.sub(r'[.]md$', '.html', target)}{mark}{anchor})"

    return re.sub(r"\]\((?!\w+:|#)([^()\s]+)\)", changed, text)


def code_cell(code: str) -> dict[str, Any]:
    """Return a cell of code."""
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []} | {
        "source": code.strip("\n")
    }


def markdown_cell(text: str) -> dict[str, Any]:
    """Return a cell of text."""
    return {"cell_type": "markdown", "metadata": {}, "source": text.strip()}
