"""Answers of OpenAI-compatible servers with log-probabilities as logits of the options."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.errors import InputError
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
    """Return the response of the server: the record itself, its ``response``, or a batch's body."""
    for value in (record, record.get("response"), record.get("body")):
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
    shared between such options, at most that of the last one. An answer without an option is
    ignored and counted.
    """
    answers: list[tuple[int, str, list[dict[str, float]], dict[str, Any]]] = []
    options: dict[str, None] = {}
    for line, record in json_records(path):
        where = f"{path}, line {line}"
        label, body = true_label(record, where), _body(record)
        if body is None:
            raise InputError(f"{where}: it has no 'choices'.")
        groups = {} if body is record else other_fields(record, ("response", "body", "options"))
        answers.append((line, label, _top_tokens(body, where), groups))
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
    left = f" {ignored:,} answers without one of them are ignored." if ignored else ""
    return Translated(
        records,
        f"{path}: log-probabilities of {len(names)} options ({shortened(', '.join(names))}) at the "
        f"token of the answer, of one token each, so without length normalisation.{left}",
    )


def _top_tokens(body: Mapping[str, Any], where: str) -> list[dict[str, float]]:
    """Return the tokens with their log-probabilities at each place of the answer."""
    first = (_answers(body) or [None])[0]
    logprobs = first.get("logprobs") if isinstance(first, dict) else None
    content = logprobs.get("content") if isinstance(logprobs, dict) else logprobs
    if isinstance(logprobs, dict) and None in (logprobs.get("token_logprobs") or [])[:1]:
        raise InputError(
            f"{where}: the log-probabilities begin with those of the prompt; ask the server "
            "without echo."
        )
    try:
        if content is None and isinstance(logprobs, dict):  # The older endpoint of completions.
            own = zip(logprobs["tokens"], logprobs["token_logprobs"], strict=True)
            tops = logprobs["top_logprobs"]
            return [
                {token: float(p), **{t: float(v) for t, v in top.items()}}
                for (token, p), top in zip(own, tops, strict=True)
            ]
        return [
            {each["token"]: float(each["logprob"])}
            | {top["token"]: float(top["logprob"]) for top in each.get("top_logprobs") or []}
            for each in content or ()
        ] or _no_logprobs(where)
    except (TypeError, ValueError, KeyError, AttributeError):
        return _no_logprobs(where)


def _no_logprobs(where: str) -> list[dict[str, float]]:
    raise InputError(
        f"{where}: the answer has no log-probabilities; ask the server for logprobs and "
        "top_logprobs."
    )


def _option_scores(
    tokens: Sequence[Mapping[str, float]], names: Sequence[str]
) -> list[float] | None:
    """Return the log-probability of each option, at the first place whose own token is one."""
    for top in tokens:
        if plain_answer(next(iter(top))) not in names:
            continue
        found = dict.fromkeys(names, -math.inf)
        for token, score in top.items():
            if (name := plain_answer(token)) in found:
                found[name] = float(np.logaddexp(found[name], score))
        missing = [name for name, score in found.items() if score == -math.inf]
        rest = max(1.0 - math.fsum(math.exp(score) for score in top.values()), 1e-12)
        least = min(min(top.values()), math.log(rest / max(1, len(missing))))
        return [least if name in missing else score for name, score in found.items()]
    return None
