"""Records: the recipe of a run, its results, and where it ran; written, found and read."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calibrant import __version__
from calibrant.errors import InputError
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.record_checks import checked_results, checked_training
from calibrant.inputs import check_file, parse_json
from calibrant.json_values import json_values
from calibrant.old_names import warn_renamed
from calibrant.outputs import make_folder, new_file

__all__ = [
    "TITLES",
    "Record",
    "circumstances",
    "located_records",
    "read_record",
    "read_records",
    "recorded",
    "under_own_word",
    "write_titles",
]

TITLES = "titles.txt"  # Beside records: the titles of their recipes, one on each line.
_OF_RUN = "metrics.json"  # As a folder of a single run calls its record.


@dataclass(frozen=True)
class Record:
    """One finished run.

    ``results`` are calibrator → split → metric: the calibrators of the recipe, and the one that
    predictions use, under the recipe's own word for it, ``"auto"`` or a name. ``training`` has the
    steps, epochs and seconds, the mean loss over all steps and in parts (``loss_curve``), notes,
    and the name of that calibrator (``calibrator``).
    """

    recipe: Recipe
    results: dict[str, Any]
    training: dict[str, Any]
    circumstances: dict[str, Any]

    def by_calibrator(self) -> dict[str, Any]:
        """Return the results by calibrator: ``"auto"`` is replaced by the one that was chosen."""
        word, chosen = self.recipe.calibrator, self.training.get("calibrator")
        if chosen is None or word not in self.results:
            return self.results
        others = {name: found for name, found in self.results.items() if name != word}
        return {**others, chosen: self.results[word]}

    def by_map(self) -> dict[str, Any]:
        """Return :meth:`by_calibrator`: the old name."""
        warn_renamed("Record.by_map", "Record.by_calibrator")
        return self.by_calibrator()

    def write(self, folder: Path, name: str | None = None) -> Path:
        """Write ``folder/KEY.json``, or another name, atomically."""
        path = folder / (name or f"{self.recipe.key}.json")
        content = {
            "recipe": self.recipe.to_dict(),
            "results": self.results,
            "training": self.training,
            "circumstances": self.circumstances,
        }
        with new_file(path, overwrite=True) as unfinished:
            unfinished.write_text(json.dumps(json_values(content), indent=1))
        return path


def under_own_word(results: dict[str, Any], recipe: Recipe, calibrator: str) -> dict[str, Any]:
    """Put the results of the chosen calibrator under the recipe's own word, such as ``"auto"``.

    The other calibrators are those of the recipe, with the same parts in all runs: the mean over
    the runs that chose a calibrator is not the mean of that calibrator.
    """
    others = {name: dict(results[name]) for name in recipe.measure}
    for numbers in others.values():  # Only the chosen calibrator has them.
        numbers.pop("entities", None)
    if calibrator in recipe.measure[2:]:  # Under shift all runs have the first two.
        others[calibrator].pop("shift", None)
    return {**others, recipe.calibrator: results[calibrator]}


def write_titles(folder: Path, titles: Iterable[str]) -> None:
    """Add titles of recipes to a folder of records, each once."""
    path = make_folder(folder) / TITLES
    before = path.read_text("utf-8").splitlines() if path.is_file() else []
    found = list(dict.fromkeys([*before, *(" ".join(title.split()) for title in titles)]))
    if found and found != before:
        with new_file(path, overwrite=True) as unfinished:
            unfinished.write_text("".join(f"{title}\n" for title in found if title), "utf-8")


def read_record(path: Path) -> Record:
    """Read the record in a file."""
    return next(record for _, record in _in_file(path))


def read_records(path: str | Path) -> Iterator[Record]:
    """Read the records of a folder, or of one file.

    In a folder: one JSON each, ``.jsonl`` files, and the ``metrics.json`` of finished runs, whether
    the folder holds them or is one.
    """
    yield from (record for _, record in located_records(path))


def located_records(path: str | Path) -> Iterator[tuple[str, Record]]:
    """Read the same, each with its file and line."""
    path = Path(path)
    if not path.is_dir():
        yield from _in_file(path)
        return
    if (path / _OF_RUN).exists():  # The folder also holds files that are not records.
        yield from _in_file(path / _OF_RUN)
        return
    # Not the hidden ones: those are being written, or were when their writer was killed.
    for pattern in ("[!.]*.json", "[!.]*.jsonl", f"[!.]*/{_OF_RUN}"):
        for found in sorted(path.glob(pattern)):
            yield from _in_file(found)


def _in_file(path: Path) -> Iterator[tuple[str, Record]]:
    check_file(path)
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a file of records: it holds no text.") from None
    if path.suffix != ".jsonl":
        yield str(path), _record(text, str(path))
        return
    for number, line in enumerate(text.splitlines(), start=1):
        where = f"{path}, line {number}"
        if line.strip():
            yield where, _record(line, where)


def recorded(folder: str | Path) -> set[str]:
    """Return the keys of the recipes that have a record in a folder.

    A record is a file, a line of a ``.jsonl`` file, or the ``metrics.json`` of a run's folder. An
    incomplete file, as a full disk may leave it, does not count.
    """
    folder = Path(folder)
    files = [*folder.glob("[!.]*.jsonl"), *filter(_is_whole, folder.glob(f"[!.]*/{_OF_RUN}"))]
    gathered = (record for path in sorted(files) for _, record in _in_file(path))
    named = (path.stem for path in folder.glob("[!.]*.json") if _is_whole(path))
    return {*named, *(record.recipe.key for record in gathered)}


def _is_whole(path: Path) -> bool:
    try:
        parse_json(check_file(path).read_bytes())
    except (OSError, ValueError):
        return False
    return True


def circumstances() -> dict[str, Any]:
    """Describe versions, hardware and the state of the source tree."""
    found: dict[str, Any] = {
        "calibrant": __version__,
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "git": _git(),
    }
    for name in ("numpy", "torch", "transformers"):
        if name in sys.modules:
            found[name] = sys.modules[name].__version__
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        found["device"] = torch.cuda.get_device_name()
    together = None if torch is None else torch.distributed
    if together is not None and together.is_available() and together.is_initialized():
        found["processes"] = together.get_world_size()
    return found


def _git() -> str | None:
    """Return the commit of the source tree, with + after changes; None outside of one."""
    here = Path(__file__).parent
    try:
        answer = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--abbrev=12"],
            cwd=here,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()


def _record(text: str, where: str) -> Record:
    try:
        content = parse_json(text)
        recipe = Recipe.from_dict(content["recipe"])
        results = checked_results(content["results"])
        training = checked_training(content["training"])
        chosen = str(training.get("calibrator"))
        if recipe.calibrator not in results and {chosen, *recipe.measure} <= set(results):
            # Runs of earlier versions had it under its name.
            results = under_own_word(results, recipe, chosen)
        return Record(recipe, results, training, dict(content["circumstances"]))
    except KeyError as error:
        raise InputError(f"{where} is not a record: it has no {error}.") from None
    except json.JSONDecodeError as error:
        alone = where.endswith(".json")  # And no line of many.
        hint = " What was cut short, 'calibrant bench' makes again." if alone else ""
        raise InputError(f"{where} is not a record: {error}.{hint}") from None
    except (ValueError, TypeError, AttributeError) as error:
        reason = str(error).rstrip(".")
        raise InputError(f"{where} is not a record: {reason}.") from None
