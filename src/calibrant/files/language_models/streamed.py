"""Streamed answers of a server: their chunks joined to what it sends without a stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["is_chunk", "whole_answer"]

_OLDER = ("tokens", "token_logprobs", "top_logprobs")  # The older endpoint of completions.


def is_chunk(body: Mapping[str, Any], choice: Any) -> bool:
    """Return whether a response is a part of a streamed one: only its last part has a reason."""
    if not isinstance(choice, Mapping):
        return False
    older = body.get("object") == "text_completion" and "finish_reason" in choice
    return "delta" in choice or (older and choice["finish_reason"] is None)


def whole_answer(chunks: Sequence[Any]) -> dict[str, Any] | None:
    """Return the first choice of a streamed response; None for a list of something else.

    Chunks without choices, such as one of the usage alone, add nothing.

    >>> parts = [{"choices": [{"delta": {"content": text}}]} for text in ("The ", "sea")]
    >>> whole_answer([*parts, {"choices": []}])
    {'choices': [{'message': {'content': 'The sea'}, 'logprobs': None}]}
    """
    if not all(isinstance(c, Mapping) and isinstance(c.get("choices"), list) for c in chunks):
        return None
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    own = [c for c in choices if isinstance(c, Mapping) and not c.get("index")]
    if not own:
        return None
    deltas = [choice.get("delta") or choice for choice in own]
    text = "".join(delta.get("content") or delta.get("text") or "" for delta in deltas)
    message = {"content": text}
    if refusal := "".join(delta.get("refusal") or "" for delta in deltas):
        message["refusal"] = refusal
    found = [choice["logprobs"] for choice in own if isinstance(choice.get("logprobs"), Mapping)]
    return {"choices": [{"message": message, "logprobs": _joined(found)}]}


def _joined(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the lists of tokens of all parts, one after the other."""
    keys = ("content",) if any(part.get("content") for part in parts) else _OLDER
    joined = {key: [each for part in parts for each in part.get(key) or ()] for key in keys}
    return joined if any(joined.values()) else None
