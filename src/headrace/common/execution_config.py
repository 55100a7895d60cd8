"""``ExecutionConfig``, under PyFlink's module path.

It is part of ``headrace.datastream``, which builds on this package: it is found when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.datastream.execution_config import ExecutionConfig

__all__ = ["ExecutionConfig"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("headrace.datastream.execution_config"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
