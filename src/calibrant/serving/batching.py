"""Batch dynamically: inputs that wait while the model is busy run together in its next call."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

__all__ = ["Batcher", "QueueFull"]


class QueueFull(Exception):  # noqa: N818 — a state of the service, answered with 503.
    """More inputs wait than the limit allows."""


@dataclass(eq=False)
class _Item:
    """A waiting input and the future of its prediction."""

    given: Any
    options: Hashable
    found: asyncio.Future[Any]


class Batcher:
    """Calls ``predict(inputs, options)`` in one thread, with up to ``most`` waiting inputs at once.

    The batcher never waits for a batch to fill: an idle model starts immediately, and a busy one
    takes the next batch when it is done. Inputs of one batch have equal options. If a batch fails,
    each of its inputs runs separately, so one bad input fails only its own request. There is
    nothing to start or stop: the task that empties the queue ends when the queue is empty.
    """

    def __init__(
        self,
        predict: Callable[[Sequence[Any], Any], Sequence[Any]],
        *,
        most: int = 64,
        limit: int = 1024,
        observe: Callable[[int], Any] = int,
    ) -> None:
        self._predict, self._observe = predict, observe
        self.most, self.limit = most, limit
        self._waiting: deque[_Item] = deque()
        self._task: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="calibrant-model")

    def __len__(self) -> int:
        return len(self._waiting)

    async def submit(self, inputs: Sequence[Any], options: Hashable = None) -> list[Any]:
        """Return the predictions of the inputs, in their order; raise the first one's error."""
        if len(self._waiting) + len(inputs) > self.limit:
            raise QueueFull
        loop = asyncio.get_running_loop()
        items = [_Item(given, options, loop.create_future()) for given in inputs]
        self._waiting.extend(items)
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._empty())
        try:
            found = await asyncio.gather(*(item.found for item in items), return_exceptions=True)
        finally:  # Inputs of a cancelled request no longer run.
            for item in items:
                item.found.cancel()
        for one in found:
            if isinstance(one, BaseException):
                raise one
        return list(found)

    async def _empty(self) -> None:
        loop = asyncio.get_running_loop()
        while batch := self._next_batch():
            self._observe(len(batch))
            results = await loop.run_in_executor(self._thread, self._results, batch)
            for item, (found, error) in zip(batch, results, strict=True):
                if item.found.done():
                    continue
                if error is None:
                    item.found.set_result(found)
                else:
                    item.found.set_exception(error)

    def _next_batch(self) -> list[_Item]:
        """Take the oldest input and those with its options, up to ``most``; others keep waiting."""
        batch: list[_Item] = []
        others: deque[_Item] = deque()
        while self._waiting and len(batch) < self.most:
            item = self._waiting.popleft()
            if item.found.done():
                continue
            (batch if not batch or item.options == batch[0].options else others).append(item)
        self._waiting.extendleft(reversed(others))
        return batch

    def _results(self, batch: Sequence[_Item]) -> list[tuple[Any, Exception | None]]:
        """Predict a batch; if it fails, predict each input separately."""
        options = batch[0].options
        try:
            found = self._predict([item.given for item in batch], options)
            return [(one, None) for one in found]
        except Exception as error:
            if len(batch) == 1:
                return [(None, error)]
        return [self._results([item])[0] for item in batch]
