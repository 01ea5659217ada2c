"""``calibrant guarantee``: learn a policy with a promise from validation predictions."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.cli.document import document
from calibrant.cli.entity_options import (
    add_entity_options,
    matched_files,
    refuse_options,
    reviewed_run,
)
from calibrant.cli.options import (
    add_file_options,
    add_json,
    add_keep_together,
    add_output,
    files_read,
)
from calibrant.errors import InputError, printable

if TYPE_CHECKING:
    from calibrant.policies import Policy

__all__ = ["add_parser", "run"]

# Option → its default, and the promises that read it.
_READ_BY: Mapping[str, tuple[Any, tuple[str, ...]]] = {
    "on_average": (False, ("max_missed",)),
    "level": (0.9, ("target_risk", "max_missed")),
    "per": (None, ("target_risk", "coverage")),
    "items": ("auto", ("target_risk",)),
    "reduction": ("auto", ("target_risk", "max_missed")),
    "score": ("lac", ("coverage",)),
    "randomised": (False, ("coverage",)),
    "penalty": (0.01, ("coverage",)),
    "free": (1, ("coverage",)),
    "seed": (0, ("coverage",)),
}


def add_parser(commands: Any) -> None:
    """Add the command's options."""
    parser = commands.add_parser(
        "guarantee",
        help="learn which predictions to accept, with a guarantee",
        description="Learn a policy from validation predictions: the confidence from which to "
        "accept, which words to review, or prediction sets, each with a promise about new data. "
        "VALID is a file of predictions, or the folder of a training run. 'apply --policy' and "
        "'predict --policy' use the policy.",
    )
    add_file_options(parser, "VALID")
    _add_promises(parser)
    parser.add_argument(
        "--calibrator",
        metavar="FILE",
        type=Path,
        help="apply this calibrator first; the policy is then about calibrated confidences",
    )
    _add_units(parser)
    _add_sets(parser)
    add_entity_options(parser)
    add_output(parser, "save the policy (.json)")
    add_json(parser)
    parser.set_defaults(run=run)


def _add_promises(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("promises (one, or the first two together)")
    group.add_argument(
        "--target-risk", type=float, metavar="SHARE", help="at most this share of the "
        "accepted items is wrong",
    )  # fmt: skip
    group.add_argument(
        "--max-missed", type=float, metavar="SHARE", help="at most this share of the true "
        "entities is neither accepted nor sent to review",
    )  # fmt: skip
    group.add_argument(
        "--coverage", type=float, metavar="SHARE", help="prediction sets contain the true class "
        "with this probability",
    )  # fmt: skip
    group.add_argument(
        "--level", type=float, default=0.9, metavar="SHARE", help="probability that a target risk "
        "or a share of missed entities holds (0.9)",
    )  # fmt: skip
    group.add_argument(
        "--on-average", action="store_true", help="with --max-missed: bound the expected share, "
        "without a level",
    )  # fmt: skip


def _add_units(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--per", choices=("type",), help="one threshold for each predicted class or entity type; "
        "for prediction sets, one for each true class",
    )  # fmt: skip
    add_keep_together(parser, "document, sentence or image")
    parser.add_argument(
        "--average", choices=("rows", "groups"), default="rows", help="what a target risk "
        "averages: all accepted rows (or entities), or the share of wrong ones among the accepted "
        "of each group, so that long groups count as much as short ones (rows)",
    )  # fmt: skip
    parser.add_argument(
        "--items", choices=("auto", "rows", "entities"), default="auto", help="what a target risk "
        "is about (entities, if the labels are BIO tags)",
    )  # fmt: skip
    parser.add_argument(
        "--reduction", choices=("auto", "product", "min", "mean"), default="auto", help="how to "
        "combine the confidences of words into that of an entity (product; for a run, its choice)",
    )  # fmt: skip
    parser.add_argument(
        "--tokens", action="store_true", help="with a run: the policy is for texts that are "
        "already split into words, as with 'predict --tokens'",
    )  # fmt: skip


def _add_sets(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("prediction sets")
    group.add_argument(
        "--score", choices=("lac", "aps", "raps"), default="lac", help="lac: the smallest sets; "
        "aps: larger sets for harder rows; raps: aps without very large sets (lac)",
    )  # fmt: skip
    group.add_argument(
        "--randomised", action="store_true", help="aps and raps: randomised sets, which are "
        "smaller",
    )  # fmt: skip
    group.add_argument("--seed", type=int, default=0, help="seed of randomised sets (0)")
    group.add_argument(
        "--penalty", type=float, default=0.01, help="raps: cost of each further class (0.01)"
    )
    group.add_argument(
        "--free", type=int, default=1, help="raps: this many classes cost nothing (1)"
    )


def run(args: argparse.Namespace) -> int:
    """Learn the policy, save it, and print what it promises."""
    from calibrant.outputs import check_writable

    _check_used(args)
    folder = _run_folder(args)
    inputs = [] if folder is not None else files_read(args)
    check_writable(args.output, overwrite=args.overwrite, inputs=inputs)
    if args.output.suffix != ".json":
        raise InputError(f"{args.output}: a policy is saved as .json.")
    if args.entities:
        policy = _of_entities(args)
    else:
        policy = _of_files(args) if folder is None else _of_run(folder, args)
    policy.save(args.output, overwrite=args.overwrite)
    if args.json:
        print(document("guarantee", {"output": str(args.output), "policy": policy.to_dict()}))
        return 0
    print(*_lines(policy), sep="\n")
    print(f"Saved: {printable(str(args.output))}")
    return 0


def _check_used(args: argparse.Namespace) -> None:
    """Refuse options that the promise does not read: the policy would not be what was meant."""
    if args.target_risk is args.max_missed is args.coverage is None:
        return  # Refused for that.
    for name, (default, promises) in _READ_BY.items():
        if getattr(args, name) != default and all(getattr(args, p) is None for p in promises):
            needed = " or ".join(f"--{promise.replace('_', '-')}" for promise in promises)
            raise InputError(f"--{name.replace('_', '-')} is for {needed}: leave it out.")
    for names, scores in ((("penalty", "free"), ("raps",)), (("randomised",), ("aps", "raps"))):
        for name in names:
            if getattr(args, name) != _READ_BY[name][0] and args.score not in scores:
                needed = " or ".join(f"--score {score}" for score in scores)
                raise InputError(f"--{name} is for {needed}, got {args.score}.")


def _run_folder(args: argparse.Namespace) -> Path | None:
    first = Path(args.files[0])
    if (first / "manifest.json").exists() and not (first / "recipe.json").exists():
        raise InputError(
            f"{first} is an export, which has no validation predictions: name the run that it was "
            "made of."
        )
    if len(args.files) > 1 or not (first / "recipe.json").exists():
        return None
    if args.calibrator is not None:
        raise InputError("A run has its own calibrator: leave --calibrator out.")
    return first


def _options(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "target_risk": args.target_risk,
        "max_missed": args.max_missed,
        "coverage": args.coverage,
        "level": args.level,
        "on_average": args.on_average,
        "per": args.per,
        "keep_together": args.keep_together,
        "average": args.average,
        "items": args.items,
        "score": args.score,
        "randomised": args.randomised,
        "penalty": args.penalty,
        "free": args.free,
        "seed": args.seed,
    }


def _of_files(args: argparse.Namespace) -> Policy:
    from calibrant.cli.fit import clean_rows, read_with_progress
    from calibrant.policies import calibrator_fingerprint, guarantee

    options = _options(args)
    if args.tokens:
        raise InputError("--tokens is about the folder of a training run, got files.")
    options["reduction"] = "product" if args.reduction == "auto" else args.reduction
    calibrator = None
    if args.calibrator is not None:
        from calibrant.calibrators import load_calibrator

        calibrator = load_calibrator(args.calibrator)
        options["calibrator"] = calibrator_fingerprint(calibrator)
    valid = clean_rows(read_with_progress(args.files, args))
    return guarantee(calibrator.transform(valid) if calibrator else valid, **options)


def _of_entities(args: argparse.Namespace) -> Policy:
    """Learn a policy for the entities of a tool."""
    from calibrant.entities.review import guarantee_entities

    automatic = [(name, "auto") for name in ("keep_together", "items", "reduction")]
    empty = [(name, None) for name in ("calibrator", "coverage")]
    refuse_options(args, *automatic, *empty, ("tokens", False))
    names = ("target_risk", "max_missed", "level", "on_average", "per", "average")
    options = {name: getattr(args, name) for name in names}
    found = matched_files(args, complete=True)
    return guarantee_entities(
        found, match=args.match or "strict", run=reviewed_run(args), **options
    )


def _of_run(folder: Path, args: argparse.Namespace) -> Policy:
    from calibrant.tasks.run_policies import run_policy

    return run_policy(folder, tokens=args.tokens, reduction=args.reduction, **_options(args))


def _lines(policy: Policy) -> list[str]:
    """Return what is feasible, then the threshold and what it keeps, then the promise."""
    lines = [_validation(policy)]
    if policy.kind == "coverage":
        lines += _of_sets(policy)
    elif policy.kind == "target-risk":
        lines += _of_risk(policy)
    if policy.review is not None:
        lines.append(_of_review(policy.review))
    return [*lines, f"Promise: {printable(policy.promise)}"]


def _of_review(found: Mapping[str, Any]) -> str:
    from calibrant.metrics.metric import percent
    from calibrant.metrics.selective import threshold_text

    threshold = found["threshold"]
    words = "reviewed_words" in found
    items, score = ("words", "P(not O)") if words else ("entities", "a score")
    shown = threshold_text(threshold)
    which = f"all {items}" if shown == "all" else f"{items} with {score} of at least {shown}"
    share = percent(found[f"reviewed_{items}"], 2)
    return (
        f"Review: {which}, {share} of the {'' if words else 'predicted '}{items}; "
        f"{found['missed']:,} of {found['entities']:,} true entities are missed."
    )


def _validation(policy: Policy) -> str:
    units = f"in {policy.units:,} {policy.unit} groups" if policy.unit else "drawn independently"
    items = policy.items if policy.kind != "max-missed" else "true entities"
    return printable(f"Validation: {policy.n:,} {items}, {units}.")


def _of_risk(policy: Policy) -> list[str]:
    from calibrant.cli.table import render_table
    from calibrant.metrics.metric import percent
    from calibrant.metrics.selective import threshold_text
    from calibrant.policies.wording import feasibility, wrong

    if "*" in policy.thresholds:
        found = policy.details["*"]
        threshold = policy.thresholds["*"]
        lines = [f"Feasible? {feasibility(policy)}."]
        if math.isinf(threshold):
            return lines
        shown, none = threshold_text(threshold), wrong(policy).removeprefix("are ")
        which = "everything" if shown == "all" else f"from confidence {shown} on"
        return [
            *lines,
            f"Threshold: accept {which}. It keeps "
            f"{percent(found['kept'], 2)} ({found['accepted']:,} of {found['n']:,}), "
            f"{found['wrong']:,} of them {none}; {_averaged(policy)}upper bound of the risk, were "
            f"this the only threshold tested, {percent(found['upper'], 2)}.",
        ]
    none = wrong(policy).removeprefix("are ")
    headers = ["type", "n", none, "to refuse", "threshold", "kept", f"of them {none}"]
    rows = [_row(name, policy) for name in policy.thresholds]
    return [render_table(headers, rows, right=range(1, 7))]


def _averaged(policy: Policy) -> str:
    from calibrant.metrics.metric import percent

    if policy.average == "rows":
        return ""
    return f"{percent(policy.details['*']['risk'], 2)} on average over {policy.unit} groups; "


def _row(name: str, policy: Policy) -> list[str]:
    from calibrant.metrics.metric import percent
    from calibrant.metrics.selective import threshold_text

    found, threshold = policy.details[name], policy.thresholds[name]
    n = found["n"]
    if not n:
        return [name, "0", "–", "–", "none", "–", "–"]
    shown = threshold_text(threshold)
    shares = [found["error"], found["least_refused"], found["kept"]]
    error, refused, kept = map(percent, shares)
    least = "–" if math.isnan(found["least_refused"]) else f"≥ {refused}"
    return [name, f"{n:,}", error, least, shown, kept, f"{found['wrong']:,}"]


def _of_sets(policy: Policy) -> list[str]:
    from calibrant.metrics.metric import percent

    found = policy.details
    if found["whole"]:
        print(f"calibrant guarantee: {_few(policy)}", file=sys.stderr)
    return [
        f"Sets: {found['mean_size']:.3f} classes on average, {percent(found['single'])} have "
        f"one class and {percent(found['empty'])} have none (of the validation rows)."
    ]


def _few(policy: Policy) -> str:
    from calibrant.policies.wording import plural

    need = math.ceil(policy.target / (1 - policy.target) - 1e-9)
    units = plural(policy.unit) if policy.unit else policy.items
    return (
        f"a coverage of {policy.target:g} needs at least {need} validation {units}"
        f"{'' if '*' in policy.thresholds else ' of each class'}; without them sets have all "
        "classes concerned."
    )
