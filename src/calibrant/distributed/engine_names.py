"""The name of an engine and the address of its cluster, as ``--engine`` takes them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from calibrant.errors import unknown_name

__all__ = ["ADDRESS", "EngineName", "parse_engine"]

# The engines, each with what its address is called.
ADDRESS = {"ray": "ADDRESS", "spark": "MASTER"}


class EngineName(NamedTuple):
    """An engine and its cluster: "auto", "local" or host:port of Ray, the master of Spark."""

    name: str
    address: str


def parse_engine(given: str, known: Sequence[str] = tuple(ADDRESS)) -> EngineName:
    """Read an engine; without an address it is a cluster of this machine.

    >>> parse_engine("ray:10.0.0.1:6379")
    EngineName(name='ray', address='10.0.0.1:6379')
    >>> parse_engine("spark")
    EngineName(name='spark', address='local[*]')
    """
    name, _, address = given.partition(":")
    if name not in known:
        raise unknown_name("engine", name, known)
    if not address:
        address = os.environ.get("RAY_ADDRESS", "local") if name == "ray" else "local[*]"
    return EngineName(name, address)
