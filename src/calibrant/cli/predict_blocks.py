"""Predict rows block by block, here or on a cluster, into the text of the output.

A block is what the model runs at once, and its place in the input does not depend on where the
command runs or was interrupted. So every engine writes the same bytes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from calibrant.cli.predict_input import IMAGE, Row, words_of
from calibrant.cli.predict_output import save_mask
from calibrant.distributed.worker_models import Block, Model, cut_blocks, stream_blocks
from calibrant.errors import InputError

if TYPE_CHECKING:
    from calibrant.tasks.predictor import Predictor

__all__ = ["Lines", "Work", "opened_engine", "predicted_lines"]


class Work(NamedTuple):
    """What happens to a block; it can be sent to another process.

    ``show`` makes the text of a row and its prediction, ``options`` are those of the predictor.
    """

    options: Mapping[str, Any]
    tokens: bool
    show: Callable[[Row, Any], str]
    masks: bool

    def texts(self, predictor: Predictor, block: Block[Row]) -> list[str]:
        """Predict the rows and return the text of each; write their masks."""
        found = predictor.stream(self._inputs(predictor, block), **self.options)
        return list(map(self._line, block.rows, found))

    def _inputs(self, predictor: Predictor, block: Block[Row]) -> list[Any]:
        if predictor.unit == "images":
            return [row[IMAGE] if IMAGE in row else row["file"] for row in block.rows]
        return [words_of(row) if self.tokens else row["text"] for row in block.rows]

    def _line(self, row: Row, prediction: Any) -> str:
        if self.masks:
            save_mask(row, prediction)
        return self.show({name: row[name] for name in row if name != IMAGE}, prediction)


Engine = Callable[[Work, Iterator[Block[Row]]], Iterator[tuple[Block[Row], list[str]]]]
Lines = Callable[..., Iterator[list[str]]]  # ``predicted_lines`` of ``show, rows, done``.


def predicted_lines(
    engine: Engine,
    predictor: Predictor,
    args: argparse.Namespace,
    options: Mapping[str, Any],
    total: int | None,
    show: Callable[[Row, Any], str],
    rows: Iterator[Row],
    done: int = 0,
) -> Iterator[list[str]]:
    """Yield the texts of the rows of each block, without the first ``done`` rows."""
    from calibrant.progress import Progress

    work = Work(options, args.tokens, show, args.masks is not None)
    with Progress(total, predictor.unit) as progress:
        progress.advance(done)
        for block, texts in engine(work, cut_blocks(rows, predictor.block, done)):
            yield texts
            progress.advance(len(block.rows))


@contextmanager
def opened_engine(args: argparse.Namespace, predictor: Predictor) -> Iterator[Engine]:
    """Yield what runs the work: this process, or the actors of a Ray cluster."""
    if args.engine is None:
        if args.jobs is not None:
            raise InputError("--jobs is for --engine ray; here one process predicts.")
        yield partial(_predict_here, predictor)
        return
    from calibrant.distributed.ray_cluster import connected

    if args.jobs is not None and args.jobs < 1:
        raise InputError(f"--jobs must be a whole number of at least 1, got {args.jobs}.")
    purpose = "Predicting on a cluster"
    with connected(args.engine.address, cores=args.jobs or 1, purpose=purpose) as ray:
        model = Model.of(predictor, args.model, args.device, args.trust_remote_code)
        yield partial(_predict_on_ray, ray, model, args.jobs)


def _predict_here(
    predictor: Predictor, work: Work, blocks: Iterator[Block[Row]]
) -> Iterator[tuple[Block[Row], list[str]]]:
    return ((block, work.texts(predictor, block)) for block in blocks)


def _predict_on_ray(
    ray: Any, model: Model, jobs: int | None, work: Work, blocks: Iterator[Block[Row]]
) -> Iterator[tuple[Block[Row], list[str]]]:
    return stream_blocks(ray, model, work.texts, blocks, jobs)
