"""The tokens of one answer of a server, with the log-probabilities of what could be there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from calibrant.errors import InputError

__all__ = ["Place", "is_empty", "places"]

_ZERO = -745.0  # exp of less is 0; servers write −∞ as −9999 or as the least number that they have.
_ROUNDED = 0.01  # Numbers of 16 bits make a probability of 1 a little more than that.


@dataclass(frozen=True)
class Place:
    """One place of an answer: its own token, and the log-probability of each listed one."""

    own: str
    top: tuple[tuple[str, float], ...]


def is_empty(answer: Any) -> bool:
    """Return whether an answer has no text, or is a refusal, which has no log-probabilities.

    >>> is_empty({"message": {"content": ""}, "logprobs": None}), is_empty({"text": " B"})
    (True, False)
    """
    if not isinstance(answer, Mapping):
        return False
    message = answer.get("message")
    whole = message if isinstance(message, Mapping) else answer
    texts = [whole[key] for key in ("content", "text") if key in whole]
    return bool(whole.get("refusal")) or bool(texts and not any(texts))


def places(logprobs: Any, where: str) -> list[Place]:
    """Return the places of an answer by its ``logprobs``, of any endpoint; none if it has none."""
    try:
        return _read(logprobs, where)
    except InputError:
        raise
    except (TypeError, ValueError, KeyError, AttributeError):
        return []


def _read(logprobs: Any, where: str) -> list[Place]:
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else logprobs
    if content is None and isinstance(logprobs, Mapping):  # The older endpoint of completions.
        own = zip(logprobs["tokens"], logprobs["token_logprobs"], strict=True)
        return [
            _place(token, score, list(top.items()), where)
            for (token, score), top in zip(own, logprobs["top_logprobs"], strict=True)
        ]
    return [
        _place(
            _listed_name(each),
            each["logprob"],
            [(top["token"], top["logprob"]) for top in each.get("top_logprobs") or []],
            where,
        )
        for each in content or ()
    ]


def _place(own: str, score: Any, top: Sequence[tuple[str, Any]], where: str) -> Place:
    whole = top if any(token == own for token, _ in top) else [(own, score), *top]
    return Place(own, tuple((token, _log_probability(each, where)) for token, each in whole))


def _log_probability(value: Any, where: str) -> float:
    score = float(value)
    if not score <= _ROUNDED:
        raise InputError(f"{where}: {score:g} is no log-probability, which is at most 0.")
    return -math.inf if score < _ZERO else min(score, 0.0)


def _listed_name(each: Mapping[str, Any]) -> str:
    """Return the own token of a place, as the list of tokens names it.

    llama.cpp calls the last byte of "是" by the whole character, whose other bytes are tokens
    before it. The list calls it by this byte, as it does with what other characters end in.
    """
    own, score = bytes(each.get("bytes") or ()), each["logprob"]
    for top in each.get("top_logprobs") or []:
        last = bytes(top.get("bytes") or ())
        if last and last != own and own.endswith(last) and top["logprob"] == score:
            return str(top["token"])
    return str(each["token"])
