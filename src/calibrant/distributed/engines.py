"""The table of engines: their names on the command line, and the tables that they hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from os import PathLike
from typing import Any, NamedTuple

from calibrant.distributed.engine import Dataset, Engine, LocalEngine, Parts
from calibrant.distributed.parquet_parts import plan_parts
from calibrant.errors import InputError, unknown_name
from calibrant.extras import require

__all__ = ["ENGINES", "Opened", "open_dataset", "parse_engine", "using_engine"]


@contextmanager
def _local(address: str) -> Iterator[Engine]:
    if address:
        raise InputError(f"The engine 'local' has no address, got '{address}'.")
    yield LocalEngine()


@contextmanager
def _ray(address: str) -> Iterator[Engine]:
    ray = require("ray", "ray", "The engine 'ray'")
    from calibrant.distributed.ray_cluster import connected
    from calibrant.distributed.ray_engine import RayEngine

    with connected(ray, address or "local", own="--engine ray"):
        yield RayEngine()


# Name → a context with an engine at an address; "" is its default.
ENGINES: dict[str, Any] = {"local": _local, "ray": _ray}


def parse_engine(text: str) -> tuple[str, str]:
    """Return the name and the address of an engine.

    >>> parse_engine("ray:head:6379"), parse_engine("ray")
    (('ray', 'head:6379'), ('ray', ''))
    """
    name, _, address = text.partition(":")
    if name not in ENGINES:
        raise unknown_name("engine", name, ENGINES)
    return name, address


def using_engine(text: str) -> AbstractContextManager[Engine]:
    """Return a context with the engine that ``--engine`` names, connected while it is open."""
    name, address = parse_engine(text)
    found: AbstractContextManager[Engine] = ENGINES[name](address)
    return found


class Opened(NamedTuple):
    """A dataset, the schema of each of its files, and the files that were left out as damaged."""

    dataset: Dataset
    schemas: list[tuple[str, Any]]
    damaged: tuple[str, ...] = ()


def open_dataset(source: Any, engine: Engine | None = None, *, skip_damaged: bool = False) -> Opened:
    """Return the dataset that ``source`` is: parquet paths, a table of an engine, or a Dataset.

    Paths are read by ``engine``, or here.
    """
    if isinstance(source, (str, PathLike, list, tuple)):
        plan = plan_parts(source, skip_damaged=skip_damaged)
        parts = Parts(engine or LocalEngine(), plan.parts, plan.schemas[0], plan.rows)
        return Opened(parts, list(zip(plan.files, plan.schemas, strict=True)), plan.damaged)
    if type(source).__module__.startswith("ray.data"):
        from calibrant.distributed.ray_engine import RayDataset

        return Opened(RayDataset(source), [])
    if all(hasattr(source, name) for name in ("schema", "count", "map", "reduce")):
        return Opened(source, [])
    raise InputError(
        "calibrant.distributed takes parquet paths, a ray.data.Dataset, a Spark DataFrame or a "
        f"Dataset of calibrant.distributed, got a {type(source).__name__}."
    )
