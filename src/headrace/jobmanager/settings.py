"""How a job is run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.jobmanager.epoch_size import EpochLimits
    from headrace.jobmanager.restart import RestartStrategy


@dataclass(frozen=True, slots=True)
class JobSettings:
    """How a job manager works.

    Attributes:
        limits: how large epochs may be.
        restart: what happens when something fails that may pass.
        restarts_functions: whether failures of user functions may pass.
        poll_seconds: how often sources are looked at while nothing happens.
        min_interval_seconds: the shortest time between two epochs.
        epoch_timeout_seconds: an epoch that takes longer is given up and run again.
        ignore_unclaimed_state: whether what the program has no operators for is left behind.
    """

    limits: EpochLimits
    restart: RestartStrategy
    restarts_functions: bool = False
    poll_seconds: float = 0.1
    min_interval_seconds: float = 0.0
    epoch_timeout_seconds: float = 600.0
    ignore_unclaimed_state: bool = False
