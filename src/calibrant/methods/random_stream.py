"""Random numbers for methods: seeded, one stream per rank and device, saved with the method."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

__all__ = ["Stream", "rank"]


def rank() -> int:
    """Return the rank of this process, 0 without ``torch.distributed``."""
    ready = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_rank() if ready else 0


class Stream(nn.Module):
    """A generator per device type, drawn from ``seed`` and the rank.

    Its state is part of ``state_dict``, so a resumed run continues the stream. A state saved by
    another rank (many trainers save that of rank 0 only) is not continued, or all ranks would
    draw the same numbers: it seeds a new stream together with this rank.

    >>> stream = Stream(seed=0)
    >>> first = torch.rand(2, generator=stream.generator(torch.device("cpu")))
    >>> state = stream.state_dict()
    >>> second = torch.rand(2, generator=stream.generator(torch.device("cpu")))
    >>> _ = stream.load_state_dict(state)
    >>> torch.equal(second, torch.rand(2, generator=stream.generator(torch.device("cpu"))))
    True
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed
        self._generators: dict[str, torch.Generator] = {}
        self._loaded: dict[str, Any] = {}

    def generator(self, device: torch.device) -> torch.Generator:
        """Return the generator for ``device``."""
        if device.type not in self._generators:
            self._generators[device.type] = self._make(device)
        return self._generators[device.type]

    def restart(self, seed: int, device: torch.device) -> None:
        """Restart from another seed, in place because a captured CUDA graph holds the generator."""
        self.seed, self._loaded = seed, {}
        self.generator(device).manual_seed(_mix(seed, rank()))

    def get_extra_state(self) -> dict[str, Any]:
        """Return the rank and each generator's state."""
        states = {kind: made.get_state() for kind, made in self._generators.items()}
        return {"rank": rank(), "states": {**self._loaded.get("states", {}), **states}}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Continue from a saved state, on the first device used afterwards."""
        self._loaded = state
        self._generators = {}

    def _make(self, device: torch.device) -> torch.Generator:
        generator = torch.Generator(device)
        state = self._loaded.get("states", {}).get(device.type)
        if state is None:
            generator.manual_seed(_mix(self.seed, rank()))
        elif self._loaded["rank"] == rank():
            generator.set_state(state.cpu())
        else:
            generator.manual_seed(_mix(*state.cpu().tolist(), rank()))
        return generator


def _mix(*entropy: int) -> int:
    return int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0])
