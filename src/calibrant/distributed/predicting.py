"""Predict a corpus by a run, with a model on each worker: of Ray, or of Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.distributed.engine_names import parse_engine
from calibrant.distributed.predicted_columns import PredictedColumn
from calibrant.distributed.ray_cluster import connected
from calibrant.distributed.worker_models import Block, Model, cut_blocks, stream_blocks
from calibrant.errors import InputError

if TYPE_CHECKING:
    from calibrant.policies import Policy
    from calibrant.tasks.predictor import Acceptance, Predictor

__all__ = ["ACCEPTING", "decided_here", "predict"]

# Options that say which predictions are accepted, and those that do not matter for it.
ACCEPTING = ("min_confidence", "target_risk", "level", "policy")
_NOT_ACCEPTING = ("top_k", "sentences")


def predict(
    dataset: Any,
    run: str | PathLike[str],
    *,
    engine: str = "ray",
    jobs: int | None = None,
    column: str = "text",
    field: str = "prediction",
    top_k: int = 1,
    min_confidence: float = 0.0,
    target_risk: float | None = None,
    level: float = 0.9,
    policy: Policy | str | Path | None = None,
    reduction: str = "auto",
    sentences: bool | None = None,
    tokens: bool = False,
    device: str | None = None,
    trust_remote_code: bool = False,
) -> Any:
    """Predict a corpus on a cluster, as ``calibrant predict RUN --engine ray`` does.

    A ``ray.data.Dataset`` or a Spark DataFrame comes back with one more column, ``field``: what the
    command writes about the text in ``column``, as JSON. Nothing is computed until it is read or
    written. Of anything else, such as a list or a generator of texts, the predictions are yielded
    in its order, each once, by the actors of the ``engine``: ``"ray"``, or ``"ray:ADDRESS"``.

    Workers load the run from the same folder as here and check that it is the same. ``jobs`` is the
    number of models on each node of Ray (of a Dataset: in all); the other options are those of the
    command.
    """
    from calibrant.loading import load_run

    if jobs is not None and jobs < 1:
        raise InputError(f"jobs must be a whole number of at least 1, got {jobs}.")
    predictor = load_run(Path(run), "cpu", trust_remote_code=trust_remote_code)
    of_entities = {"reduction": reduction, "sentences": sentences, "tokens": tokens}
    options: dict[str, Any] = {"top_k": top_k, "min_confidence": min_confidence}
    options |= {"target_risk": target_risk, "level": level, "policy": policy}
    if predictor.finds_entities:
        options |= of_entities
    elif of_entities != {"reduction": "auto", "sentences": None, "tokens": False}:
        raise InputError(f"reduction, sentences and tokens are for models of entities, not {run}.")
    accept, streamed = decided_here(predictor, options)
    model = Model.of(predictor, run, device, trust_remote_code)
    if type(dataset).__module__.startswith(("ray.data", "pyspark.sql")):
        column_of = PredictedColumn(model, streamed, accept, column, field, predictor.block)
        return column_of.of_ray(dataset, jobs) if _is_ray(dataset) else column_of.of_spark(dataset)
    return _predicted(_inputs(dataset), model, streamed, engine, jobs, predictor.block)


def _is_ray(dataset: Any) -> bool:
    return type(dataset).__module__.startswith("ray.data")


def _inputs(dataset: Any) -> Iterator[Any]:
    if isinstance(dataset, (str, bytes, PathLike, Mapping)) or not isinstance(dataset, Iterable):
        raise InputError(
            "predict takes an iterable of texts, a ray.data.Dataset or a Spark DataFrame, got a "
            f"{type(dataset).__name__}; 'calibrant predict RUN FILE --engine ray' reads a file."
        )
    return iter(dataset)


def _predicted(
    inputs: Iterator[Any],
    model: Model,
    options: Mapping[str, Any],
    engine: str,
    jobs: int | None,
    size: int,
) -> Iterator[Any]:
    address = parse_engine(engine, ("ray",)).address
    with connected(address, cores=jobs or 1, purpose="Predicting on a cluster") as ray:
        work = partial(_predict_block, options)
        for _, found in stream_blocks(ray, model, work, cut_blocks(inputs, size), jobs):
            yield from found


def _predict_block(
    options: Mapping[str, Any], predictor: Predictor, block: Block[Any]
) -> list[Any]:
    return list(predictor.stream(block.rows, **options))


def decided_here(
    predictor: Predictor, options: Mapping[str, Any]
) -> tuple[Acceptance, dict[str, Any]]:
    """Return what is accepted, which is found out once, and the options for each block."""
    accept = predictor.acceptance(**{k: v for k, v in options.items() if k not in _NOT_ACCEPTING})
    return accept, {k: v for k, v in options.items() if k not in ACCEPTING} | {"accept": accept}
