"""The entities in the output of any tool, as it is, and their scores written back into it.

An entity is an object (``start``, ``end``, ``type``, ``score`` or the names that tools use instead)
or a list ``[start, end, type]`` of people's markings. Its document is an object with a list of
entities, or this list alone. Known are the outputs of Hugging Face pipelines (all aggregation
strategies), spaCy (``doc.to_json()``), GLiNER, flair (``sentence.to_dict()``), Presidio and Amazon
Comprehend, and the files of Prodigy, doccano and Label Studio (JSON and JSON-MIN).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, TypeAlias

from calibrant.entities.document import Document, Entity
from calibrant.errors import InputError
from calibrant.files.label_studio import is_task, marked_regions, task_data
from calibrant.inputs import shortened

__all__ = ["Parsed", "parse_document"]

Place: TypeAlias = tuple[Any, Any]  # A dict or list, and the key or index of a score in it

_START = (
    "start",
    "start_char",
    "start_pos",
    "start_position",
    "start_offset",
    "begin",
    "BeginOffset",
)
_END = ("end", "end_char", "end_pos", "end_position", "end_offset", "stop", "EndOffset")
_TYPE = ("type", "label", "entity_group", "entity_type", "entity", "tag", "category", "Type")
_SCORE = ("score", "confidence", "probability", "Score")
_ENTITIES = ("entities", "ents", "predictions", "labels", "label", "ner", "results", "Entities")
_ABSTAINED = "abstained"  # What calibrant predicts below a threshold, beside its "entities"
_DECISIONS = (_ABSTAINED, "guarantee", "review")
_NOT_ACCEPTED = ("reject", "ignore")  # Answers in Prodigy
_SPANS = "spans"
_COVERED = ("text", "word", "Text")  # The text of an entity, where a tool repeats it
_UNITS = {"UTF-16 units": ("utf-16-le", 2), "bytes of UTF-8": ("utf-8", 1)}  # And bytes of one
_ID = ("id", "doc_id", "document_id", "custom_id")
_TOKEN = ("entity", "index")  # What a Hugging Face pipeline without aggregation gives for a token
# B, S(ingle), U(nit) and W(hole) begin an entity; I, E(nd), L(ast) and M(iddle) continue one.
_PREFIXED = re.compile(r"(?P<letter>[BSUWIELM])[-_](?P<kind>.+)", re.DOTALL)


@dataclass(frozen=True)
class Parsed:
    """A document, and where in the tool's own output the scores of each entity are."""

    document: Document
    places: tuple[tuple[Place, ...], ...]
    line: dict[str, Any] | None = None  # Of ``calibrant predict``

    @property
    def decided(self) -> bool:
        """Whether the output has decisions of calibrant, which hold for the old scores alone."""
        return self.line is not None and any(self.line.get(key) for key in _DECISIONS)

    def write(self, scores: Sequence[float]) -> None:
        """Put a score in the place of each entity's own; its tokens share it.

        What calibrant decided by the old scores is taken out, and alternatives share what the new
        ones leave of 1.
        """
        for places, score in zip(self.places, scores, strict=True):
            for container, key in places:
                if self.line is not None:
                    _share_the_rest(container, container.get(key), float(score))
                container[key] = float(score)
        if self.line is not None:
            _take_back(self.line)


def parse_document(
    value: Any, where: str, spans: str | None = None, *, gold: bool = False
) -> Parsed:
    """Return the document that a tool's output describes; ``where`` names it in errors.

    ``spans`` names the group of spaCy's spans to read where there are several. Entities below a
    threshold of calibrant are predictions too; in ``gold`` they are not, as nobody confirmed them.

    >>> parse_document([{"entity_group": "PER", "score": 0.9, "start": 0, "end": 4}], "1").document
    Document(entities=(Entity(start=0, end=4, type='PER', score=0.9),), id=None, text=None)
    """
    own = False
    if isinstance(value, (list, tuple)):
        found, name, text = list(value), None, None
    elif isinstance(value, dict):
        if gold and value.get("answer") in _NOT_ACCEPTED:
            raise InputError(
                f"{where}: its answer in Prodigy is '{value['answer']}', so nobody says which "
                "entities are true; leave the text out of both files."
            )
        about = task_data(value, where) if is_task(value) else value
        found, text = _entity_list(value, where, spans), about.get("text")
        if own := _is_prediction(value) and spans is None and not gold:
            found = [*found, *value[_ABSTAINED]]
        name = next(
            (each[key] for each in (about, value) for key in _ID if each.get(key) is not None), None
        )
    else:
        raise InputError(f"{where}: expected an object or a list of entities, got {_short(value)}.")
    if text is not None and not isinstance(text, str):
        raise InputError(f"{where}: expected text in 'text', got {_short(text)}.")
    if text is not None:
        _check_unit(found, text, where)
        _check_ends(found, text, where)
    if found and all(_is_token(each) for each in found):
        entities = _of_tokens(found, where)
    else:
        entities = [_entity(each, f"{where}, entity {i}") for i, each in enumerate(found, start=1)]
    if own:  # In the order of the text, as without a threshold.
        entities.sort(key=lambda each: each[0].start)
    document = Document(
        tuple(entity for entity, _ in entities), None if name is None else str(name), text
    )
    places = tuple(places for _, places in entities)
    return Parsed(document, places, value if own else None)


def _is_prediction(record: Mapping[str, Any]) -> bool:
    """Return whether a record is a line of ``calibrant predict``."""
    lists = [record.get(key) for key in (_ENTITIES[0], _ABSTAINED)]
    return all(isinstance(f, list) and all(isinstance(e, dict) for e in f) for f in lists)


def _take_back(line: dict[str, Any]) -> None:
    """Make a line of ``calibrant predict`` one without a threshold or policy."""
    found = [*line[_ENTITIES[0]], *line[_ABSTAINED]]
    line[_ENTITIES[0]] = sorted(found, key=lambda each: int(_first(each, _START)))
    line[_ABSTAINED] = []
    for key in _DECISIONS[1:]:
        line.pop(key, None)


def _share_the_rest(entity: dict[str, Any], old: float | None, new: float) -> None:
    """Give alternatives the shares of 1 − ``new`` that they had of 1 − ``old``.

    They are taken out if ``old`` left nothing, as their shares are unknown.

    >>> entity = {"alternatives": [{"label": "LOC", "confidence": 0.375}]}
    >>> _share_the_rest(entity, 0.5, 0.8)
    >>> round(entity["alternatives"][0]["confidence"], 9)  # Three quarters of the rest.
    0.15
    """
    others = entity.pop("alternatives", None)
    known = isinstance(others, list) and all(isinstance(each, dict) for each in others)
    if not known or old is None or old >= 1:
        return
    factor = (1 - new) / (1 - old)
    entity["alternatives"] = [
        {**each, "confidence": factor * (_number(each.get("confidence"), "alternatives") or 0.0)}
        for each in others
    ]


def _entity_list(record: dict[str, Any], where: str, spans: str | None) -> list[Any]:
    """Return the list of entities of a document, which each tool names in its own way."""
    if is_task(record):
        return marked_regions(record, where)
    groups = record.get(_SPANS)
    keys = [key for key in _ENTITIES if isinstance(record.get(key), list)]
    if spans is None and isinstance(groups, list):
        return groups
    if isinstance(groups, dict) and (spans is not None or groups):
        full = [key for key in keys if record[key]]
        if spans is None and (full or len(groups) > 1):
            named = ", ".join([*(f"'{key}'" for key in full), *(f"'{key}'" for key in groups)])
            raise InputError(f"{where}: entities are in {named}; --spans KEY chooses spans.")
        if (chosen := next(iter(groups)) if spans is None else spans) not in groups:
            raise InputError(
                f"{where}: there are no spans '{shortened(str(chosen))}'; there are "
                f"{', '.join(map(repr, groups)) or 'none'}."
            )
        return _checked_list(groups[chosen], where)
    if spans is not None:
        raise InputError(f"{where}: there are no spans '{shortened(spans)}'.")
    if not keys:
        raise InputError(
            f"{where}: expected a list of entities in one of {', '.join(_ENTITIES[:3])}, spans; "
            f"got {shortened(', '.join(record) or 'nothing')}."
        )
    return _checked_list(record[keys[0]], where)


def _checked_list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"{where}: expected a list of entities, got {_short(value)}.")
    return value


def _entity(value: Any, where: str) -> tuple[Entity, tuple[Place, ...]]:
    if isinstance(value, list):
        return _of_list(value, where)
    if not isinstance(value, dict):
        raise InputError(f"{where}: expected an object, got {_short(value)}.")
    span = _span_of(value)
    labels = span.get("labels")  # flair and Label Studio give each span a list of labels.
    if isinstance(labels, list) and labels and isinstance(labels[0], dict):
        label = labels[0]
        kind, holder, score = label.get("value"), label, "confidence"
    else:
        one = isinstance(labels, list) and len(labels) == 1
        kind, holder = labels[0] if one else _first(span, _TYPE), value
        score = next((key for key in _SCORE if value.get(key) is not None), _SCORE[0])
    start, end = _whole(span, _START, where), _whole(span, _END, where)
    if not isinstance(kind, str):
        raise InputError(f"{where}: it has no type ({', '.join(_TYPE[:4])}).")
    entity = Entity(start, end, kind, _number(holder.get(score), where))
    return entity, ((holder, score),)


def _span_of(value: Any) -> Any:
    """Return the place of an entity, which Label Studio keeps in an object of its own."""
    inner = value.get("value") if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else value


def _of_list(value: list[Any], where: str) -> tuple[Entity, tuple[Place, ...]]:
    """Read [start, end, type], as people's markings are often kept."""
    if len(value) not in (3, 4) or not isinstance(value[2], str):
        raise InputError(f"{where}: expected [start, end, type], got {_short(value)}.")
    named = dict(zip(("start", "end"), value, strict=False))
    start, end = _whole(named, ("start",), where), _whole(named, ("end",), where)
    score = _number(value[3], where) if len(value) == 4 else None
    return Entity(start, end, value[2], score), (((value, 3),) if len(value) == 4 else ())


def _check_unit(found: Sequence[Any], text: str, where: str) -> None:
    """Refuse places that count bytes or UTF-16 units: the text that a tool repeats shows it.

    A tool may repeat a text with other spaces, in lower case or as word pieces, so one that fits
    nowhere is no proof of anything.
    """
    for number, covered, start, end in () if text.isascii() else _with_text(found):
        if unit := _other_unit(text, start, end, _letters(covered)):
            raise InputError(
                f"{where}: entity {number} ('{shortened(covered)}') is from {start} to {end} "
                f"in {unit}; expected characters (code points), as Python counts them."
            )


def _check_ends(found: Sequence[Any], text: str, where: str) -> None:
    """Refuse ends that are places of the last character, if this holds for all repeated texts."""
    several = list(_with_text(found))
    if several and all(
        _letters(text[start:end]) != _letters(covered) == _letters(text[start : end + 1])
        for _, covered, start, end in several
    ):
        number, covered, _, end = several[0]
        raise InputError(
            f"{where}: entity {number} ('{shortened(covered)}') ends at {end}, the place of its "
            f"last character; expected the place behind it, {end + 1}."
        )


def _with_text(found: Sequence[Any]) -> Iterator[tuple[int, str, int, int]]:
    """Yield number, text, start and end of the entities whose text the tool repeats."""
    for number, value in enumerate(found, start=1):
        value = _span_of(value)
        covered = _first(value, _COVERED) if isinstance(value, dict) else None
        if not isinstance(covered, str) or not _letters(covered):
            continue
        start, end = (_first(value, keys) for keys in (_START, _END))
        if isinstance(start, int) and isinstance(end, int) and 0 <= start <= end:
            yield number, covered, start, end  # Another check reports what else is wrong.


def _other_unit(text: str, start: int, end: int, covered: str) -> str | None:
    """Return the unit in which a text is at this place, unless it is so in characters."""
    if _letters(text[start:end]) == covered:
        return None
    for unit, (encoding, width) in _UNITS.items():
        part = text.encode(encoding, "surrogatepass")[start * width : end * width]
        if _letters(part.decode(encoding, "replace")) == covered:
            return unit
    return None


def _letters(text: str) -> str:
    """Return what two ways to write the same text share."""
    return "".join(text.casefold().removeprefix("##").strip("▁Ġ").split())


def _is_token(value: Any) -> bool:
    return isinstance(value, dict) and all(key in value for key in _TOKEN)


def _of_tokens(
    tokens: Sequence[Mapping[str, Any]], where: str
) -> list[tuple[Entity, tuple[Place, ...]]]:
    """Join tokens as Hugging Face's strategy "simple" does: the score is the mean of theirs.

    That strategy reads B- and I- alone; here tags may also be BIOES, BILOU or BMEWO.
    """
    groups: list[list[tuple[Entity, Place, int]]] = []
    for number, token in enumerate(tokens, start=1):
        entity, ((holder, key),) = _entity(token, f"{where}, token {number}")
        begins, kind = _tag(entity.type)
        index = _whole(token, ("index",), where)
        piece = (Entity(entity.start, entity.end, kind, entity.score), (holder, key), index)
        last = groups[-1][-1] if groups else None
        if last is not None and last[0].type == kind and not begins and index == last[2] + 1:
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return [_joined(group) for group in groups]


def _joined(group: Sequence[tuple[Entity, Place, int]]) -> tuple[Entity, tuple[Place, ...]]:
    first, last = group[0][0], group[-1][0]
    scores = [entity.score for entity, _, _ in group if entity.score is not None]
    score = sum(scores) / len(scores) if len(scores) == len(group) else None
    return Entity(first.start, last.end, first.type, score), tuple(place for _, place, _ in group)


def _tag(name: str) -> tuple[bool, str]:
    """Return whether a tag begins an entity, and the entity's type.

    >>> _tag("B-PER"), _tag("I-PER"), _tag("PER")
    ((True, 'PER'), (False, 'PER'), (False, 'PER'))
    >>> _tag("S-PER"), _tag("L-PER"), _tag("B_PER")
    ((True, 'PER'), (False, 'PER'), (True, 'PER'))
    """
    found = _PREFIXED.fullmatch(name)
    return (found["letter"] in "BSUW", found["kind"]) if found else (False, name)


def _first(record: Mapping[str, Any], keys: Sequence[str]) -> Any:
    return next((record[key] for key in keys if record.get(key) is not None), None)


def _whole(record: Mapping[str, Any], keys: Sequence[str], where: str) -> int:
    value = _first(record, keys)
    if isinstance(value, bool) or not isinstance(value, Integral):
        got = "nothing" if value is None else _short(value)
        raise InputError(f"{where}: expected a whole number in '{keys[0]}', got {got}.")
    return int(value)


def _number(value: Any, where: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(f"{where}: expected a number as the score, got {_short(value)}.")
    try:
        return float(value)
    except OverflowError:  # A whole number of hundreds of digits.
        return math.inf


def _short(value: Any) -> str:
    return shortened(repr(value), 60)
