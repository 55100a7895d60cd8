"""The table of the lookup join: a function that answers after a while."""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks.queries import LOOKUP_MILLIS


def weight_at_once(key: int) -> dict[str, Any]:
    """The row of a key, without waiting."""
    return {"key": key, "weight": 2.0 * key}


async def weight(key: int) -> dict[str, Any]:
    """The row of a key."""
    await asyncio.sleep(LOOKUP_MILLIS / 1000)
    return {"key": key, "weight": 2.0 * key}
