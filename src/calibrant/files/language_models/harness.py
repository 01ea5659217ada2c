"""Samples of lm-evaluation-harness (``--log_samples``) as logits."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.errors import InputError
from calibrant.files.language_models.translated import Translated
from calibrant.files.lines import json_records

__all__ = ["RIGHT_CHOICES", "is_harness", "translate_harness"]

RIGHT_CHOICES = "right choices"  # The key of all right choices of a sample.
_IGNORED = -100


@dataclass
class _Sample:
    """What one sample of the harness says, without its texts."""

    line: int
    doc: Any
    scores: np.ndarray  # log-likelihood of each choice
    lengths: dict[str, np.ndarray]
    gold: dict[str, tuple[int, ...]]  # by how the target is read
    logged: dict[str, float] = field(default_factory=dict)


def is_harness(record: Mapping[str, Any]) -> bool:
    """Return whether a record is a sample of the harness."""
    return "filtered_resps" in record and "arguments" in record


def translate_harness(path: Path) -> Translated:
    """Turn samples of multiple-choice tasks into logits: the log-likelihoods of the choices.

    The harness' ``acc`` takes the largest log-likelihood, ``acc_norm`` the largest one per
    character of the choice, ``acc_bytes`` per byte; each is a column here. Samples with fewer
    choices than others get −∞ for those that they lack. Two things are not in the file and are
    found by the metrics that it logged: whether a target such as "1" is the number or the text
    of a choice, and whether the blank in front of a choice belongs to it. A task with several
    filters writes each sample once for each; those of the first filter count.
    """
    filters: dict[str, None] = {}
    samples = []
    for line, record in json_records(path):
        filters[(name := str(record.get("filter")))] = None
        if name == next(iter(filters)):
            samples.append(_sample(path, line, record))
    reading = _agreeing(samples, ("number", "text"), "acc", lambda s, how: (s.scores, s.gold[how]))
    lengths = _agreeing(
        samples,
        ("without blank", "with blank"),
        "acc_norm",
        lambda s, how: (_divided(s.scores, s.lengths[how]), s.gold[reading]),
    )
    most = max(len(sample.scores) for sample in samples)
    records = []
    for s in samples:
        per = {"": s.scores, "_per_character": _divided(s.scores, s.lengths[lengths]),
               "_per_byte": _divided(s.scores, s.lengths[f"{lengths}, bytes"])}  # fmt: skip
        scores = {f"logits{name}": _padded(values, most) for name, values in per.items()}
        gold = list(s.gold[reading])
        records.append(
            (s.line, {**scores, "label": gold[0], RIGHT_CHOICES: gold, "doc_id": str(s.doc)})
        )
    note = _harness_note(path, samples, reading, lengths)
    if len(filters) > 1:
        first, *others = filters
        note += f" Those of the filter '{first}' count, not of {', '.join(map(repr, others))}."
    return Translated(records, note)


def _harness_note(path: Path, samples: Sequence[_Sample], reading: str, lengths: str) -> str:
    acc = np.mean([int(s.scores.argmax()) in s.gold[reading] for s in samples])
    norm = np.mean(
        [int(_divided(s.scores, s.lengths[lengths]).argmax()) in s.gold[reading] for s in samples]
    )
    return (
        f"{path}: {len(samples):,} samples of lm-evaluation-harness. The logits are "
        f"log-likelihoods of the choices, without length normalisation (acc {acc:.4f}); "
        "--logits-column logits_per_character takes them per character of the choice "
        f"(acc_norm {norm:.4f}), logits_per_byte per byte."
    )


def _sample(path: Path, line: int, record: Mapping[str, Any]) -> _Sample:
    where = f"{path}, line {line}"
    responses = record.get("filtered_resps")
    given = record.get("arguments")
    arguments = list(given.values()) if isinstance(given, dict) else given
    if not isinstance(responses, list) or not isinstance(arguments, list):
        raise InputError(f"{where}: not a sample of lm-evaluation-harness.")
    try:
        pairs = [tuple(a.values()) if isinstance(a, dict) else tuple(a) for a in arguments]
        contexts, choices = [str(p[0]) for p in pairs], [str(p[1]) for p in pairs]
        scores = np.array([float(response[0]) for response in responses])
    except (TypeError, ValueError, IndexError, KeyError):
        raise InputError(
            f"{where}: it has no log-likelihood of each choice; only multiple-choice tasks of "
            "lm-evaluation-harness have a confidence."
        ) from None
    half = len(scores) // 2
    if len(scores) == 2 * half and half and not any(contexts[half:]) and all(contexts[:half]):
        scores, choices = scores[:half], choices[:half]  # The rest is without the question.
    if len(scores) < 2 or len(scores) != len(choices):
        raise InputError(f"{where}: expected at least 2 choices, got {len(scores)}.")
    if not np.isfinite(scores).any() or np.isnan(scores).any():
        raise InputError(f"{where}: a log-likelihood is not a number.")
    logged = {
        name: float(record[name])
        for name in ("acc", "acc_norm")
        if isinstance(record.get(name), (int, float))
    }
    gold = _gold(record.get("target"), choices, scores, logged.get("acc"))
    return _Sample(line, record.get("doc_id", line), scores, _lengths(choices), gold, logged)


def _lengths(choices: Sequence[str]) -> dict[str, np.ndarray]:
    """Return characters and bytes of the choices, with and without the blank in front of them."""
    blank = all(choice.startswith(" ") for choice in choices)
    found = {}
    for name, texts in (
        ("with blank", choices),
        ("without blank", [choice[1:] for choice in choices] if blank else choices),
    ):
        found[name] = np.array([float(len(text)) for text in texts])
        found[f"{name}, bytes"] = np.array([float(len(text.encode())) for text in texts])
    return found


def _gold(
    target: Any, choices: Sequence[str], scores: np.ndarray, acc: float | None
) -> dict[str, tuple[int, ...]]:
    """Return the right choices, with the target read as numbers and as texts of choices."""
    found = {}
    for how in ("number", "text"):
        each = _target_list(target)
        found[how] = tuple(_place(one, choices, how) for one in each) or (_IGNORED,)
        known = [place for place in found[how] if place != _IGNORED]
        if not known and acc is not None and len(choices) == 2:  # Two contexts, one continuation.
            top = int(scores.argmax())
            found[how] = (top if acc == 1 else 1 - top,)
    return found


def _target_list(target: Any) -> list[Any]:
    if isinstance(target, str) and target.startswith("["):
        try:
            target = ast.literal_eval(target)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return [target]
    return list(target) if isinstance(target, list) else [target]


def _place(target: Any, choices: Sequence[str], how: str) -> int:
    text = str(target)
    stripped = [choice.removeprefix(" ") for choice in choices]
    as_text = next((k for k, c in enumerate(choices) if text in (c, stripped[k])), None)
    as_number = (
        int(text) if text.isdecimal() and len(text) < 9 and int(text) < len(choices) else None
    )
    first, second = (as_number, as_text) if how == "number" else (as_text, as_number)
    return next((place for place in (first, second) if place is not None), _IGNORED)


def _agreeing(
    samples: Sequence[_Sample],
    ways: Sequence[str],
    metric: str,
    read: Callable[[_Sample, str], tuple[np.ndarray, tuple[int, ...]]],
) -> str:
    """Return the way of reading that gives what the harness logged most often."""

    def agreed(how: str) -> int:
        pairs = ((read(s, how), s.logged[metric]) for s in samples if metric in s.logged)
        return sum(
            (int(scores.argmax()) in gold) == (logged == 1) for (scores, gold), logged in pairs
        )

    return max(ways, key=agreed)


def _divided(scores: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return scores per length; an empty choice has none."""
    per = np.divide(scores, lengths, out=np.full(len(scores), -np.inf), where=lengths > 0)
    return per if np.isfinite(per).any() else scores


def _padded(scores: np.ndarray, most: int) -> list[float]:
    return [*scores.tolist(), *[-math.inf] * (most - len(scores))]
