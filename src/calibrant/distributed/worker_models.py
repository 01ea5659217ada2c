"""Models on the workers of a cluster: each loads a run once and gets blocks of inputs.

A block is what the model runs at once, and its place in the corpus does not depend on where it
runs. So every engine predicts the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from calibrant.distributed.ray_cluster import HANDED_ON, enter_place
from calibrant.errors import CalibrantError, InputError

if TYPE_CHECKING:
    from calibrant.tasks.predictor import Predictor

__all__ = ["Block", "Model", "cut_blocks", "identity", "stream_blocks"]

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Block(Generic[T]):
    """Consecutive inputs, and the number of the first."""

    first: int
    rows: list[T]


def cut_blocks(rows: Iterator[T], size: int, done: int = 0) -> Iterator[Block[T]]:
    """Yield the rows in blocks, without the first ``done``.

    >>> [block.first for block in cut_blocks(iter([{}] * 5), 2, done=2)]
    [2, 4]
    """
    rows = islice(rows, done, None)
    while part := list(islice(rows, size)):
        yield Block(done, part)
        done += len(part)


@dataclass(frozen=True)
class Model:
    """A run as workers open it; ``identity`` is what predictions depend on, here as there."""

    run: str
    device: str | None
    trust_remote_code: bool
    identity: tuple[str | None, ...]
    place: str
    settings: tuple[tuple[str, str], ...]

    @classmethod
    def of(
        cls,
        predictor: Predictor,
        run: str | PathLike[str],
        device: str | None,
        trust_remote_code: bool,
    ) -> Model:
        """Describe the run of a predictor."""
        settings = tuple((name, os.environ[name]) for name in HANDED_ON if name in os.environ)
        own = identity(predictor)
        return cls(os.fspath(run), device, trust_remote_code, own, str(Path.cwd()), settings)

    @property
    def uses_gpus(self) -> bool:
        """Whether it runs on GPUs where there are any."""
        from calibrant.tasks.export_folder import is_export

        return self.device != "cpu" and not is_export(Path(self.run))

    def load(self, node: str) -> Predictor:
        """Load the run on a worker, and check that it is the same as here."""
        from calibrant.loading import load_run

        enter_place(self.place, dict(self.settings))
        trust = self.trust_remote_code
        try:
            predictor = load_run(self.run, self.device, trust_remote_code=trust)
        except InputError as error:  # Not bad input: what was predicted so far stays.
            raise CalibrantError(f"On the node {node}: {error}") from None
        if identity(predictor) != self.identity:
            raise CalibrantError(
                f"On the node {node}, {self.run} or calibrant is another than here: every node "
                "needs the same."
            )
        return predictor


def identity(predictor: Predictor) -> tuple[str | None, ...]:
    """Return what the predictions depend on: model, calibrator, version of calibrant."""
    from calibrant import __version__

    return *predictor.fingerprints().values(), __version__


def stream_blocks(
    ray: Any,
    model: Model,
    work: Callable[[Predictor, Block[T]], R],
    blocks: Iterator[Block[T]],
    jobs: int | None,
) -> Iterator[tuple[Block[T], R]]:
    """Yield each block with what ``work`` makes of it, in order, by actors that load the model."""
    from calibrant.distributed.ray_actors import stream_through_actors

    make = partial(_worker, model, work)
    return stream_through_actors(ray, make, blocks, jobs=jobs, gpus=model.uses_gpus)


def _worker(
    model: Model, work: Callable[[Predictor, Block[T]], R], node: str
) -> Callable[[Block[T]], R]:
    return partial(work, model.load(node))
