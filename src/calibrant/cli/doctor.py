"""``calibrant doctor``: what is installed, what each extra would add, and what works here."""

from __future__ import annotations

import argparse
import os
import platform
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from calibrant import __version__
from calibrant.cli.document import document
from calibrant.cli.options import add_json
from calibrant.cli.table import render_table

__all__ = ["EXTRAS", "add_parser", "run"]

# What each extra adds; the packages themselves are those of the installed metadata.
EXTRAS = {
    "fast": "compiled metrics and calibrators for large files",
    "files": "parquet, arrow and safetensors files, and quick csv and jsonl",
    "plots": "figures for papers (the HTML reports need nothing)",
    "torch": "losses and training methods for loops of your own",
    "transformers": "train, wrap and predict; Trainer; entities from Hugging Face models",
    "data": "corpora of the Hugging Face hub, and images in their files",
    "lightning": "training methods in Lightning modules",
    "image": "image encoders of timm, and corruptions of images",
    "ray": "experiments, audits, fits and predictions on a Ray cluster (--engine ray)",
    "spark": "audits, fits and calibrated copies on Spark (--engine spark; needs Java)",
    "delta": "Delta tables, with --engine",
    "iceberg": "Iceberg tables, with --engine",
    "sklearn": "CalibratedClassifier, and scikit-learn models by their own interface",
    "spacy": "a spaCy component that sets the confidence of entities",
    "onnx": "export: runs that predict without torch",
    "runtime": "what an export needs to predict",
    "serve": "a service with a page, and the page for reviewing",
    "tensorboard": "curves of training in TensorBoard",
}

STATES = {"ok": "works", "none": "not there", "broken": "BROKEN"}


@dataclass(frozen=True)
class Check:
    """One thing that was tried: its state is a key of :data:`STATES`."""

    name: str
    state: str
    detail: str


@dataclass(frozen=True)
class Extra:
    """An extra: whether it is complete, which packages it lacks, which of them are too old."""

    name: str
    adds: str
    complete: bool
    missing: list[str]
    too_old: list[str]
    install: str


def add_parser(commands: Any) -> None:
    """Add the command's options."""
    parser = commands.add_parser(
        "doctor",
        help="show what is installed, what each extra would add, and what works",
        description="Show what is installed, what each extra would add, and whether compiled "
        "kernels, the GPU and the data directories work. The exit code is 1 if something that "
        "is installed does not work.",
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the checks and the extras."""
    checks = [check for look in CHECKS for check in look()]
    extras = list(_extras())
    broken = any(check.state == "broken" for check in checks)
    if args.json:
        rows = {"checks": list(map(asdict, checks)), "extras": list(map(asdict, extras))}
        print(document("doctor", {"version": __version__, "works": not broken, **rows}))
    else:
        cells = [[check.name, STATES[check.state], check.detail] for check in checks]
        print(render_table(["part", "state", "detail"], cells))
        if extras:
            print()
            print(render_table(["extra", "state", "adds"], list(map(_extra_cells, extras))))
    return int(broken)


def _extra_cells(extra: Extra) -> list[str]:
    if extra.complete:
        return [extra.name, "installed", extra.adds]
    lacks = [*extra.missing, *(f"newer {name}" for name in extra.too_old)]
    state = "partly there" if extra.too_old else "not there"
    return [extra.name, state, f"{extra.adds}; lacks {', '.join(lacks)}: {extra.install}"]


def _extras() -> Iterator[Extra]:
    """Yield every extra; none if calibrant runs from a source tree that was never installed."""
    needs = _requirements()
    for name, adds in EXTRAS.items() if needs else ():
        missing, too_old = [], []
        for package, least in needs.get(name, {}).items():
            version = _version(package)
            if version is None:
                missing.append(package)
            elif _numbers(version) < _numbers(least):
                too_old.append(package)
        install = f"pip install 'calibrant[{name}]'"
        yield Extra(name, adds, not missing and not too_old, missing, too_old, install)


def _requirements() -> dict[str, dict[str, str]]:
    """Return the packages of each extra with their least versions.

    The build has replaced extras of extras (``calibrant[torch]``) by their packages.
    """
    try:
        listed = metadata.requires("calibrant") or []
    except metadata.PackageNotFoundError:
        return {}
    found: dict[str, dict[str, str]] = {}
    for line in listed:
        needed, _, marker = line.partition(";")
        below = re.search(r"python_version < ['\"]([\d.]+)", marker)
        if below and _numbers(platform.python_version()) >= _numbers(below.group(1)):
            continue
        package, _, least = needed.partition(">=")
        for extra in re.findall(r"extra == ['\"]([\w-]+)['\"]", marker):
            found.setdefault(extra, {})[package.strip()] = least.strip() or "0"
    return found


def _numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version.

    >>> _numbers("2.13.0+cpu") > _numbers("2.4")
    True
    """
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+")[0])[:3])


def _version(package: str) -> str | None:
    """Return the version of an installed package, whose own extras do not count.

    >>> _version("numpy[extra]") == _version("numpy")
    True
    """
    try:
        return metadata.version(package.partition("[")[0])
    except metadata.PackageNotFoundError:
        return None


def _base() -> Iterator[Check]:
    where = Path(__file__).parents[1]
    yield Check("calibrant", "ok", f"{__version__} in {where}")
    yield Check("Python", "ok", f"{platform.python_version()} on {platform.platform(terse=True)}")
    yield Check("NumPy", "ok", str(_version("numpy")))


def _kernels() -> Iterator[Check]:
    """Compare a compiled metric with the one of NumPy."""
    name, choice = "kernels", os.environ.get("CALIBRANT_KERNELS", "auto")
    if choice == "numpy":
        yield Check(name, "none", "CALIBRANT_KERNELS=numpy keeps them off")
    elif find_spec("numba") is None:
        yield Check(name, "none", "metrics use NumPy; pip install 'calibrant[fast]'")
    else:
        yield _tried(name, _compare_kernels)


def _compare_kernels() -> str:
    import numpy as np

    from calibrant import Predictions, ece

    logits = np.random.default_rng(0).normal(size=(2000, 5))
    predictions = Predictions.from_logits(logits, np.arange(2000) % 5)
    values, start = [], time.perf_counter()
    before = os.environ.get("CALIBRANT_KERNELS")
    try:
        for choice in ("numpy", "numba"):
            os.environ["CALIBRANT_KERNELS"] = choice
            values.append(ece(predictions))
    finally:
        os.environ.pop("CALIBRANT_KERNELS")
        os.environ.update({} if before is None else {"CALIBRANT_KERNELS": before})
    if not np.isclose(values[0], values[1]):
        raise RuntimeError(f"compiled metrics differ from NumPy: {values}")
    return f"numba {_version('numba')}; loaded in {time.perf_counter() - start:.1f} s"


def _gpu() -> Iterator[Check]:
    if find_spec("torch") is None:
        yield Check("torch", "none", "needed to train and predict; pip install 'calibrant[torch]'")
        return
    yield _tried("torch", lambda: str(__import__("torch").__version__))
    yield _tried("GPU", _multiply_on_gpu)


def _multiply_on_gpu() -> str | None:
    import torch

    if not torch.cuda.is_available():
        return None
    ones = torch.ones(64, 64, device="cuda")
    if float((ones @ ones).sum()) != 64.0**3:
        raise RuntimeError("a product of matrices is wrong")
    triton = "with Triton kernels" if find_spec("triton") else "without Triton kernels"
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return f"{', '.join(names)}; {triton}"


def _folders() -> Iterator[Check]:
    """Try the folders that environment variables name, and the one for temporary files."""
    for variable, use in (
        ("CALIBRANT_DATA", "corpora by name"),
        ("CALIBRANT_ENCODERS", "encoders by name"),
    ):
        value = os.environ.get(variable)
        if not value:
            yield Check(variable, "none", f"not set; a folder with {use}")
        else:
            yield _tried(variable, lambda value=value: _list_folder(value))  # type: ignore[misc]
    yield _tried("temporary files", _write_temporary)


def _list_folder(folder: str) -> str:
    names = sorted(path.name for path in Path(folder).iterdir() if path.is_dir())
    return f"{folder}: {', '.join(names[:8])}{', …' if len(names) > 8 else ''}"


def _write_temporary() -> str:
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"calibrant")
    return tempfile.gettempdir()


def _tried(name: str, look: Callable[[], str | None]) -> Check:
    """Run a check; what it returns is the detail (None: there is none), what it raises too."""
    try:
        detail = look()
    except Exception as error:  # Whatever a broken installation raises is the finding.
        return Check(name, "broken", f"{type(error).__name__}: {error}".split("\n")[0])
    return Check(name, "none", "not found") if detail is None else Check(name, "ok", detail)


CHECKS: tuple[Callable[[], Iterator[Check]], ...] = (_base, _kernels, _gpu, _folders)
