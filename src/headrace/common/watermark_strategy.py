"""``WatermarkStrategy`` and ``TimestampAssigner``, under PyFlink's module path.

They are part of ``headrace.time``, which builds on this package: they are found when they are asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.time.watermark_strategy import TimestampAssigner, WatermarkStrategy

__all__ = ["TimestampAssigner", "WatermarkStrategy"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("headrace.time.watermark_strategy"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
