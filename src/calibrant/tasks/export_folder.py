"""The folder of an export: its manifest, the checksums of its files, and its predictor."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from calibrant.errors import InputError
from calibrant.inputs import read_signed
from calibrant.policies import Policy, load_policy
from calibrant.tasks import TASKS, task_of
from calibrant.tasks.predictor import Predictor
from calibrant.tasks.run_files import read_labels
from calibrant.tasks.scoring import OnnxScorer

__all__ = [
    "MANIFEST",
    "MODEL",
    "is_export",
    "load_export",
    "read_manifest",
    "read_policies",
    "write_manifest",
]

MANIFEST, MODEL = "manifest.json", "model.onnx"
_SIGNATURE, _FORMAT = "calibrant export", 1
_AGAIN = "copy it again, or run 'calibrant export' again"


def is_export(folder: Path) -> bool:
    """Return whether a folder holds an export, whole or damaged."""
    return (folder / MANIFEST).exists() and not (folder / "recipe.json").exists()


def write_manifest(folder: Path, content: Mapping[str, Any]) -> None:
    """Write the manifest of all files in the folder, each with its size and SHA-256."""
    from calibrant import __version__

    files = sorted(path for path in folder.rglob("*") if path.is_file())
    sums = {
        path.relative_to(folder).as_posix(): {
            "bytes": path.stat().st_size,
            "sha256": _checksum(path),
        }
        for path in files
    }
    header = {"signature": _SIGNATURE, "format": _FORMAT, "version": __version__}
    whole = json.loads(json.dumps({**header, **content, "files": sums}))  # As a reader has it.
    text = json.dumps({**whole, "sha256": _own_sum(whole)}, indent=1, ensure_ascii=False)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest, and check that every file is there as it was written."""
    path = folder / MANIFEST
    content = read_signed(path, f"no manifest of an export: {_AGAIN}", _SIGNATURE, _FORMAT)
    task, files = content.get("task"), content.get("files")
    if task not in TASKS or not isinstance(content.get("settings"), dict):
        raise InputError(f"{path} is damaged: it names no task and settings; {_AGAIN}.")
    if not isinstance(files, dict) or MODEL not in files:
        raise InputError(f"{path} is damaged: it lists no {MODEL}; {_AGAIN}.")
    own = content.pop("sha256", None)  # The first exports have none.
    if own is not None and own != _own_sum(content):
        raise InputError(
            f"{path} is damaged: it is not the manifest that was exported (its checksum differs); "
            f"{_AGAIN}."
        )
    for name, about in files.items():
        _check_file(folder, name, about)
    return content


def _own_sum(content: Mapping[str, Any]) -> str:
    """Return the checksum of a manifest, whatever the order and spaces of its text."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _check_file(folder: Path, name: str, about: Any) -> None:
    inside = PurePosixPath(name)
    if inside.is_absolute() or ".." in inside.parts or not isinstance(about, dict):
        raise InputError(f"{folder / MANIFEST} is damaged: '{name}' is not a file of an export.")
    path = folder / inside
    if not path.is_file():
        raise InputError(f"{folder} is damaged: it has no {name}; {_AGAIN}.")
    if path.stat().st_size != about.get("bytes") or _checksum(path) != about.get("sha256"):
        raise InputError(
            f"{folder} is damaged: {name} is not the file that was exported (its checksum differs);"
            f" {_AGAIN}."
        )


def load_export(folder: Path) -> Predictor:
    """Return the predictor of an export; needs onnxruntime, and tokenizers for texts."""
    manifest = read_manifest(folder)
    labels = read_labels(folder)
    try:
        found = task_of(manifest["task"]).exported(
            folder, labels, manifest["settings"], OnnxScorer(folder / MODEL)
        )
    except (LookupError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{folder / MANIFEST} is damaged: {type(error).__name__} {error}."
        ) from None
    found.model = manifest.get("model")
    found.policies = read_policies(folder)
    return found


def read_policies(folder: Path) -> dict[str, Policy]:
    """Read the policies of a run or export: ``policies/NAME.json`` is called ``NAME``."""
    return {path.stem: load_policy(path) for path in sorted((folder / "policies").glob("*.json"))}


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if _HAS_DIGEST else _plain(file)


_HAS_DIGEST = hasattr(hashlib, "file_digest")  # From Python 3.11 on.


def _plain(file: Any) -> str:
    digest = hashlib.sha256()
    while block := file.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()
