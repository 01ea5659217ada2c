"""Audits, fits, calibrated copies and predictions of what one machine does not hold.

Names are imported when they are first used: the command line needs only how engines are named.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calibrant.distributed.applying import apply
    from calibrant.distributed.auditing import audit
    from calibrant.distributed.comparing import compare
    from calibrant.distributed.copying import apply_to_files
    from calibrant.distributed.engine import Dataset, Engine, LocalEngine, Part, Parts, Rows
    from calibrant.distributed.engines import using_engine
    from calibrant.distributed.fitting import fit
    from calibrant.distributed.predicting import predict

__all__ = [
    "Dataset",
    "Engine",
    "LocalEngine",
    "Part",
    "Parts",
    "Rows",
    "apply",
    "apply_to_files",
    "audit",
    "compare",
    "fit",
    "predict",
    "using_engine",
]

_HOMES = {
    "apply": "applying",
    "apply_to_files": "copying",
    "audit": "auditing",
    "compare": "comparing",
    "fit": "fitting",
    "predict": "predicting",
    "using_engine": "engines",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'engine')}"), name)
