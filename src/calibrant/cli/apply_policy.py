"""``calibrant apply --policy``: write what a policy decides about predictions."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.cli.entity_options import renamed_types
from calibrant.cli.options import columns_from, files_read, uncut
from calibrant.errors import InputError, printable
from calibrant.files.lines import CsvWriter
from calibrant.policies.decisions import joined_set

if TYPE_CHECKING:
    from calibrant.calibrators import Calibrator
    from calibrant.policies import Policy

__all__ = ["decide"]


def decide(args: argparse.Namespace) -> int:
    """Write one line for each decision, and print how many are accepted."""
    from calibrant.outputs import check_writable, new_file
    from calibrant.policies import load_policy
    from calibrant.policies.decisions import decision_records

    policy = load_policy(args.policy)
    write = _writer(args.output)
    calibrator = _calibrator(policy, args)
    inputs = [*files_read(args), args.policy]
    check_writable(args.output, overwrite=args.overwrite, inputs=inputs)
    counts: dict[str, int] = {}

    def records() -> Iterator[dict[str, Any]]:
        if policy.settings.get("source") == "entities":
            yield from _counted(_entities(policy, args), counts)
            return
        for part, numbers in _parts(policy, calibrator, args, counts):
            yield from _counted(decision_records(policy, part, numbers), counts)

    with new_file(args.output, overwrite=args.overwrite) as unfinished:
        write(records(), unfinished)
    print(f"{_summary(counts)}\nPromise: {printable(policy.promise)}")
    print(f"Written: {printable(str(args.output))}")
    return 0


def _calibrator(policy: Policy, args: argparse.Namespace) -> Calibrator | None:
    """Return the calibrator that the policy was made with; without one the first is a file too."""
    from calibrant.calibrators import load_calibrator
    from calibrant.policies import calibrator_fingerprint

    if policy.calibrator is None:
        if args.calibrator.suffix == ".json":
            raise InputError(
                f"{args.policy} was made without a calibrator: leave {args.calibrator} out, or run "
                f"'calibrant guarantee VALID --calibrator {args.calibrator}'."
            )
        args.files, args.calibrator = [str(args.calibrator), *args.files], None
        return None
    if not args.files:
        raise InputError(
            f"{args.policy} was made with a calibrator: calibrant apply CALIBRATOR FILE --policy "
            f"{args.policy}."
        )
    calibrator = load_calibrator(args.calibrator)
    policy.check(calibrator=calibrator_fingerprint(calibrator))
    return calibrator


def _parts(
    policy: Policy,
    calibrator: Calibrator | None,
    args: argparse.Namespace,
    counts: dict[str, int],
) -> Iterator[tuple[Any, np.ndarray]]:
    """Yield calibrated predictions with the numbers of their rows; tags come as a whole.

    Rows labelled −100 have no decision; ``counts`` gets their number.
    """
    from calibrant.files import expand, stream_top_labels, stream_unlabelled
    from calibrant.predictions import Predictions
    from calibrant.progress import Progress

    files, columns = expand(args.files), columns_from(args)
    first, parts, numbers = 0, list[Predictions](), []
    with Progress(None, "rows") as progress:
        stream: Iterator[Any] | None = stream_top_labels(files, columns, args.kind)
        unlabelled = uncut(lambda f: stream_unlabelled(f, columns, args.kind), files, calibrator)
        for part in stream or unlabelled:
            rows = first + (np.arange(len(part)) if part.rows is None else part.rows)
            first += len(part) + part.ignored
            counts["ignored"] = counts.get("ignored", 0) + part.ignored
            progress.advance(len(part) + part.ignored)
            mapped = part if calibrator is None else calibrator.transform(part)
            if stream is not None or (policy.items != "entities" and policy.review is None):
                yield mapped, rows
            else:  # A sentence may be in two chunks.
                parts.append(mapped)
                numbers.append(rows)
    if parts:
        yield Predictions.concatenate(parts), np.concatenate(numbers)


def _writer(output: Path) -> Callable[[Iterable[dict[str, Any]], Path], None]:
    if output.suffix not in (".jsonl", ".csv"):
        raise InputError(f"{output}: decisions are written as .jsonl or .csv.")
    return _write_csv if output.suffix == ".csv" else _write_jsonl


def _write_jsonl(records: Iterable[dict[str, Any]], path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        for record in records:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def _write_csv(records: Iterable[dict[str, Any]], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = CsvWriter(file)
        names: list[str] = []
        for record in records:
            if not names:
                names = list(record)
                writer.writerow(names)
            if "set" in record:
                record = {**record, "set": joined_set(record["set"])}
            writer.writerow(record.get(name, "") for name in names)


def _counted(records: Iterable[dict[str, Any]], counts: dict[str, int]) -> Iterator[dict[str, Any]]:
    for record in records:
        counts["all"] = counts.get("all", 0) + 1
        for key in ("accepted", "review", "size"):
            if key in record:
                counts[key] = counts.get(key, 0) + int(record[key])
        yield record


def _entities(policy: Policy, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield a decision for each entity of a tool's files; types have their names in GOLD."""
    from calibrant.entities import read_entities
    from calibrant.entities.document import rename_types

    renamed = {**policy.settings.get("renamed", {}), **renamed_types(args.types)}
    numbers = count()  # Over all files: a number names one document.
    for path in args.files:
        documents = rename_types(read_entities(path, args.spans).documents, renamed)
        for each, number in zip(documents, numbers, strict=False):
            scores, types = [e.score for e in each.entities], [e.type for e in each.entities]
            if None in scores:
                raise InputError(
                    f"{path}: document {each.id or number} has entities without score."
                )
            decisions = _of_scores(policy, scores, types) if scores else ()
            for entity, decision in zip(each.entities, decisions, strict=True):
                place = {"document": each.id or str(number), "start": entity.start}
                shown = {"end": entity.end, "type": entity.type, "confidence": entity.score}
                yield {**place, **shown, **decision}


def _of_scores(policy: Policy, scores: list[Any], types: list[str]) -> list[dict[str, bool]]:
    """Return what is accepted and, with ``--max-missed``, what is reviewed of the rest."""
    accepted = np.zeros(len(scores), bool)
    if policy.thresholds:
        accepted = policy.decide(scores, types)
    found = [{"accepted": bool(accept)} for accept in accepted]
    if policy.review is None:
        return found
    review = (np.asarray(scores, float) >= float(policy.review["threshold"])) & ~accepted
    return [{**each, "review": bool(sent)} for each, sent in zip(found, review, strict=True)]


def _summary(counts: dict[str, int]) -> str:
    from calibrant.charts.numbers import counted, percent

    n = counts.get("all", 0)
    words = [counted(n, "decision")]
    for key, name in (("accepted", "accepted"), ("review", "to review")):
        if key in counts:
            words.append(f"{counts[key]:,} {name} ({percent(counts[key] / n)})")
    if "size" in counts:
        words.append(f"{counts['size'] / n:.3f} classes in a set on average")
    ignored = counts.get("ignored", 0)
    rows = "1 row labelled −100 has" if ignored == 1 else f"{ignored:,} rows labelled −100 have"
    return f"{', '.join(words)}." + f" {rows} none." * bool(ignored)
