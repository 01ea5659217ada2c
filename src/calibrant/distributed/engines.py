"""The table of engines: their names on the command line, and the tables that they hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from os import PathLike
from typing import Any, NamedTuple

from calibrant.distributed.engine import Dataset, Engine, LocalEngine, Parts
from calibrant.distributed.engine_names import EngineName, parse_engine
from calibrant.distributed.parquet_parts import plan_parts
from calibrant.errors import InputError

__all__ = ["ENGINES", "Opened", "open_dataset", "using_engine"]


@contextmanager
def _ray(address: str) -> Iterator[Engine]:
    from calibrant.distributed.ray_cluster import connected
    from calibrant.distributed.ray_engine import RayEngine

    with connected(address, purpose="The engine 'ray'"):
        yield RayEngine()


@contextmanager
def _spark(master: str) -> Iterator[Engine]:
    from calibrant.distributed.spark_engine import SparkEngine
    from calibrant.distributed.spark_session import spark_session

    with spark_session(master) as session:
        yield SparkEngine(session)


# Name → a context with an engine at an address.
ENGINES: dict[str, Callable[[str], AbstractContextManager[Engine]]] = {
    "ray": _ray,
    "spark": _spark,
}


def using_engine(given: str | EngineName) -> AbstractContextManager[Engine]:
    """Return a context with the engine that ``--engine`` names, connected while it is open."""
    named = parse_engine(given) if isinstance(given, str) else given
    return ENGINES[named.name](named.address)


class Opened(NamedTuple):
    """A dataset, the schema of each of its files, and the files that were left out as damaged."""

    dataset: Dataset
    schemas: list[tuple[str, Any]]
    damaged: tuple[str, ...] = ()


def open_dataset(
    source: Any, engine: Engine | None = None, *, skip_damaged: bool = False
) -> Opened:
    """Return the dataset that ``source`` is: parquet paths, a table of an engine, or a Dataset.

    Paths are read by ``engine``, or here.
    """
    if isinstance(engine, str):
        raise InputError(
            f"engine must be an engine, got '{engine}'; calibrant.distributed.using_engine opens "
            f"one: with using_engine('{engine}') as engine: …"
        )
    if isinstance(source, (str, PathLike, list, tuple)):
        engine = engine or LocalEngine()
        plan = plan_parts(source, workers=engine.workers, skip_damaged=skip_damaged)
        parts = Parts(engine, plan.parts, plan.schemas[0], plan.rows)
        return Opened(parts, list(zip(plan.files, plan.schemas, strict=True)), plan.damaged)
    if type(source).__module__.startswith("ray.data"):
        from calibrant.distributed.ray_engine import RayDataset

        return Opened(RayDataset(source), [])
    if type(source).__module__.startswith("pyspark.sql"):
        from calibrant.distributed.spark_engine import SparkDataset

        return Opened(SparkDataset(source), [])
    if all(hasattr(source, name) for name in ("schema", "count", "map", "reduce")):
        return Opened(source, [])
    raise InputError(
        "calibrant.distributed takes parquet paths, a ray.data.Dataset, a Spark DataFrame or a "
        f"Dataset of calibrant.distributed, got a {type(source).__name__}."
    )
