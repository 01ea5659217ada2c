"""Write reviewed documents in the formats that other tools read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from calibrant.errors import unknown_name
from calibrant.outputs import new_file
from calibrant.reviewing.decisions import Decision
from calibrant.reviewing.documents import Span
from calibrant.tasks.language.marked_text import cut_text
from calibrant.tasks.language.splitter_choice import Cutting
from calibrant.tasks.language.words import PLAIN

__all__ = ["FORMATS", "write_reviewed"]

# How to split words for CoNLL without a run.
_PLAIN = Cutting(PLAIN, sentences=True)


def write_reviewed(
    path: str | Path,
    decisions: Iterable[Decision],
    kind: str,
    *,
    cutting: Cutting = _PLAIN,
    overwrite: bool = False,
) -> int:
    """Write the decisions as one of :data:`FORMATS`, and return how many entities did not fit.

    Only CoNLL has words, split by ``cutting``. An entity that ends inside a word is extended to the
    whole word and counted.
    """
    if kind not in FORMATS:
        raise unknown_name("format", kind, FORMATS)
    lines, unfit = FORMATS[kind](list(decisions), cutting)
    with new_file(path, overwrite=overwrite) as unfinished:
        unfinished.write_text("".join(lines), encoding="utf-8")
    return unfit


def _jsonl(decisions: Sequence[Decision], cutting: Cutting) -> tuple[list[str], int]:  # noqa: ARG001
    """Return the entities that reviewers decided on: the gold file of ``--entities``."""
    return [_line(one, [_bare(span) for span in one.entities]) for one in decisions], 0


def _predicted(decisions: Sequence[Decision], cutting: Cutting) -> tuple[list[str], int]:  # noqa: ARG001
    """Return the predicted entities: the other file of ``--entities``."""
    return [
        _line(one, [{**_bare(span), "score": span.confidence} for span in one.predicted])
        for one in decisions
    ], 0


def _bare(span: Span) -> dict[str, Any]:
    return {"start": span.start, "end": span.end, "type": span.type}


def _line(decision: Decision, entities: list[dict[str, Any]]) -> str:
    content = {"id": decision.document, "text": decision.text, "entities": entities}
    return json.dumps(content, ensure_ascii=False) + "\n"


def _conll(decisions: Sequence[Decision], cutting: Cutting) -> tuple[list[str], int]:
    lines, unfit = [], 0
    for one in decisions:
        spans = [(span.start, span.end, span.type) for span in one.entities]
        for sentence in cut_text(
            one.text, spans, cutting.splitter, sentences=cutting.sentences, where=one.document
        ):
            unfit += sum(sentence.unfit)
            pairs = zip(sentence.words, sentence.tags, strict=True)
            lines.append("".join(f"{word}\t{tag}\n" for word, tag in pairs))
    return ["\n".join(line for line in lines if line)], unfit


def _label_studio(decisions: Sequence[Decision], cutting: Cutting) -> tuple[list[str], int]:  # noqa: ARG001
    """Return tasks to import; places are counted in code points, as Label Studio counts them."""
    tasks = [
        {
            "data": {"text": one.text, "id": one.document, "reviewer": one.reviewer},
            "annotations": [{"result": _regions(one.text, one.entities)}],
            "predictions": [
                {"model_version": "calibrant", "result": _regions(one.text, one.predicted)}
            ],
        }
        for one in decisions
    ]
    return [json.dumps(tasks, ensure_ascii=False, indent=1) + "\n"], 0


def _regions(text: str, spans: Sequence[Span]) -> list[dict[str, Any]]:
    return [{"id": f"r{number}", **_region(text, span)} for number, span in enumerate(spans)]


def _region(text: str, span: Span) -> dict[str, Any]:
    value = {
        "start": span.start,
        "end": span.end,
        "text": text[span.start : span.end],
        "labels": [span.type],
    }
    found = {"from_name": "label", "to_name": "text", "type": "labels", "value": value}
    return found if span.confidence is None else {**found, "score": span.confidence}


FORMATS: dict[str, Callable[[Sequence[Decision], Cutting], tuple[list[str], int]]] = {
    "jsonl": _jsonl,
    "predicted": _predicted,
    "conll": _conll,
    "label-studio": _label_studio,
}
