"""Write the API reference: a page for each public module, with all names of its ``__all__``.

Descriptions, formulas and examples are those of the docstrings. Papers come from the tables of
metrics, calibrators and methods, and names in other libraries from ``elsewhere.py``.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from elsewhere import ELSEWHERE

# Module → title of its page, in the order of the navigation.
MODULES = {
    "calibrant": "Top level",
    "calibrant.metrics": "Metrics",
    "calibrant.calibrators": "Calibrators",
    "calibrant.methods": "Training methods",
    "calibrant.losses": "Losses",
    "calibrant.policies": "Guarantees",
    "calibrant.comparison": "Comparing calibrators",
    "calibrant.auditing": "Audits",
    "calibrant.entities": "Entities of any tool",
    "calibrant.watching": "Watching",
    "calibrant.adapting": "Adapting",
    "calibrant.files": "Files",
    "calibrant.plots": "Figures",
    "calibrant.report": "Reports",
    "calibrant.training": "Training",
    "calibrant.corruptions": "Corruptions",
    "calibrant.export": "Exports",
    "calibrant.serving": "Serving",
    "calibrant.study": "Studies",
    "calibrant.distributed": "Distributed",
    "calibrant.errors": "Errors",
}
# What a constant or table is; its page also shows its value.
DATA = {
    "CALIBRATORS": "All calibrators, from the simplest to the most flexible.",
    "FORMATS": "All file formats.",
    "IGNORED": "The label of examples that count nowhere, such as padding.",
    "IMAGE": "All corruptions of images.",
    "IMAGE_COPIES": "The corruptions of the copies of images that a calibrator learns from.",
    "LABELLED": "The group that says which labels of a stream mean something.",
    "METHODS": "All training methods.",
    "METRICS": "All metrics.",
    "NOISES": "All kinds of noise for ``HeadNoise``.",
    "Paths": "What names files: one path, or several.",
    "REPLICATES": "Bootstrap replicates behind the choice of a calibrator without intervals.",
    "RANDOM_DAMAGE": "The random corruptions that a signal of damage learns from.",
    "STRENGTHS": "The strengths of corruptions.",
    "TEXT": "All corruptions of texts.",
    "TEXT_COPIES": "The corruptions of the copies of texts that a calibrator learns from.",
}
# Names without an example in their docstring: why, the page that shows their use, and how it does.
SHOWN_ELSEWHERE = {
    "Trainer": ("trains a model of transformers", "tutorials/hugging-face", "Trainer("),
    "WrappedModel": ("needs a fine-tuned model", "sources", "= wrap("),
    "wrap": ("needs a fine-tuned model", "sources", "wrap("),
    "export_run": ("needs a trained run", "deploy", "calibrant export"),
    "run_by_onnxruntime": ("needs a trained run", "serving", "run_by_onnxruntime"),
    "fold_temperature": ("needs a trained run", "deploy", "--fold-temperature"),
    "app": ("needs a trained run", "serving", "app("),
    "apply": ("needs a table of Ray or Spark", "clusters", "apply("),
    "predict": ("needs a trained run", "clusters", "predict("),
    "using_engine": ("needs a cluster", "clusters", "using_engine("),
}


def write_reference(folder: Path) -> list[str]:
    """Write all pages; return their names."""
    folder.mkdir(parents=True)
    names = []
    for module, title in MODULES.items():
        name = f"{module.rpartition('.')[2]}.rst"
        (folder / name).write_text(page(module, title), "utf-8")
        names.append(name)
    return names


def page(module: str, title: str) -> str:
    """Return one page: what the module is for, then its names."""
    loaded = importlib.import_module(module)
    lines = [title, "=" * len(title), "", f".. py:module:: {module}", ""]
    if module == "calibrant":
        return "\n".join([*lines, *top_level(loaded)])
    lines += [f"``{module}``: " + first_sentence(loaded), ""]
    for name in sorted(loaded.__all__, key=str.lower):
        lines += [*entry(module, name, getattr(loaded, name)), ""]
    return "\n".join(lines)


def first_sentence(thing: Any) -> str:
    """Return the first paragraph of a docstring on one line."""
    return " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())


def top_level(module: Any) -> Iterator[str]:
    """Yield a table of the names of ``calibrant`` itself, most of which other pages explain."""
    yield from ["What ``import calibrant`` offers.", ""]
    yield from [".. list-table::", "   :header-rows: 1", "", "   * - name", "     - what it is"]
    for name in sorted(module.__all__, key=str.lower):
        if name.startswith("__"):
            continue
        home = home_of(module, name) or f"calibrant.{name}"
        yield f"   * - :py:obj:`{name} <{home}>`"
        yield f"     - {linked(module, plain(first_sentence(getattr(module, name))))}"
    yield ""
    for name in sorted(module.__all__, key=str.lower):
        if not name.startswith("__") and home_of(module, name) is None:
            yield from [*entry("calibrant", name, getattr(module, name)), ""]


def home_of(module: Any, name: str) -> str | None:
    """Return where another page of the reference has this object, if one has."""
    for other in map(importlib.import_module, list(MODULES)[1:]):
        if name in other.__all__ and getattr(other, name) is getattr(module, name):
            return f"{other.__name__}.{name}"
    return None


def linked(module: Any, text: str) -> str:
    """Return a sentence whose roles lead to where the reference has the names of a module.

    >>> import calibrant
    >>> linked(calibrant, "What :func:`audit` found.")
    'What :func:`~calibrant.auditing.audit` found.'
    """

    def changed(found: re.Match[str]) -> str:
        role, name = found.groups()
        home = home_of(module, name) if name in module.__all__ else None
        return f":{role}:`~{home}`" if home else found.group(0)

    return re.sub(r":(\w+):`(\w+)`", changed, text)


def plain(text: str) -> str:
    """Return a sentence without marks that a table would read."""
    return text.replace("|", "\\|").replace("*", "\\*").replace("_ ", "\\_ ")


def public_names() -> Iterator[tuple[str, str, Any]]:
    """Yield module, name and object of everything in the reference, once."""
    for module in MODULES:
        loaded = importlib.import_module(module)
        for name in sorted(loaded.__all__, key=str.lower):
            elsewhere = module == "calibrant" and home_of(loaded, name) is not None
            if not (name.startswith("__") or elsewhere):
                yield module, name, getattr(loaded, name)


def entry(module: str, name: str, thing: Any) -> list[str]:
    """Return the directive of one name, with its paper and other libraries' names."""
    if inspect.isclass(thing):
        directive = [f".. autoclass:: {module}.{name}", "   :members:", "   :no-index-entry:"]
        if issubclass(thing, (tuple, Exception)) or not inspect.getdoc(thing):
            directive = [f".. autoclass:: {module}.{name}", "   :no-members:"]
    elif callable(thing):
        directive = [f".. autofunction:: {module}.{name}"]
    else:
        about = ["", f"   {DATA[name]}", ""]
        return [f".. py:data:: {name}", *about, *data(thing), ""]
    notes = list(footnotes(name))
    if name in SHOWN_ELSEWHERE and ">>>" not in (inspect.getdoc(thing) or ""):
        why, where, _ = SHOWN_ELSEWHERE[name]
        notes += [f"   *Example:* this {why}; :doc:`../{where}` shows its use.", ""]
    return [*directive, "", *notes]


def data(thing: Any) -> Iterator[str]:
    """Yield what a table or constant holds: the names of its rows, with their papers."""
    if not isinstance(thing, dict):
        yield f"   ``{thing!r}``"
        return
    yield f"   A table with {len(thing)} rows:"
    yield ""
    for name, row in thing.items():
        about = getattr(row, "summary", getattr(row, "about", getattr(row, "title", "")))
        yield f"   - ``{name}``" + (f": {plain(about)}" if about else "")
    yield ""


def footnotes(name: str) -> Iterator[str]:
    """Yield the paper of a metric, calibrator or method, and who else computes it."""
    paper = papers().get(name)
    if paper and any(mark.isdigit() for mark in paper):
        yield f"   *Paper:* {paper}."
        yield ""
    if others := ELSEWHERE.get(name):
        listed = ", ".join(f"``{other}``" for other in others)
        yield f"   *Elsewhere:* {listed}. :doc:`../conventions` has the differences."
        yield ""


def papers() -> dict[str, str]:
    """Return the paper of each name in the tables."""
    from calibrant.calibrators import CALIBRATORS
    from calibrant.methods import METHODS
    from calibrant.metrics import METRICS

    found = {name: metric.paper for name, metric in METRICS.items()}
    found |= {row.calibrator.__name__: row.reference for row in CALIBRATORS.values()}
    found |= {name: row.paper for name, row in METHODS.items()}
    return found | {row.factory.partition(":")[2]: row.paper for row in METHODS.values()}
