"""Sphinx's settings; docs/decisions/0022-the-site.md says why Sphinx."""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert

import calibrant

project = "calibrant"
author = "The calibrant developers"
version = release = calibrant.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "pydata_sphinx_theme"
html_title = "calibrant"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_sidebars = {"gallery": []}  # A section of one page.
html_show_copyright = html_show_sourcelink = html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "show_nav_level": 1,
    "header_links_before_dropdown": 6,
    "github_url": "https://github.com/calibrant/calibrant",
    "footer_start": [],
    "footer_end": [],
}
html_math_renderer = "mathml"

myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 4
myst_dmath_allow_space = False
suppress_warnings = ["myst.header"]

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True, "inherited-members": False}
add_module_names = False
python_use_unqualified_type_names = True
maximum_signature_line_length = 88

# What plain text needs outside of ``code`` and :roles:`…`.
_KEPT = re.compile(r"(``.+?``|:\w+(?::\w+)?:`[^`]+`|`[^`]+`_)", re.DOTALL)


def _escape(
    _app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]
) -> None:
    """Escape marks that our docstrings use as plain text: |x|, a*b, temperature_."""
    text = "\n".join(lines)
    parts = _KEPT.split(text)
    parts[::2] = [_escape_plain(part) for part in parts[::2]]
    lines[:] = "".join(parts).split("\n")


def _escape_plain(text: str) -> str:
    lines = []
    for line in text.split("\n"):
        code = line.lstrip().startswith((">>>", "..."))
        lines.append(
            line if code else re.sub(r"(\||\*(?=\S)|(?<=\w)_(?!\w)|(?<!\w)`)", r"\\\1", line)
        )
    return "\n".join(lines)


def _visit(self: Any, node: Any, display: str) -> None:
    from docutils.nodes import SkipNode

    formula = convert(node.astext(), display=display)
    self.body.append(formula if display == "inline" else f"<p>{formula}</p>")
    raise SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Formulas become MathML when the site is built; browsers need nothing else."""
    inline = (lambda self, node: _visit(self, node, "inline"), None)
    block = (lambda self, node: _visit(self, node, "block"), None)
    app.add_html_math_renderer("mathml", inline, block)
    app.connect("autodoc-process-docstring", _escape)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
