"""Passes over a table in partitions: each answers the open questions of all fits at once.

A question is a function of predictions whose answer is a dict of arrays, and answers of parts can
be joined. The beginning of an array's name says how: ``sum:``, ``min:`` and ``max:`` go element
by element, ``join:`` puts rows one after the other, and ``cell:`` adds up sparse tables, whose
``cell:place`` numbers the cells.

A fit that needs several rounds is an ordinary function that calls ``ask(question)``. Several fits
run side by side, each in a thread that waits for its answer. When all wait, one pass answers them.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

from calibrant.calibrators.passes import WORTH_LOADING, compiled
from calibrant.claims import Claims
from calibrant.comparison.under_shift import is_copy
from calibrant.distributed.engine import Dataset, Part
from calibrant.distributed.left_out import LeftOut
from calibrant.distributed.reading import ClassCount, Reader
from calibrant.errors import InputError
from calibrant.metrics.state_bytes import pack_state, unpack_state
from calibrant.predictions import Predictions

__all__ = ["Answer", "Ask", "Chunk", "Passes", "Question"]

Answer: TypeAlias = dict[str, np.ndarray]
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
_KIND = "Answers"


@dataclass(frozen=True)
class Chunk:
    """Some rows on a worker: ``number`` is that of the first; ``views`` caches what is made.

    ``copies`` is the number of corrupted copies that were left out.
    """

    rows: Predictions | Claims
    number: int
    place: str
    copies: int = 0
    views: dict[Any, Any] = field(default_factory=dict)


class Question(Protocol):
    """A picklable value that computes its answer; equal questions are answered once."""

    def __call__(self, chunk: Chunk) -> Answer:
        """Return the answer of some rows."""
        ...

    def __hash__(self) -> int: ...


Ask: TypeAlias = Callable[[Question], Answer]


class Passes:
    """Runs fits over a dataset and counts the passes; ``clean`` leaves out corrupted copies."""

    def __init__(self, dataset: Dataset, reader: Reader, *, clean: bool = False) -> None:
        self.dataset, self.reader, self.rows = dataset, reader, dataset.count()
        self.clean = clean
        self.count, self.left_out = 0, LeftOut()

    def run(self, fits: Mapping[K, Callable[[Ask], T]]) -> dict[K, T | Exception]:
        """Return the result of each fit, or the error that it raised."""
        turns = {key: _Turn(fit) for key, fit in fits.items()}
        waiting = {key: turn.begin() for key, turn in turns.items()}
        while open_ := {key: found for key, found in waiting.items() if found is not None}:
            answers = self._answers(list(open_.values()))
            waiting = {key: turns[key].answer(answers[q]) for key, q in open_.items()}
        return {key: turn.result for key, turn in turns.items()}

    def one(self, fit: Callable[[Ask], T]) -> T:
        """Return the result of a single fit, or raise its error."""
        (found,) = self.run({"": fit}).values()
        if isinstance(found, Exception):
            raise found
        return found

    def _answers(self, questions: Sequence[Question]) -> dict[Question, Answer]:
        distinct = list(dict.fromkeys(questions))
        answering = _Answering(self.reader, tuple(distinct), self.rows, self.clean)
        result = self.dataset.reduce(answering, _join)
        self.count += 1
        if not result:
            raise InputError("Nothing to fit on: no rows.")
        self.left_out, data = LeftOut.split(result)
        return dict(zip(distinct, _unpacked(data)[0], strict=True))


class _Turn:
    """A fit in its own thread, which runs only between an answer and its next question."""

    def __init__(self, fit: Callable[[Ask], Any]) -> None:
        self._asked: queue.SimpleQueue[Question | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self.result: Any = None
        self._thread = threading.Thread(target=self._run, args=(fit,), daemon=True)

    def _run(self, fit: Callable[[Ask], Any]) -> None:
        try:
            self.result = fit(self._ask)
        except Exception as error:  # It is raised where the fit was started.
            self.result = error
        self._asked.put(None)

    def _ask(self, question: Question) -> Answer:
        self._asked.put(question)
        return self._answers.get()

    def begin(self) -> Question | None:
        """Return the first question; None at the end."""
        self._thread.start()
        return self._asked.get()

    def answer(self, answer: Answer) -> Question | None:
        """Return the next question; so one fit runs at a time, and warnings do not mix."""
        self._answers.put(answer)
        return self._asked.get()


@dataclass(frozen=True)
class _Answering:
    """Answers all questions for the rows of one part."""

    reader: Reader
    questions: tuple[Question, ...]
    rows: int  # Of the whole table.
    clean: bool

    def __call__(self, part: Part) -> bytes:
        if self.rows * self.reader.width >= WORTH_LOADING:  # A chunk alone would not pay.
            compiled("moments_compiled", WORTH_LOADING)
        totals: list[Answer] = [{} for _ in self.questions]
        number, seen = part.start, ClassCount()
        for rows in self.reader.chunks(part):
            kept, copies = _without_copies(rows.numpy()) if self.clean else (rows.numpy(), 0)
            chunk = Chunk(kept, number, part.place, copies)
            number, seen = number + len(rows), seen + ClassCount(rows.classes, part.place)
            for k, question in enumerate(self.questions):
                totals[k] = _joined([totals[k], question(chunk)])
        return LeftOut.of(part).before(_packed(totals, seen))


def _without_copies(rows: Predictions | Claims) -> tuple[Predictions | Claims, int]:
    """Return the rows of validation itself, and the number of corrupted copies among them."""
    copied = is_copy(rows)
    if not copied.any():
        return rows, 0
    return replace(rows[~copied], ignored=rows.ignored), int(copied.sum())


def _join(results: Sequence[bytes]) -> bytes:
    return LeftOut.joined(results, _merge)


def _merge(parts: Sequence[bytes]) -> bytes:
    several = [_unpacked(data) for data in parts]
    seen = sum((seen for _, seen in several), ClassCount())  # Checks that all fit.
    every = zip(*(answers for answers, _ in several), strict=True)
    return _packed([_joined(answers) for answers in every], seen)


def _packed(answers: Sequence[Answer], seen: ClassCount) -> bytes:
    arrays = {f"{k}/{name}": array for k, a in enumerate(answers) for name, array in a.items()}
    return pack_state(_KIND, {"answers": len(answers), "seen": asdict(seen)}, arrays)


def _unpacked(data: bytes) -> tuple[list[Answer], ClassCount]:
    settings, arrays = unpack_state(_KIND, data)
    answers: list[Answer] = [{} for _ in range(settings["answers"])]
    for name, array in arrays.items():
        number, _, own = name.partition("/")
        answers[int(number)][own] = array
    return answers, ClassCount(**settings["seen"])


_JOINS: dict[str, Callable[[Sequence[np.ndarray]], np.ndarray]] = {
    "sum": lambda arrays: np.asarray(sum(arrays[1:], arrays[0])),
    "min": lambda arrays: np.minimum.reduce(list(arrays)),
    "max": lambda arrays: np.maximum.reduce(list(arrays)),
    "join": np.concatenate,
}


def _joined(answers: Sequence[Answer]) -> Answer:
    """Return the answer of all rows; parts without rows have none."""
    answers = [answer for answer in answers if answer]
    if len(answers) < 2:
        return dict(answers[0]) if answers else {}
    cells = _added_cells(answers) if "cell:place" in answers[0] else {}
    return {
        name: cells[name] if name in cells else _JOINS[name.partition(":")[0]](columns)
        for name in answers[0]
        for columns in [[answer[name] for answer in answers]]
    }


def _added_cells(answers: Sequence[Answer]) -> Answer:
    places = np.concatenate([answer["cell:place"] for answer in answers])
    found, where = np.unique(places, return_inverse=True)
    added = {"cell:place": found}
    for name in answers[0]:
        if name.startswith("cell:") and name != "cell:place":
            values = np.concatenate([answer[name] for answer in answers])
            added[name] = np.bincount(where.reshape(-1), values, minlength=len(found))
    return added
