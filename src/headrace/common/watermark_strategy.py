"""``WatermarkStrategy`` and ``TimestampAssigner``, under PyFlink's module path.

They are part of ``headrace.time``, which builds on this package: they are looked up on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.common.public_module import public_module

if TYPE_CHECKING:
    from headrace.time.watermark_strategy import TimestampAssigner, WatermarkStrategy

__all__ = ["TimestampAssigner", "WatermarkStrategy"]

public_module(__name__, dict.fromkeys(__all__, "headrace.time.watermark_strategy"))
