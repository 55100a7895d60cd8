"""Waiting for what other threads and processes do, with a patience that no loaded machine wears out."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

PATIENCE: Final = 600.0
"""Seconds after which something hangs, also on a slow machine that has a lot else to do; less than a test may take."""

_LOOK_SECONDS: Final = 0.01


def wait_for(condition: Callable[[], T]) -> T:
    """What a condition gives as soon as that is true."""
    until = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < until, "it took too long"
        time.sleep(_LOOK_SECONDS)
    return found
