"""Describe the machine and the versions behind a measurement."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

__all__ = ["circumstances", "cores", "load", "write_results"]


def circumstances(packages: Iterable[str]) -> dict[str, Any]:
    """Return versions, processor, cores, load and commit."""
    about = Path("/proc/cpuinfo")
    names = about.read_text().splitlines() if about.exists() else []
    return {
        "versions": {"python": platform.python_version(), **{p: _version(p) for p in packages}},
        "processor": next((n.split(": ")[1] for n in names if "model name" in n), ""),
        "cores": cores(),
        "load": load(),
        "commit": _git("rev-parse", "HEAD"),
        "changed": bool(_git("status", "--porcelain", "--", "../src")),
    }


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def load() -> tuple[float, ...] | None:
    """Of 1, 5 and 15 minutes: programs that need a processor, at the end this one among them."""
    return os.getloadavg() if hasattr(os, "getloadavg") else None


def write_results(results: dict[str, Any], path: Path | None) -> None:
    """Write the results as JSON, if there is a path."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(results, indent=2) + "\n")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _git(*words: str) -> str:
    here = Path(__file__).parent
    done = subprocess.run(["git", *words], capture_output=True, text=True, cwd=here, check=False)
    return done.stdout.strip()
