"""Predictions as a further column of a table that an engine holds."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import count
from typing import TYPE_CHECKING, Any

from calibrant.distributed.ray_cluster import nodes
from calibrant.distributed.worker_models import Model
from calibrant.errors import InputError
from calibrant.extras import require
from calibrant.json_values import FORMAT, json_values

if TYPE_CHECKING:
    from calibrant.tasks.predictor import Acceptance, Predictor

__all__ = ["PredictedColumn", "as_json"]

_TURNS = count()  # Of the actors that were started.


def as_json(prediction: Any, accept: Acceptance) -> dict[str, Any]:
    """Return what is written about one input."""
    found: dict[str, Any] = {"format": FORMAT, **prediction.to_dict()}
    if (promise := accept.meaning()) is not None:
        found["guarantee"] = promise
    return found


@lru_cache(maxsize=1)
def _loaded(model: Model) -> Predictor:
    """Return the predictor; a process of Spark or Ray loads it once."""
    return model.load(socket.gethostname())


@dataclass(frozen=True)
class PredictedColumn:
    """Adds the predictions of a column to record batches, on a worker."""

    model: Model
    options: Mapping[str, Any]
    accept: Acceptance
    column: str
    field: str
    block: int

    def of_ray(self, dataset: Any, jobs: int | None) -> Any:
        """Return a dataset of Ray with the column, by actors.

        An actor lives as long as the dataset is read and reserves no processor: what reads the
        dataset, and the actors of another column, would wait for that processor for ever.
        """
        ray: Any = require("ray", "ray", "A dataset of Ray")
        data: Any = require("ray.data", "ray", "A dataset of Ray")
        self._check(dataset.columns() or [])
        there = ray.cluster_resources()
        gpus = self.model.uses_gpus and there.get("GPU", 0) > 0
        placed = {"num_gpus": 1} if gpus else {"ray_remote_args_fn": _on_the_next_node}
        most = jobs or int(max(1, there.get("GPU" if gpus else "CPU", 1)))
        return dataset.map_batches(
            _BatchPredictor,
            fn_constructor_args=(self,),
            batch_format="pyarrow",
            batch_size=self.block,
            compute=data.ActorPoolStrategy(min_size=1, max_size=most),
            num_cpus=0,
            **placed,
        )

    def of_spark(self, frame: Any) -> Any:
        """Return a DataFrame of Spark with the column."""
        from calibrant.distributed.spark_session import spark_errors

        types = require("pyspark.sql.types", "spark", "A Spark DataFrame")
        self._check(frame.columns)
        added = types.StructField(self.field, types.StringType())
        schema = types.StructType([*frame.schema.fields, added])
        with spark_errors():
            return frame.mapInArrow(partial(_of_batches, self), schema)

    def _check(self, columns: Iterable[str]) -> None:
        columns = list(columns)
        if self.column not in columns:
            raise InputError(
                f"The table has no column '{self.column}' of texts, but {', '.join(columns)}: name "
                "it (column=…)."
            )
        if self.field in columns:
            raise InputError(
                f"The table has a column '{self.field}': name another for predictions (field=…)."
            )

    def __call__(self, table: Any) -> Any:
        """Return the rows, a record batch or a table, with the column."""
        arrow = require("pyarrow", "files", "A table of texts")
        texts = table.column(self.column).to_pylist()
        kind = list if self.options.get("tokens") else str
        for text in texts:
            if not isinstance(text, kind):
                what = "lists of words" if kind is list else "texts"
                raise InputError(f"Column '{self.column}' must hold {what}, got {text!r:.60}.")
        found = _loaded(self.model).stream(texts, **self.options)
        lines = [
            json.dumps(json_values(as_json(each, self.accept)), ensure_ascii=False)
            for each in found
        ]
        return table.append_column(self.field, arrow.array(lines, arrow.string()))


def _on_the_next_node() -> dict[str, Any]:
    """Return where Ray Data starts its next actor: on the nodes in turn.

    Ray itself would also take a head without processors, which is kept free of work.
    """
    ray: Any = require("ray", "ray", "A dataset of Ray")
    strategies = require("ray.util.scheduling_strategies", "ray", "A dataset of Ray")
    names = sorted(node["NodeID"] for node in nodes(ray))
    if not names:
        return {}
    name = names[next(_TURNS) % len(names)]
    return {"scheduling_strategy": strategies.NodeAffinitySchedulingStrategy(name, soft=True)}


def _of_batches(column: PredictedColumn, batches: Iterator[Any]) -> Iterator[Any]:
    return (column(batch) for batch in batches)


class _BatchPredictor:
    """An actor of Ray Data, which loads the model when it starts."""

    def __init__(self, column: PredictedColumn) -> None:
        self.column = column
        _loaded(column.model)

    def __call__(self, table: Any) -> Any:
        return self.column(table)
