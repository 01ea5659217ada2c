"""Connect to a Ray cluster, or start one on this machine, and list its nodes."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from calibrant.distributed.quiet_start import without_error_output
from calibrant.errors import CalibrantError, InputError
from calibrant.extras import require

__all__ = [
    "HANDED_ON",
    "check_answers",
    "connected",
    "enter_place",
    "nodes",
    "resource",
    "share_of_node",
    "task_error",
]

_PATIENCE = 5.0  # Seconds to wait for an answer.
_STORE = 100 * 2**20  # Bytes of shared memory of a cluster of our own: results are small.
# Ray's own 15 leaves workers a thirtieth of the time of any other program that is busy.
_NICENESS = 0
# How HTTP/2 begins, with an empty frame of settings, and the kind of frame that answers it.
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_SETTINGS = b"\x04"
HANDED_ON = ("CALIBRANT_DATA", "CALIBRANT_ENCODERS")  # Variables that workers get as well.


@contextlib.contextmanager
def connected(address: str, *, cores: int = 1, purpose: str = "A Ray cluster") -> Iterator[Any]:
    """Connect to the cluster and yield the module ``ray``; a connection that is open is used.

    ``address`` is ``"auto"`` for the cluster that this machine belongs to, ``"host:port"`` of
    another, or ``"local"`` for one of at least ``cores`` cores that lasts as long as the block.
    """
    ray = require("ray", "ray", purpose)
    if ray.is_initialized():
        yield ray
        return
    own: dict[str, Any] = {}
    if address == "local":
        own = {"num_cpus": max(cores, os.cpu_count() or 1), "object_store_memory": _STORE}
        own |= {"include_dashboard": False, "_system_config": {"worker_niceness": _NICENESS}}
    check_answers(address.removeprefix("ray://"), _unreachable)
    _check_speaks(address.removeprefix("ray://"))
    try:
        with warnings.catch_warnings(), without_error_output():
            warnings.simplefilter("ignore")  # Ray's plans for its next version.
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **own)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise _unreachable(address, f"{str(error).splitlines()[0].rstrip('.')}.") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def nodes(ray: Any) -> list[Mapping[str, Any]]:
    """Return the nodes that are alive and run tasks."""
    return [node for node in ray.nodes() if node["Alive"] and resource(node, "CPU")]


def resource(node: Mapping[str, Any], name: str) -> float:
    """Return how much of a resource ("CPU", "GPU") a node has."""
    return float(node["Resources"].get(name, 0))


def share_of_node(node: Mapping[str, Any], jobs: int, gpus: float, *, soft: bool) -> dict[str, Any]:
    """Return the options of one of ``jobs`` tasks that share a node; soft: others may run it."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return {
        "num_cpus": max(1, int(resource(node, "CPU") // jobs)),
        "num_gpus": min(1.0, gpus / jobs),
        "scheduling_strategy": NodeAffinitySchedulingStrategy(node["NodeID"], soft=soft),
    }


def enter_place(place: str, settings: Mapping[str, str]) -> None:
    """Set variables on a worker, and enter the folder ``place`` if the worker has it.

    So relative names mean the same as on the machine that started the work.
    """
    os.environ.update(settings)
    if Path(place).is_dir():
        os.chdir(place)


def task_error(error: Any) -> BaseException:
    """Return the error of calibrant that a task raised on a worker, or Ray's own."""
    found: BaseException = error
    return error.cause if isinstance(error.cause, CalibrantError) else found


def check_answers(address: str, unreachable: Callable[[str, str], InputError]) -> None:
    """Check that ``host:port`` answers: engines themselves would try for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host, int(port)), timeout=_PATIENCE).close()
        except OSError as error:
            raise unreachable(address, f"{error.strerror or error}.") from None


def _check_speaks(address: str) -> None:
    """Check that a server of HTTP/2 is there, as Ray's are: of another, Ray waits for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or os.environ.get("RAY_USE_TLS", "0") not in ("", "0"):
        return
    try:
        with socket.create_connection((host, int(port)), timeout=_PATIENCE) as talk:
            talk.sendall(_HELLO)
            answer = talk.recv(4)
    except OSError:
        answer = b""
    if answer[3:] != _SETTINGS:
        raise _unreachable(address, "what answers there is not Ray.")


def _unreachable(address: str, reason: str) -> InputError:
    return InputError(
        f"No Ray cluster at '{address}': {reason} 'ray start --head' starts one, and the address "
        "'local' starts one only for this command. A cluster with a token needs "
        "RAY_AUTH_MODE=token here."
    )
