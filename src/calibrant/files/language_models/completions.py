"""Answers of OpenAI-compatible servers with log-probabilities as logits of the options."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.errors import InputError
from calibrant.files.language_models.streamed import is_chunk, whole_answer
from calibrant.files.language_models.token_scores import Place, is_empty, places
from calibrant.files.language_models.translated import (
    Translated,
    other_fields,
    plain_answer,
    true_label,
)
from calibrant.files.lines import json_records
from calibrant.inputs import shortened

__all__ = ["is_completion", "translate_completions"]


def _body(record: Mapping[str, Any]) -> Any:
    """Return the response of the server: the record itself, its ``response``, or a batch's body.

    The chunks of a streamed response, in a list, become one.
    """
    for value in (record, record.get("response"), record.get("body")):
        if isinstance(value, list):
            value = whole_answer(value)
        if isinstance(value, dict):
            inner = value.get("body", value)
            if isinstance(inner, dict) and _answers(inner) is not None:
                return inner
    return None


def _answers(body: Mapping[str, Any]) -> Any:
    """Return the choices of chats and completions, or the texts of the endpoint of responses."""
    if isinstance(body.get("choices"), list):
        return body["choices"]
    parts = body["output"] if isinstance(body.get("output"), list) else ()
    messages = [part for part in parts if isinstance(part, dict) and part.get("type") == "message"]
    return messages[0].get("content") if messages else None


def is_completion(record: Mapping[str, Any]) -> bool:
    """Return whether a record holds the answer of a server."""
    answers = _answers(body) if (body := _body(record)) else None
    return isinstance(answers, list) and bool(answers) and isinstance(answers[0], dict)


def translate_completions(path: Path) -> Translated:
    """Turn answers with ``top_logprobs`` into logits of the options.

    The options are those that records name (``options``), else all true labels of the file. The
    answer is at the first token that is an option; spellings that differ in blanks and brackets
    add up. An option that is not among the ``top_logprobs`` gets the probability that they leave,
    shared between such options, at most that of the last one. An answer without an option, such
    as an empty one, is ignored and counted. Of several choices the first counts.
    """
    answers: list[tuple[int, str, list[Place], dict[str, Any]]] = []
    options: dict[str, None] = {}
    several = False
    for line, record in json_records(path):
        where = f"{path}, line {line}"
        label, body = true_label(record, where), _body(record)
        if body is None:
            raise InputError(f"{where}: it has no 'choices'.")
        groups = {} if body is record else other_fields(record, ("response", "body", "options"))
        answers.append((line, label, _places(body, where), groups))
        several |= len(body.get("choices") or ()) > 1
        options |= dict.fromkeys(map(str, record.get("options") or [label]))
    if len(options) < 2:
        raise InputError(
            f"{path}: all labels are '{shortened(next(iter(options)))}'; name the options of the "
            'answer in each record: "options": ["A", "B"].'
        )
    names, records, ignored = sorted(options), [], 0
    for line, label, tokens, groups in answers:
        scores = _option_scores(tokens, names)
        unanswered = scores is None
        ignored += unanswered
        scores = [0.0] * len(names) if scores is None else scores
        logits = dict(zip(names, scores, strict=True))
        scored = {"logits": logits, "label": None if unanswered else label}
        records.append((line, {**groups, **scored}))
    if ignored == len(records):
        raise InputError(
            f"{path}: no answer has a token that is one of the {len(names)} options "
            f"({shortened(', '.join(names))}); the first is {_beginning(answers[0][2])}. Ask for "
            "answers of one token, such as letters, and use them as labels."
        )
    left = f" {ignored:,} answers without one of them are ignored." if ignored else ""
    first = " Of several choices of an answer the first counts." if several else ""
    return Translated(
        records,
        f"{path}: log-probabilities of {len(names)} options ({shortened(', '.join(names))}) at the "
        f"token of the answer, of one token each, so without length normalisation.{left}{first}",
    )


def _beginning(answer: Sequence[Place]) -> str:
    return f"'{shortened(''.join(place.own for place in answer).strip())}'" if answer else "empty"


def _places(body: Mapping[str, Any], where: str) -> list[Place]:
    """Return the places of the first answer; none if it is empty or a refusal."""
    first = (_answers(body) or [None])[0]
    if is_chunk(body, first):
        raise InputError(
            f"{where}: this is one chunk of a streamed answer; save all chunks of an answer as a "
            "list under 'response', or ask the server without stream."
        )
    logprobs = first.get("logprobs") if isinstance(first, dict) else None
    if isinstance(logprobs, dict) and None in (logprobs.get("token_logprobs") or [])[:1]:
        raise InputError(
            f"{where}: the log-probabilities begin with those of the prompt; ask the server "
            "without echo."
        )
    found = places(logprobs, where)
    if not found and not is_empty(first):
        raise InputError(
            f"{where}: the answer has no log-probabilities; ask the server for logprobs and "
            "top_logprobs."
        )
    return found


def _option_scores(answer: Sequence[Place], names: Sequence[str]) -> list[float] | None:
    """Return the log-probability of each option, at the first place whose own token is one."""
    for place in answer:
        if plain_answer(place.own) not in names:
            continue
        found = dict.fromkeys(names, -math.inf)
        for token, score in place.top:
            if (name := plain_answer(token)) in found:
                found[name] = float(np.logaddexp(found[name], score))
        missing = [name for name, score in found.items() if score == -math.inf]
        scores = [score for _, score in place.top]
        rest = max(1.0 - math.fsum(map(math.exp, scores)), 1e-12)
        least = min(*scores, math.log(rest / max(1, len(missing))))
        return [least if name in missing else score for name, score in found.items()]
    return None
