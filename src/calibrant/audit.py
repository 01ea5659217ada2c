"""The old name of :mod:`calibrant.auditing`: works for one release and warns.

Importing this module puts it in the place of the function ``calibrant.audit``, so it can be called.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from calibrant import auditing
from calibrant.old_names import warn_renamed


class _CallableModule(ModuleType):
    def __call__(self, *args: Any, **options: Any) -> auditing.Audit:
        return auditing.audit(*args, **options)

    def __getattr__(self, name: str) -> Any:
        if name not in auditing.__all__:
            raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
        warn_renamed(f"calibrant.audit.{name}", f"calibrant.auditing.{name}")
        return getattr(auditing, name)


sys.modules[__name__].__class__ = _CallableModule
