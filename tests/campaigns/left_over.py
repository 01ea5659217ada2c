"""What a command leaves in its folder, and how it differs from what it should."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path


def hidden(folder: Path) -> list[str]:
    return [str(p.relative_to(folder)) for p in folder.rglob(".calibrant-*")]


def content(folder: Path) -> dict[str, str]:
    """Each file that has its name, with a digest of what in it does not depend on the clock."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not any(part.startswith(".") for part in name.split("/")):
            found[name] = hashlib.sha256(lasting(path)).hexdigest()[:16]
    return found


def lasting(path: Path) -> bytes:
    raw = path.read_bytes()
    if path.parent.name == "runs" or path.name == "metrics.json":
        record = json.loads(raw)
        record.pop("circumstances")
        record["training"].pop("seconds", None)
        return json.dumps(record, sort_keys=True).encode()
    if path.name == "log.jsonl":
        rows = [json.loads(line) for line in raw.splitlines()]
        return json.dumps([{k: v for k, v in r.items() if k != "seconds"} for r in rows]).encode()
    return raw


def differences(found: dict[str, str], whole: dict[str, str]) -> list[str]:
    lines = [f"{name} is missing" for name in whole.keys() - found.keys()]
    lines += [f"{name} is too much" for name in found.keys() - whole.keys()]
    lines += [
        f"{name} differs" for name in found.keys() & whole.keys() if found[name] != whole[name]
    ]
    return sorted(lines)
