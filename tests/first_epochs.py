"""A program that goes on from a checkpoint, for as long as it takes to see whether it can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.testing import Checkpoint, JobHarness


def first_epoch(build: Callable[[JobHarness], None], checkpoint: Checkpoint, **settings: Any) -> None:
    """Go on from a checkpoint for one epoch.

    Args:
        build: the program.
        checkpoint: what it goes on from.
        settings: as for :class:`JobHarness`.
    """
    with JobHarness(build, restore=checkpoint, **settings) as harness:
        harness.run_epoch()
