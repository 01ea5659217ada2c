"""The promise of a policy in words: what holds, how surely, and for which data."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from calibrant.metrics.metric import percent

if TYPE_CHECKING:
    from calibrant.policies.policy import Policy

__all__ = ["feasibility", "least_units", "of_review", "of_risk", "of_sets", "plural", "wrong"]

_MOST_NAMED = 5


def of_risk(policy: Policy) -> str:
    """Return the promise of a target risk."""
    surely = f"ith probability {_percent(policy.level)}, at most {_percent(policy.target)}"
    # The types do not share the level: that all of them hold is less probable.
    surely = f"W{surely}" if "*" in policy.thresholds else f"For each type separately, w{surely}"
    if all(math.isinf(t) for t in policy.thresholds.values()):
        judges = f"{policy.n:,} validation {policy.items}"
        judges = judges if "*" in policy.thresholds else f"the validation {policy.items} of a type"
        return (
            f"No threshold keeps the risk at {_percent(policy.target)} with probability "
            f"{_percent(policy.level)}, judged by {judges}: nothing "
            f"is accepted.{_too_few(policy)}{_too_low(policy) or _easier(policy)}"
        )
    if policy.average == "groups":
        units = plural(policy.unit or "")
        return (
            f"{surely} of the accepted {policy.items} of a {policy.unit} {wrong(policy)}, on "
            f"average over {units} with accepted {policy.items}, for {units} drawn like the "
            f"validation ones.{_too_few(policy)}{_too_low(policy)}"
        )
    return (
        f"{surely} of the accepted {policy.items} {wrong(policy)}, for {_drawn(policy)}."
        f"{_too_few(policy)}{_too_low(policy)}"
    )


def of_review(policy: Policy) -> str:
    """Return the promise of a share of missed entities."""
    assert policy.review is not None
    level, target = policy.review["level"], _percent(policy.review["target"])
    surely = "On average" if level is None else f"With probability {_percent(level)}"
    found = "accepted nor sent to review" if policy.thresholds else "sent to review"
    neither = "neither " if policy.thresholds else "not "
    where = f" of a {policy.unit}" if policy.unit else ""
    return (
        f"{surely}, at most {target} of the true entities{where} are {neither}{found}, for "
        f"{plural(policy.unit or 'entity')} drawn like the validation ones."
    )


def of_sets(policy: Policy) -> str:
    """Return the promise of prediction sets."""
    each = "" if "*" in policy.thresholds else " of each class"
    rows = "rows drawn like the validation rows"
    if policy.unit:
        rows = f"one row of a new {policy.unit}: long and short {plural(policy.unit)} count alike"
    text = (
        f"The set of a row{each} contains its true class with probability at least "
        f"{_percent(policy.target)}, for {rows}."
    )
    whole = policy.details["whole"]
    if whole == ["*"]:
        units = plural(policy.unit) if policy.unit else policy.items
        text += f" {policy.units:,} validation {units} are too few: every set has all classes."
    elif whole:
        shown = ", ".join(whole[:5]) + (", …" if len(whole) > 5 else "")
        text += f" Too few validation examples, so every set has them: {shown}."
    return text


def feasibility(policy: Policy, name: str = "*") -> str:
    """Return what any confidence could do at best: the share that must be refused."""
    found = policy.details[name]
    if not found["n"]:
        return "no validation examples: nothing is accepted"
    error = found.get("error", found["errors"] / found["n"])
    share = f"{percent(error, 2)} {wrong(policy)}"
    if policy.average == "groups":
        what = f"the {policy.items} of a {policy.unit}"
        share = f"{percent(error, 2)} of {what} {wrong(policy)} on average"
    refused = found["least_refused"]
    if refused is None or math.isnan(refused):  # None: read from a file.
        return f"{share}, so something must be refused, no matter how good the confidences are"
    if refused <= 0:
        return f"{share}, so nothing needs to be refused for the target"
    return (
        f"{share}, so at least {percent(refused, 2)} must be refused, no matter how good the "
        "confidences are"
    )


def wrong(policy: Policy) -> str:
    """Describe what is wrong with an item: multi-label items do not apply.

    >>> from calibrant.policies import Policy
    >>> wrong(Policy("target-risk", 0.05, {"*": 0.8}, classes=0, n=9, kept=0.9, items="labels"))
    'do not apply'
    """
    return "do not apply" if policy.items == "labels" else "are wrong"


def _drawn(policy: Policy) -> str:
    largest = max((d["largest"] for d in policy.details.values()), default=1)
    if policy.unit is None:
        return f"{policy.items} drawn like the validation ones"
    limit = f" with at most {largest:,} {policy.items}" if largest > 1 else ""
    return f"{plural(policy.unit)} drawn like the validation ones{limit}"


def _easier(policy: Policy) -> str:
    """Name the promise that groups of unequal size can keep, where that of rows fails."""
    largest = max((d["largest"] for d in policy.details.values()), default=1)
    if policy.unit is None or policy.average == "groups" or largest <= 1:
        return ""
    return (
        f" It must hold even if all {largest:,} {policy.items} of the largest {policy.unit} are "
        f"wrong together. The share of wrong items per {policy.unit}, averaged over "
        f"{plural(policy.unit)} (--average groups), is easier to bound."
    )


def _too_few(policy: Policy) -> str:
    """Name the types that have too few examples for any threshold, whatever the confidences."""
    if "*" in policy.thresholds or policy.level is None:
        return ""
    least = least_units(policy.target, policy.level)
    few = [name for name, found in policy.details.items() if found["units"] < least]
    if not few:
        return ""
    shown = ", ".join(few[:_MOST_NAMED]) + (", …" if len(few) > _MOST_NAMED else "")
    units = plural(policy.unit) if policy.unit else policy.items
    return (
        f" Even without a mistake, a type needs at least {least:,} {units}, so nothing is accepted "
        f"of these: {shown}."
    )


def _too_low(policy: Policy) -> str:
    """Say that the order of the confidences is good enough, and only their size is not."""
    low = [(name, d["too_low"]) for name, d in policy.details.items() if d.get("too_low")]
    if not low:
        return ""
    name, found = low[0]
    of_type = "" if name == "*" else f" of type {name}"
    sure, right = (percent(found[name]) for name in ("confidence", "right"))
    if policy.details[name]["kept"] > 0:
        better = "more are probably accepted"
    else:  # Of all items the order may change.
        enough = found["right"] >= 1 - policy.target
        better = f"there {'is probably' if enough else 'may be'} a threshold"
    return (
        f" The confidences are too low: the {found['accepted']:,} surest {policy.items}{of_type} "
        f"have a mean confidence of {sure}, and {right} of them "
        f"{'apply' if policy.items == 'labels' else 'are right'}. Calibrate first: with a "
        f"calibrator that was fitted on other data ('calibrant fit', then --calibrator) {better}."
    )


def least_units(target: float, level: float) -> int:
    """Return how many independent examples a promise needs if all are right.

    >>> least_units(0.05, 0.9)
    45
    """
    return math.ceil(math.log(1 - level) / math.log1p(-target))


def plural(unit: str) -> str:
    """Return the plural of a name of a column.

    >>> plural("entity"), plural("match"), plural("day"), plural("sentence")
    ('entities', 'matches', 'days', 'sentences')
    """
    if re.search("[^aeiou]y$", unit):
        return f"{unit[:-1]}ies"
    return f"{unit}es" if unit.endswith(("s", "x", "ch", "sh")) else f"{unit}s"


def _percent(share: float | None) -> str:
    return f"{100 * (share or 0.0):g} %"
