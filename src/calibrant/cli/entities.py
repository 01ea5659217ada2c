"""What commands do with the entities of any tool (``--entities``)."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.cli.document import document
from calibrant.errors import InputError, printable, unknown_name
from calibrant.inputs import shortened

if TYPE_CHECKING:
    from calibrant.auditing import Measure
    from calibrant.entities import EntityAudit, EntityCalibrator, EntityFile, MatchedEntities

__all__ = [
    "add_entity_options",
    "apply_entities",
    "audit_entity_files",
    "compare_entity_files",
    "fit_entities",
    "matched_files",
    "refuse_options",
    "renamed_types",
    "reviewed_run",
    "without_entities",
]

_REVIEWED = "--reviewed"
_TYPE_COLUMNS = ("precision", "recall", "confidence", "ece", "auroc")


def add_entity_options(
    parser: argparse.ArgumentParser, *, gold: bool = True, scores: bool = True
) -> None:
    """Add the options of entities; without ``gold`` those of ``apply``, which needs none.

    ``scores`` says whether entities without scores make sense.
    """
    group = parser.add_argument_group("entities of any tool")
    if gold:
        kinds = group.add_mutually_exclusive_group()
        kinds.add_argument(
            "--entities",
            action="store_const",
            const="--entities",
            help="the files are PREDICTED and GOLD: documents with entities, as the tools write "
            "them (.jsonl, .json)",
        )
        kinds.add_argument(
            "--reviewed",
            dest="entities",
            action="store_const",
            const=_REVIEWED,
            help="the file has the decisions of 'calibrant review': what the model predicted, and "
            "what people decided",
        )
        group.add_argument(
            "--match",
            choices=("strict", "overlapping"),
            help="when an entity is right: same span and type, or same type and a shared "
            "character (audit: both; others: strict)",
        )
    if gold and scores:
        group.add_argument(
            "--without-scores",
            action="store_true",
            help="the tool gives no scores: learn the confidence from type and length only",
        )
    group.add_argument(
        "--type",
        dest="types",
        metavar="NAME=GOLD",
        action="append",
        default=[],
        help="the name in GOLD of a predicted type; 'NAME=' leaves it out, 'NAME=NAME' keeps a "
        "type that is not known; may be repeated",
    )
    group.add_argument("--spans", metavar="KEY", help="the group of spaCy's spans to read")


def without_entities(args: argparse.Namespace) -> None:
    """Refuse options that mean something for entities alone."""
    for option, default in (
        ("match", None),
        ("without_scores", False),
        ("types", []),
        ("spans", None),
    ):
        if getattr(args, option, default) != default:
            name = {"types": "type"}.get(option, option).replace("_", "-")
            raise InputError(f"--{name} is about entities: use it with --entities or --reviewed.")


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


def fit_entities(args: argparse.Namespace) -> int:
    """Learn the confidence of entities, save it, and print what it gained."""
    from calibrant.entities import EntityCalibrator
    from calibrant.outputs import check_writable

    refuse_options(
        args, ("calibrator", "temperature"), ("settings", []), ("keep_predictions", False)
    )
    if args.output.suffix != ".json":
        raise InputError(f"{args.output}: an entity calibrator is saved as .json.")
    check_writable(args.output, overwrite=args.overwrite, inputs=[Path(f) for f in args.files])
    fitted = EntityCalibrator().fit(matched_files(args), args.match or "strict")
    fitted.save(args.output, overwrite=args.overwrite)
    if args.json:
        learned = {"types": fitted.types_, "shrinkage": fitted.shrinkage_, "match": fitted.match_}
        content = {"output": str(args.output), **fitted.fitted_on_, "learned": learned}
        print(document("fit", {"calibrator": "entities", **content}))
        return 0
    _print_fitted(fitted, args.output)
    return 0


def apply_entities(args: argparse.Namespace) -> int:
    """Write a copy of a tool's output with learned confidences as scores."""
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
        raise InputError(
            f"The type '{shortened(unknown[0])}' was not in the data that this calibrator was "
            f"fitted on (it had {shortened(', '.join(fitted.types_), 120)}); --type "
            f"'{shortened(unknown[0])}={shortened(unknown[0])}' takes the confidence of all types "
            f"together, '{shortened(unknown[0])}=' leaves the scores as they are."
        )
    fitted.renamed_ = types
    source.write(_new_scores(fitted, source), args.output, overwrite=args.overwrite)
    entities = sum(len(each.entities) for each in source.documents)
    written = printable(str(args.output))
    print(
        f"Confidences of {entities:,} entities in {len(source.values):,} documents.\n"
        f"Written: {written}"
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
    half = 1 if args.entities == _REVIEWED else 2
    if len(args.files) != 2 * half:
        expected = "two files of decisions, to fit and to evaluate on"
        if half == 2:
            expected = "four files, PREDICTED and GOLD to fit on and PREDICTED and GOLD to "
            expected += "evaluate on"
        raise InputError(f"compare {args.entities} takes {expected}, got {len(args.files)}.")
    options = (("kind", None), ("calibrators", None), ("keep_predictions", False), ("output", None))
    _refuse_others(args, *options)
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
        f"- {ENTITIES} learns from score, type and length; 'calibrant fit --entities' saves it for "
        "'calibrant apply', which takes no other calibrator for the files of a tool."
    )
    return 0


def refuse_options(args: argparse.Namespace, *defaults: tuple[str, Any]) -> None:
    """Refuse options that mean nothing for entities, and all but two files, or one of decisions."""
    reviewed = args.entities == _REVIEWED
    if len(args.files) != (1 if reviewed else 2):
        expected = "one file of decisions" if reviewed else "two files, PREDICTED and GOLD"
        raise InputError(f"{args.entities} takes {expected}, got {len(args.files)}.")
    _refuse_others(args, *defaults)


def _refuse_others(args: argparse.Namespace, *defaults: tuple[str, Any]) -> None:
    columns = [name for name in vars(args) if name.endswith(("_column", "_columns"))]
    for name, default in (*defaults, *((column, None) for column in columns), ("labels", None)):
        if getattr(args, name, default) != default:
            option = {"settings": "set"}.get(name, name).replace("_", "-")
            raise InputError(f"--{option} does not go with {args.entities}.")


def matched_files(
    args: argparse.Namespace, files: Sequence[str | Path] | None = None, *, complete: bool = False
) -> MatchedEntities:
    """Return the entities of PREDICTED next to those of GOLD; by default of the files given.

    A file of decisions has both; with ``complete``, it must have a decision about each document.
    """
    from calibrant.entities import match_entities, read_entities

    options: dict[str, Any] = {
        "renamed": renamed_types(args.types),
        "scores": not getattr(args, "without_scores", False),
    }
    if args.entities == _REVIEWED:
        return _matched_decisions((files or args.files)[0], options, args, complete)
    predicted, gold = map(Path, files or args.files)
    if predicted.exists() and gold.exists() and predicted.samefile(gold):
        raise InputError(f"PREDICTED and GOLD are the same file, {predicted}.")
    return match_entities(
        read_entities(predicted, args.spans).documents,
        read_entities(gold, args.spans if _has_spans(gold, args.spans) else None).documents,
        **options,
    )


def _matched_decisions(
    path: str | Path, options: Mapping[str, Any], args: argparse.Namespace, complete: bool
) -> MatchedEntities:
    from calibrant.reviewing import Decisions
    from calibrant.reviewing.labels import check_complete, matched_decisions

    if args.spans is not None:
        raise InputError(f"--spans is about the files of spaCy, got {path}.")
    decisions = Decisions(path)
    if complete:
        check_complete(decisions)
    return matched_decisions(decisions, **options)


def reviewed_run(args: argparse.Namespace) -> Mapping[str, str | None] | None:
    """Return the fingerprints of the run whose predictions were reviewed, None of other files."""
    from calibrant.reviewing import Decisions

    return Decisions(args.files[0]).run if args.entities == _REVIEWED else None


def _has_spans(path: Path, spans: str | None) -> bool:
    """Return whether GOLD has the group of spans too; people's markings mostly have not."""
    from calibrant.entities import read_entities

    if spans is None:
        return False
    try:
        read_entities(path)
    except InputError:
        return True
    return False


def renamed_types(given: Sequence[str]) -> dict[str, str | None]:
    """Return the new name of each type; None leaves it out.

    >>> renamed_types(["PERSON=PER", "MISC="])
    {'PERSON': 'PER', 'MISC': None}
    """
    found: dict[str, str | None] = {}
    for each in given:
        name, equals, new = each.partition("=")
        if not equals or not name:
            raise InputError(f"--type takes NAME=GOLD, got '{shortened(each)}'.")
        if name in found:
            raise InputError(f"--type names '{shortened(name)}' twice.")
        found[name] = new or None
    return found


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
    if unknown and not set(unknown) <= set(renamed_types(args.types)):
        raise unknown_name("type to the calibrator", unknown[0], fitted.types_)
    match = args.match or fitted.match_
    after = {"after": audit_entities(fitted.transform(matched), match, **options)}
    if not matched.scored:
        return after
    return {"before": audit_entities(matched, match, **options), **after}


def _print_audits(audits: Mapping[str, EntityAudit]) -> None:
    from calibrant.cli.audit import print_measures
    from calibrant.cli.table import render_table

    last = list(audits.values())[-1]
    found = last.audit.provenance
    print(
        f"{found['n']:,} predicted and {found['gold entities']:,} gold entities of "
        f"{len(last.types)} types in {found['documents']:,} documents\n"
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
    on = fitted.fitted_on_
    before = "" if on["nll_before"] is None else f"{on['nll_before']:.4f} -> "
    print(
        f"Confidence of entities from {'score, ' if fitted.scored_ else ''}type and length, "
        f"learned from {on['entities']:,} entities of {len(fitted.types_)} types in "
        f"{on['documents']:,} documents ({fitted.match_} matches): NLL {before}"
        f"{on['nll_after']:.4f}\nSaved: {printable(str(output))}"
    )
