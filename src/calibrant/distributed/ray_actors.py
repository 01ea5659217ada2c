"""Stream blocks through actors of Ray, each of which loads a model once.

Every node runs some actors. A block whose actor or node is lost runs again on another one, a lost
actor is started again, and a node that joins later gets its own. Results come in the order of the
blocks, each once.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from calibrant.distributed.ray_cluster import nodes, resource, share_of_node, task_error
from calibrant.errors import CalibrantError

__all__ = ["stream_through_actors"]

_LOSSES = 4  # How often a block, or a model that is loading, may be lost.
_EVERY = 5.0  # Seconds between searches for nodes that need actors.
_AHEAD = 4  # Blocks per actor that may wait for an earlier one.

B = TypeVar("B")
R = TypeVar("R")


def stream_through_actors(
    ray: Any,
    make: Callable[[str], Callable[[B], R]],
    blocks: Iterator[B],
    *,
    jobs: int | None = None,
    gpus: bool = True,
) -> Iterator[tuple[B, R]]:
    """Yield each block with its result, in order.

    Each actor calls ``make`` once, with the name of its node; what it returns is called with one
    block after the other.
    ``jobs`` is the number of actors of a node (one per GPU; without ``gpus`` or where there is
    none, one). A bounded number of blocks is read ahead.
    """
    pool = _Pool(ray, make, jobs, gpus)
    try:
        yield from _Stream(pool, blocks).results()
    finally:
        pool.close()


class _Actor:
    """Runs on a worker; the model is loaded in a call, whose errors arrive as they are."""

    def load(self, make: Callable[[str], Callable[[Any], Any]], node: str) -> None:
        self.work = make(node)

    def run(self, block: Any) -> Any:
        return self.work(block)


@dataclass
class _Pool:
    """The actors of all nodes: those that load, and those that are free."""

    ray: Any
    make: Callable[[str], Callable[[Any], Any]]
    jobs: int | None
    gpus: bool
    free: deque[Any] = field(default_factory=deque)
    node_of: dict[Any, str] = field(default_factory=dict)
    loading: dict[Any, Any] = field(default_factory=dict)
    lost_loading: int = 0
    _looked: float = -_EVERY

    def grow(self) -> None:
        """Start the actors that nodes lack."""
        if time.monotonic() - self._looked < _EVERY:
            return
        self._looked = time.monotonic()
        there = nodes(self.ray)
        if not there:
            raise CalibrantError("The Ray cluster has no node with a CPU to run on.")
        running = Counter(self.node_of.values())
        for node in there:
            gpus = resource(node, "GPU") if self.gpus else 0.0
            wanted = self.jobs or max(1, int(gpus))
            for _ in range(wanted - running[node["NodeID"]]):
                self._start(node, wanted, gpus)

    def _start(self, node: Mapping[str, Any], jobs: int, gpus: float) -> None:
        options = share_of_node(node, jobs, gpus, soft=False)
        actor = self.ray.remote(_Actor).options(max_restarts=0, **options).remote()
        self.node_of[actor] = node["NodeID"]
        self.loading[actor.load.remote(self.make, str(node["NodeManagerHostname"]))] = actor

    def loaded(self, task: Any) -> None:
        """Take an actor whose model is there, or start another."""
        actor = self.loading.pop(task)
        try:
            self.ray.get(task)
        except self.ray.exceptions.RayTaskError as error:
            raise task_error(error) from None
        except self.ray.exceptions.RayError as error:
            self.lose(actor)
            self.lost_loading += 1
            if self.lost_loading == _LOSSES:
                raise _lost("A worker that loads the model", error) from None
        else:
            self.lost_loading = 0
            self.free.append(actor)

    def lose(self, actor: Any) -> None:
        """Forget an actor; if it lives on, it ends."""
        del self.node_of[actor]
        self.ray.kill(actor)
        self._looked = -_EVERY

    def close(self) -> None:
        """End all actors."""
        for actor in self.node_of:
            self.ray.kill(actor)


class _Stream(Generic[B]):
    """Blocks on their way: read, running, to be run again, and done before an earlier one."""

    def __init__(self, pool: _Pool, blocks: Iterator[B]) -> None:
        self.pool, self.unread = pool, enumerate(blocks)
        self.again: deque[tuple[int, B]] = deque()
        self.running: dict[Any, tuple[Any, int, B]] = {}
        self.done: dict[int, tuple[B, Any]] = {}
        self.losses: Counter[int] = Counter()
        self.read, self.written, self.ended = 0, 0, False

    def results(self) -> Iterator[tuple[B, Any]]:
        while not self.ended or self.running or self.again:
            self.pool.grow()
            self._submit()
            self._wait()
            while self.written in self.done:
                yield self.done.pop(self.written)
                self.written += 1

    def _submit(self) -> None:
        while self.pool.free and (item := self._next()) is not None:
            actor = self.pool.free.popleft()
            self.running[actor.run.remote(item[1])] = (actor, *item)

    def _next(self) -> tuple[int, B] | None:
        if self.again:
            return self.again.popleft()
        if self.ended or self.read - self.written >= _AHEAD * len(self.pool.node_of):
            return None
        item = next(self.unread, None)
        self.ended, self.read = item is None, self.read + 1
        return item

    def _wait(self) -> None:
        waiting = [*self.running, *self.pool.loading]
        if not self.running and self.ended:
            return  # No block is left for the actors that load.
        for task in self.pool.ray.wait(waiting, timeout=_EVERY)[0]:
            if task in self.running:
                self._take(task)
            else:
                self.pool.loaded(task)

    def _take(self, task: Any) -> None:
        actor, number, block = self.running.pop(task)
        errors = self.pool.ray.exceptions
        try:
            self.done[number] = (block, self.pool.ray.get(task))
        except errors.RayTaskError as error:
            raise task_error(error) from None
        except errors.RayError as error:
            self.pool.lose(actor)
            self.again.append((number, block))
            self.losses[number] += 1
            if self.losses[number] == _LOSSES:
                raise _lost("The worker of a block", error) from None
        else:
            self.pool.free.append(actor)


def _lost(who: str, error: BaseException) -> CalibrantError:
    return CalibrantError(
        f"{who} was lost {_LOSSES} times ({type(error).__name__}), perhaps because memory ran out: "
        "the same command continues from here; --jobs 1 needs the least."
    )
