"""What commands do with the entities of any tool (``--entities``)."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from calibrant.cli.document import document
from calibrant.cli.entity_options import (
    REVIEWED,
    matched_files,
    refuse_options,
    refuse_others,
    renamed_types,
)
from calibrant.errors import InputError, printable
from calibrant.inputs import shortened

if TYPE_CHECKING:
    from calibrant.auditing import Measure
    from calibrant.calibrators import Calibrator
    from calibrant.entities import EntityAudit, EntityCalibrator, EntityFile

__all__ = [
    "apply_entities",
    "audit_entity_files",
    "compare_entity_files",
    "fit_entities",
]

_TAKEN_BACK = (
    "What the old confidences decided (abstained, guarantee, review) is left out of the copy: "
    "all entities are under 'entities'. 'calibrant apply --policy' decides anew."
)
_TYPE_COLUMNS = ("precision", "recall", "confidence", "ece", "auroc")


def audit_entity_files(args: argparse.Namespace) -> int:
    """Audit the scores of predicted entities, print, and write the report."""
    from calibrant.outputs import check_writable
    from calibrant.report import write_report

    refuse_options(
        args, ("keep_together", "auto"), ("kind", None), ("reduction", "product"), ("per", [])
    )
    inputs = [*map(Path, args.files), *([args.calibrator] if args.calibrator else [])]
    if args.report is not None:
        check_writable(args.report, overwrite=args.overwrite, inputs=inputs)
    audits = _audits(args)
    if args.report is not None:
        plain = {name: found.audit for name, found in audits.items()}
        opening = _types_markup(list(audits.values())[-1])
        write_report(plain, args.report, overwrite=args.overwrite, opening=opening)
    if args.json:
        content = {name: found.to_dict() for name, found in audits.items()}
        print(document("audit", {"entities": content}))
        return 0
    _print_audits(audits)
    if args.report is not None:
        print(f"\nReport: {printable(str(args.report))}")
    return 0


def fit_entities(args: argparse.Namespace, of_scores: Calibrator | None) -> int:
    """Learn the confidence of entities, save it, and print what it gained."""
    from calibrant.calibrators import CalibrationWarning
    from calibrant.entities import EntityCalibrator
    from calibrant.outputs import check_writable

    default: list[str] = []
    refuse_options(
        args,
        ("settings", default if of_scores is None else args.settings),
        ("keep_predictions", False),
    )
    if args.output.suffix != ".json":
        raise InputError(f"{args.output}: an entity calibrator is saved as .json.")
    check_writable(args.output, overwrite=args.overwrite, inputs=[Path(f) for f in args.files])
    matched, match = matched_files(args), cast(Any, args.match or "strict")
    with warnings.catch_warnings():  # Saved with the calibrator.
        warnings.simplefilter("ignore", CalibrationWarning)
        fitted = EntityCalibrator(of_scores=of_scores).fit(matched, match)
    fitted.save(args.output, overwrite=args.overwrite)
    if args.json:
        learned = {"types": fitted.types_, "shrinkage": fitted.shrinkage_, "match": fitted.match_}
        content = {"output": str(args.output), **fitted.fitted_on_, "learned": learned}
        name = "entities" if of_scores is None else of_scores.name
        print(document("fit", {"calibrator": name, **content}))
        return 0
    _print_fitted(fitted, args.output)
    return 0


def apply_entities(args: argparse.Namespace) -> int:
    """Write a copy of a tool's output with learned confidences as scores."""
    from calibrant.charts.numbers import counted
    from calibrant.entities import load_entity_calibrator, read_entities
    from calibrant.outputs import check_writable

    if len(args.files) != 1:
        raise InputError(f"An entity calibrator is applied to one file, got {len(args.files)}.")
    inputs = [Path(args.files[0]), args.calibrator]
    check_writable(args.output, overwrite=args.overwrite, inputs=inputs)
    fitted = load_entity_calibrator(args.calibrator)
    source = read_entities(args.files[0], args.spans)
    source.check_target(args.output)
    types = {**fitted.renamed_, **renamed_types(args.types)}
    unknown = [name for name in fitted.unknown_types(source.documents) if name not in types]
    if unknown:
        raise _unknown_type(unknown[0], fitted.types_, "leaves the scores as they are")
    fitted.renamed_ = types
    decided = any(each.decided for each in source.parsed)
    source.write(_new_scores(fitted, source), args.output, overwrite=args.overwrite)
    if decided:
        print(_TAKEN_BACK, file=sys.stderr)
    entities = sum(len(each.entities) for each in source.documents)
    written = printable(str(args.output))
    print(
        f"Confidences of {counted(entities, 'entity')} in "
        f"{counted(len(source.values), 'document')}.\nWritten: {written}"
    )
    return 0


def _new_scores(fitted: EntityCalibrator, source: EntityFile) -> list[list[float]]:
    """Return the learned confidences; a type that is left out keeps the score that it has."""
    found = []
    for each in source.documents:
        learned = fitted.confidence(each.entities).tolist()
        left_out = [fitted.renamed_.get(e.type, e.type) is None for e in each.entities]
        found.append(
            [
                e.score if left and e.score is not None else new
                for e, left, new in zip(each.entities, left_out, learned, strict=True)
            ]
        )
    return found


def compare_entity_files(args: argparse.Namespace) -> int:
    """Compare the calibrators of entity scores, and print the table."""
    from calibrant.calibrators import CALIBRATORS
    from calibrant.cli.compare import print_comparison
    from calibrant.entities.comparison import ENTITIES, compare_entities
    from calibrant.progress import Progress

    args.files = [args.valid, args.test, *args.more]
    half = 1 if args.entities == REVIEWED else 2
    if len(args.files) != 2 * half:
        expected = "two files of decisions, to fit and to evaluate on"
        if half == 2:
            expected = "four files, PREDICTED and GOLD to fit on and PREDICTED and GOLD to "
            expected += "evaluate on"
        raise InputError(f"compare {args.entities} takes {expected}, got {len(args.files)}.")
    options = (("kind", None), ("calibrators", None), ("keep_predictions", False), ("output", None))
    refuse_others(args, *options)
    valid, test = (matched_files(args, args.files[i : i + half]) for i in (0, half))
    with Progress(len(CALIBRATORS) + 1, "calibrators") as progress:
        found = compare_entities(
            valid,
            test,
            args.match or "strict",
            folds=args.folds,
            bootstrap=args.bootstrap,
            bins=args.bins,
            seed=args.seed,
            same_data=args.force,
            progress=lambda _: progress.advance(),
        )
    if args.json:
        print(document("compare", {**found.to_dict(), "output": None}))
        return 0
    print_comparison(found)
    print(
        f"- {ENTITIES} learns from score, type and length. 'calibrant fit {args.entities}' saves "
        "it for 'calibrant apply', and with --calibrator NAME any other one."
    )
    return 0


def _audits(args: argparse.Namespace) -> dict[str, EntityAudit]:
    from calibrant.entities import audit_entities, load_entity_calibrator
    from calibrant.entities.matching import MATCHES
    from calibrant.files.formats import fingerprint

    fitted = None if args.calibrator is None else load_entity_calibrator(args.calibrator)
    matched = matched_files(args)
    options: dict[str, Any] = {
        "bins": args.bins,
        "closed": args.closed,
        "bootstrap": args.bootstrap,
        "level": args.level,
        "seed": args.seed,
        "provenance": {"files": [vars(fingerprint(Path(f))) for f in args.files]},
    }
    if fitted is None:
        wanted = (args.match,) if args.match else MATCHES
        return {match: audit_entities(matched, match, **options) for match in wanted}
    unknown = sorted(set(matched.predicted.type.tolist()) - fitted.types_.keys())
    strange = [name for name in unknown if name not in renamed_types(args.types)]
    if strange:
        raise _unknown_type(strange[0], fitted.types_, "leaves it out")
    match = args.match or fitted.match_
    after = {"after": audit_entities(fitted.transform(matched), match, **options)}
    if not matched.scored:
        return after
    return {"before": audit_entities(matched, match, **options), **after}


def _unknown_type(name: str, known: Iterable[str], without: str) -> InputError:
    """Return the error for a type that a calibrator was not fitted on, with both ways out."""
    name = shortened(name)
    return InputError(
        f"The type '{name}' was not in the data that this calibrator was fitted on (it had "
        f"{shortened(', '.join(known), 120)}); --type '{name}={name}' takes the confidence of all "
        f"types together, '{name}=' {without}."
    )


def _print_audits(audits: Mapping[str, EntityAudit]) -> None:
    from calibrant.charts.numbers import counted
    from calibrant.cli.audit import print_measures
    from calibrant.cli.table import render_table

    last = list(audits.values())[-1]
    found = last.audit.provenance
    print(
        f"{found['n']:,} predicted and {counted(found['gold entities'], 'gold entity')} of "
        f"{counted(len(last.types), 'type')} in {counted(found['documents'], 'document')}\n"
    )
    print_measures({name: each.audit for name, each in audits.items()})
    name, shown = next(iter(audits.items())) if "after" not in audits else ("after", last)
    print(f"\nBy type ({name}):")
    headers = ["type", "gold", "predicted", "missed", *_TYPE_COLUMNS]
    headers[headers.index("confidence")] = "mean score"
    print(render_table(headers, _type_rows(shown), right=range(1, len(headers))))


def _type_rows(found: EntityAudit) -> list[list[str]]:
    return [
        [
            row.name,
            *(f"{count:,}" for count in (row.gold, row.predicted, row.missed)),
            *(_cell(row[name]) for name in _TYPE_COLUMNS),
        ]
        for row in found.types
    ]


def _cell(measure: Measure) -> str:
    if measure.value != measure.value:
        return "–"
    if measure.low is None or measure.high is None:
        return f"{measure.value:.3f}"
    return f"{measure.value:.3f} [{measure.low:.3f}, {measure.high:.3f}]"


def _types_markup(found: EntityAudit) -> Any:
    """Return the table of types as a section of the report."""
    from calibrant.report.markup import tag
    from calibrant.report.tables import plain_table

    heads = ["Type", "Gold", "Predicted", "Missed", "Precision", "Recall", "Mean score", "ECE",
             "AUROC"]  # fmt: skip
    table = plain_table("Entity types", heads, _type_rows(found))
    note = (
        f"Each type separately, {found.match} matches; in brackets the intervals over documents. "
        "The examples of this report are predicted entities: accuracy is precision."
    )
    return tag("section", tag("h2", "Entity types"), tag("p", note, class_="note"), table)


def _print_fitted(fitted: EntityCalibrator, output: Path) -> None:
    from calibrant.charts.numbers import counted

    on = fitted.fitted_on_
    before = "" if on["nll_before"] is None else f"{on['nll_before']:.4f} -> "
    entities, types = counted(on["entities"], "entity"), counted(len(fitted.types_), "type")
    source = f"{'score, ' if fitted.scored_ else ''}type and length"
    if fitted.of_scores is not None:
        source = f"score by {fitted.of_scores.name}"
    print(
        f"Confidence of entities from {source}, "
        f"learned from {entities} of {types} in "
        f"{counted(on['documents'], 'document')} ({fitted.match_} matches): NLL {before}"
        f"{on['nll_after']:.4f}\nSaved: {printable(str(output))}"
    )
