"""The confidence and the answer in a reply: first the confidence is cut out, then the rest read."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

__all__ = ["Spoken", "cut_confidence", "names_confidence", "one_answer", "plain_key", "read_answer"]

_NUMBER = r"(?:\d+(?:[.,]\d+)?|\.\d+)(?!\d)"
_UNIT = (
    rf"\s*(?:%|per\s?cent\b|\(?(?:/|out\s+of|on\s+a\s+scale\s+(?:of|from))\s*"
    rf"(?:{_NUMBER}\s*(?:-|to)\s*)?{_NUMBER})"
)
# "(0-100)", "[0 to 1]", "(0 = unsure, 10 = sure)", "(out of 10)", "(in %)", "on a scale of 1 to 10"
_SCALE = (
    rf"[(\[][^()\[\]\d\n]*{_NUMBER}[^()\[\]\d\n]{{1,40}}{_NUMBER}[^()\[\]\d\n]*[)\]]"
    rf"|[(\[]?\s*(?:out\s+of|/)\s*{_NUMBER}\s*[)\]]?"
    r"|[(\[]\s*(?:(?:in|as)\s+)?(?:a\s+)?(?:%|per\s?cent(?:age)?)\s*[)\]]"
    rf"|(?:on\s+a\s+)?scale\s+(?:of|from)\s+{_NUMBER}\s*(?:-|to)\s*{_NUMBER}"
    rf"|(?:from|between)\s+{_NUMBER}\s*(?:-|to|and)\s*{_NUMBER}(?=\s*[:=])"
)
# What may stand between the word and its number; a sentence or another field ends it.
_GAP = (
    r"(?:in\s+(?:my|this|the|that)\s+(?:final\s+)?answer|approx\.|ca\."
    r"|(?!\b(?:answer|guess|option|choice)\b)[^\d\n.;{}])"
)
_NEW_LINE = r"(?:(?<=[:=])\s*\n\s*(?=[\d.,]+\s*(?:%|/\s*\d+)?\s*(?:\n|$)))?"
_VALUE = (
    rf"(?P<value>{_NUMBER})(?P<unit>{_UNIT})?"
    rf"(?:\s*(?:-|to\b|and\b)\s*(?P<upper>{_NUMBER})(?P<upper_unit>{_UNIT})?"
    rf"|\s*\(\s*(?P<again>{_NUMBER})(?P<again_unit>{_UNIT})\s*\))?(?!\w)"
)


def _before(word: str) -> re.Pattern[str]:
    """Return the pattern of a confidence whose word is first: "Confidence (0-100): 85"."""
    return re.compile(
        rf"(?:\b(?:my|overall|final)\s+)?\b{word}(?:{_GAP}{{0,40}}?(?P<scale>{_SCALE})|){_GAP}{{0,40}}?"
        rf"{_NEW_LINE}(?P<minus>(?<=[:=])-|(?<=[:=]\s)-)?(?<![\d.]){_VALUE}(?!\s+is\b)[\"']?\s*[)\]]?",
        re.IGNORECASE,
    )


def _after(word: str) -> re.Pattern[str]:
    """Return the pattern of a confidence whose number is first: "I am 85 % confident that"."""
    return re.compile(
        r"(?:\b(?:i\s+am|i'm|with(?:\s+an?)?)\s+)?(?:(?:about|around|approximately)\s+|~\s*)?"
        rf"(?<![\d.,])(?=[\d.,]+\s*(?:%|per|/|out)|0?\.\d|0,\d){_VALUE}[^\S\n]*(?:of\s+)?{word}"
        # "Answer: 50% Confidence: 90%": the number before the word is another one.
        r"(?![^\S\n]*[(\[]?\d|[^\d\n.;,]{0,30}[:=(]\s*\d)"
        r"(?:\s+(?:that|in\s+(?:this|my|the)\s+answer))?(?P<scale>(?!))?(?P<minus>(?!))?",
        re.IGNORECASE,
    )


# Only the first row that a reply has is read: a probability in prose may be the question's own.
_PHRASES = (
    (
        _before(r"(?:confidence|certainty)\b(?!\s+interval)"),
        _before(r"(?:probability|likelihood)\b(?=[^\n:=.]{0,40}[:=])"),
        _after(r"(?:confiden(?:ce|t)|certain(?:ty)?|sure)\b(?!\s+interval)"),
    ),
    (_before(r"(?:probability|likelihood)\b"), _after(r"(?:probability|likelihood|likely)\b")),
)
# "B (87 %)": a percentage alone in brackets.
_BRACKETED = re.compile(
    rf"[(\[]\s?(?:~\s?|(?:about|approx\.|ca\.)\s)?(?P<value>{_NUMBER})\s?(?:%|per\s?cent)\s?[)\]]",
    re.IGNORECASE,
)
_QUALIFIER = r"(?:(?:final|best|correct|right|my|the|chosen)\s+)*"
_STATED = re.compile(
    rf"(?:\b(?P<final>final)\s+)?\b(?:answer|guess|choice|prediction)\b[\"']?"
    rf"(?:\s*(?:[:=]|-(?=\s)|\bis\b(?:\s*:)?|\bwould be\b)|(?<=^answer)(?=\s))+[^\S\n]*\n?"
    r"(?P<text>(?:(?!\b(?:final\s+)?(?:answer|guess)\b\s*[:=])[^\n])+)"
    rf"|^[^\w\n]*(?:that\s+)?(?P<subject>[^\n]{{1,60}}?)\s+is\s+(?:the\s+)?{_QUALIFIER}"
    r"(?:answer|choice|option|correct|right)\b",
    re.IGNORECASE | re.MULTILINE,
)
# Of JSON, or of what looks like it: {"answer": "B", "confidence": 0.8}
_KEYED = re.compile(
    r"""["'](?:final[ _]?)?(?:answer|guess|choice|prediction)["']\s*:\s*"""
    r"""(?:"([^"\n]*)"|'([^'\n]*)'|([\w.+-]+))""",
    re.IGNORECASE,
)
_BOXED = re.compile(r"\\boxed\{(?:\\text\{)?([^{}\n]*)\}?\}")
_LEAD = re.compile(
    r"^(?:(?:i\s+(?:think|believe|choose|pick|guess|select|would say)|that|it\s+is|it's"
    r"|option|choice|answer|letter)\b[\s:]*)+(?=\S)",
    re.IGNORECASE,
)
_MARKS = " \t\n()[]{}<>.,;:!?|=\"'*_`-–—"
_LETTER = re.compile(r"[(\[]?([A-Za-z]|\d{1,2})(?:[)\]]|[.:](?=\s|$)|\s+-(?=\s)|[,;|])\s*(.*)")
_ENDS = re.compile(
    r"[.!?](?=\s|$)|[,;|)](?=\s|$)|\s+-\s|\s+\(|\s+(?:because|since|as|with|is)\s", re.I
)
_SEVERAL = re.compile(r"\s*(?:\bor\b|\band\b|/|,|&)\s*", re.IGNORECASE)

_MOST_ENDS = 20  # A longer text is no answer, and would take the square of its length.


@dataclass(frozen=True)
class Spoken:
    """A number that a reply names, and the upper end of its scale; None where it says no scale.

    ``written`` is the number as it stands: "0.85" is no percentage, "1" may be one.
    """

    value: float
    scale: float | None
    written: str

    @property
    def bare(self) -> bool:
        """Return whether the reply does not say what the largest number is."""
        return self.scale is None


def names_confidence(text: str, options: Collection[str] = ()) -> bool:
    """Return whether a text names a confidence, as :func:`cut_confidence` finds it."""
    text = _plain_text(text)
    return any(True for _ in _found(text)) or _after_answer(text, options) is not None


def cut_confidence(text: str, options: Collection[str] = ()) -> tuple[Spoken | None, str]:
    """Return the confidence of a reply, and the reply without it.

    There is none where a reply names none, or different ones. Where no number is called a
    confidence, a percentage in brackets at the end is one if it follows an answer and nothing else.
    ``options`` has the :func:`plain_key` of each answer that the question offers.

    >>> cut_confidence("Answer: B (confidence: 85 %)")
    (Spoken(value=85.0, scale=100.0, written='85'), 'Answer: B (\\n')
    >>> cut_confidence("90 % sure, then 80 % sure: B")[0]
    >>> cut_confidence("B (85 %)")
    (Spoken(value=85.0, scale=100.0, written='85'), 'B \\n')
    """
    text = _plain_text(text)
    found = list(_found(text))
    if not found and (bracketed := _after_answer(text, options)):
        percentage = bracketed["value"]
        return Spoken(_float(percentage), 100.0, percentage), text[: bracketed.start()] + "\n"
    for match in reversed(found):
        text = text[: match.start()] + "\n" + text[match.end() :]
    spoken = [each for match in found for each in _numbers(match)]
    different = {(each.value / (each.scale or 1), each.bare) for each in spoken}
    return (spoken[0] if len(different) == 1 else None), text


def _plain_text(text: str) -> str:
    """Return a reply without its reasoning in ``<think>``, its tags and its bold marks."""
    text = unicodedata.normalize("NFKC", text).split("</think>")[-1]
    text = re.sub(r"<(answer|guess|confidence|probability)>", r"\n\1: ", text, flags=re.I)
    text = re.sub(r"</\w+>", "\n", text)
    # Long runs of blanks would take the square of their length.
    text = re.sub(r"\n ?(?:\n ?)+", "\n", re.sub(r"[^\S\n]+", " ", text))
    return re.sub(r"\*\*|__|`+(?:json)?", "", text).replace("–", "-").replace("—", "-")


def _found(text: str) -> Iterator[re.Match[str]]:
    """Yield the phrases that name a confidence, from first to last, none inside another."""
    for patterns in _PHRASES:
        found = [match for pattern in patterns for match in pattern.finditer(text)]
        end = 0
        for match in sorted(found, key=lambda match: (match.start(), -match.end())):
            if match.start() >= end:
                end = match.end()
                yield match
        if found:
            return


def _after_answer(text: str, options: Collection[str]) -> re.Match[str] | None:
    """Return the only percentage alone in brackets of a text, if it ends an answer and the text.

    The answer is stated ("Answer: B"), has a letter ("B) Paris"), is one of the ``options``, or is
    one word that is the whole text. A number followed by a percentage, "5 (83 %)", is a count and
    its share, unless it is one of the options.
    """
    found = list(islice(_BRACKETED.finditer(text), 2))
    if len(found) != 1 or text[found[0].end() :].strip(_MARKS):
        return None
    before, _, line = text[: found[0].start()].rpartition("\n")
    stated = _stated(line)
    answer = _bare(stated[-1] if stated else line)
    key = plain_key(answer)
    offered = key in options
    if not key or (not offered and re.search(r"\d\W*$", answer)):
        return None
    letter = len(key) == 1 or _LETTER.match(answer)
    alone = not plain_key(before) and (offered or len(key.split()) == 1)
    return found[0] if stated or letter or alone else None


def _numbers(match: re.Match[str]) -> Iterator[Spoken]:
    """Yield what a phrase says: one number, or two of a range, or one in two spellings."""
    unit = match["unit"] or match["upper_unit"] or match["scale"]
    sign = -1 if match["minus"] else 1
    yield Spoken(sign * _float(match["value"]), _upper(unit), match["value"])
    if match["upper"]:
        yield Spoken(_float(match["upper"]), _upper(unit), match["upper"])
    if match["again"] and (unit or _float(match["value"]) <= 1):
        same = Spoken(_float(match["again"]), _upper(match["again_unit"]), match["again"])
        if unit or abs(same.value / (same.scale or 1) - _float(match["value"])) > 1e-9:
            yield same


def _upper(scale: str | None) -> float | None:
    """Return the upper end of a scale such as "%", "/10" or "(0-1)"."""
    if scale is None:
        return None
    numbers = re.findall(_NUMBER, scale)
    return _float(numbers[-1]) if numbers else 100.0


def _float(number: str) -> float:
    return float(number.replace(",", "."))


def plain_key(text: str) -> str:
    """Return an answer without case and marks around it, to compare it with others.

    >>> plain_key(" (B). "), plain_key("$B$")
    ('b', 'b')
    """
    text = unicodedata.normalize("NFKC", text).strip(_MARKS).strip("$").strip(_MARKS)
    return re.sub(r"\s+", " ", text).casefold()


def read_answer(text: str, choices: Mapping[str, str]) -> str | None:
    """Return the answer of a reply without its confidence; None for none, or for different ones.

    ``choices`` has the spelling of each known answer by its :func:`plain_key`. What a reply states
    ("Answer: B", "B is correct") counts, else its first line. Only ``choices`` decide where an
    answer ends, never which one is the true one.

    >>> choices = {"b": "B", "c": "C"}
    >>> read_answer("The answer is (b), not C.", choices), read_answer("Answer: B or C", choices)
    ('B', None)
    """
    text = re.sub(r"(?m)^[^\S\n]*[{}\[\]\"',.;|()-]+[^\S\n]*$", "", text)
    stated = _stated(text)
    if stated:
        each = [one_answer(text, choices) for text in stated]
        answers = {answer and plain_key(answer): answer for answer in each}
        return next(iter(answers.values())) if len(answers) == 1 else None
    lines = [line for line in text.split("\n") if plain_key(line)]
    keys = [plain_key(_bare(line)) for line in lines]
    whole = {choices.get(key, key): None for key in keys if key in choices or len(key) == 1}
    if not lines or len(whole) > 1:
        return None
    if whole:
        return next(iter(whole))
    answer = one_answer(lines[0], choices)
    longest = max((len(choice.split()) for choice in choices), default=1)
    prose = answer is not None and len(answer.split()) > longest + 2
    return None if prose else answer


def _stated(text: str) -> list[str]:
    """Return all answers that a reply states; where one is called final, those alone."""
    if boxed := _BOXED.findall(text):
        return [str(each) for each in boxed]
    if keyed := list(_KEYED.finditer(text)):
        return [next(each for each in match.groups() if each is not None) for match in keyed]
    found = list(_STATED.finditer(text))
    found = [match for match in found if match["final"]] or found
    texts = [match["text"] or match["subject"] for match in found]
    return [each for each in texts if plain_key(each)]


def one_answer(text: str, choices: Mapping[str, str]) -> str | None:
    """Return the choice that a text is or begins with, else its first part; None for several."""
    text = _bare(text)
    if (key := plain_key(text)) in choices:
        return choices[key]
    parts = [plain_key(part) for part in _SEVERAL.split(text.strip(_MARKS))]
    if len(set(parts)) > 1 and all(part in choices or len(part) == 1 for part in parts):
        return None
    ends = [match.start() for match in islice(_ENDS.finditer(text), _MOST_ENDS)]
    starts = [text[:end] for end in reversed(ends)]
    letter = _LETTER.match(text)
    rest = [letter[1], *([letter[2]] if letter[2] else [])] if letter else []
    for part in (*starts, *rest):
        if (key := plain_key(part)) in choices:
            return choices[key]
    first = next((part for part in (*starts[::-1], text) if plain_key(part)), "")
    return first.strip(_MARKS) or None


def _bare(text: str) -> str:
    return _LEAD.sub("", text.strip().lstrip("-*•>= ").strip())
