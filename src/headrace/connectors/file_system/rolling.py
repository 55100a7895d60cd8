"""``RollingPolicy``: when a part file is complete and becomes visible."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.common.arguments import expect
from headrace.common.errors import InvalidProgramError
from headrace.common.time import to_millis

if TYPE_CHECKING:
    import datetime

    from headrace.common.time import Duration

DEFAULT_PART_SIZE = 128 << 20
DEFAULT_INTERVAL = 60_000


class RollingPolicy(ABC):
    """Decides when a part file is complete.

    Examples:
        >>> from headrace.datastream.connectors import RollingPolicy
        >>> RollingPolicy.default_rolling_policy(part_size=64 * 1024 * 1024, rollover_interval=300_000)
        DefaultRollingPolicy(part_size=67108864, rollover_interval=300000, inactivity_interval=60000)
    """

    @staticmethod
    def default_rolling_policy(
        part_size: int = DEFAULT_PART_SIZE,
        rollover_interval: Duration | datetime.timedelta | int = DEFAULT_INTERVAL,
        inactivity_interval: Duration | datetime.timedelta | int = DEFAULT_INTERVAL,
    ) -> DefaultRollingPolicy:
        """Roll by size and age; what was written by several epochs is put together into one file.

        Args:
            part_size: bytes from which on a part is complete; it is exceeded by what one epoch wrote.
            rollover_interval: the longest time that a part stays hidden (milliseconds when an ``int``).
            inactivity_interval: how long a part waits for more (milliseconds when an ``int``).
        """
        return DefaultRollingPolicy(part_size, to_millis(rollover_interval), to_millis(inactivity_interval))

    @staticmethod
    def on_checkpoint_rolling_policy() -> OnCheckpointRollingPolicy:
        """Every epoch makes files of its own, visible as soon as it is complete."""
        return OnCheckpointRollingPolicy()

    @property
    def merges(self) -> bool:
        """Whether what several epochs wrote may become one file."""
        return True

    @abstractmethod
    def is_complete(self, size: int, first_written: int, last_written: int, now: int) -> bool:
        """Whether a part is complete.

        Args:
            size: its bytes.
            first_written: when its first record was written, in milliseconds of the job's clock.
            last_written: when its last one was.
            now: the clock.
        """

    def complete_at(self, first_written: int, last_written: int) -> int | None:
        """When a part is complete by its age, in milliseconds of the job's clock, so that a quiet job looks at it then.

        None, the default: it is looked at only when the job has something to do.
        """
        return None


@dataclass(frozen=True)
class DefaultRollingPolicy(RollingPolicy):
    """Rolls by size, age and inactivity; see :meth:`RollingPolicy.default_rolling_policy`.

    Examples:
        >>> from headrace.datastream.connectors.file_system import DefaultRollingPolicy
        >>> policy = DefaultRollingPolicy(part_size=1_000)
        >>> policy.is_complete(1_200, first_written=0, last_written=10, now=20)
        True
    """

    part_size: int = DEFAULT_PART_SIZE
    rollover_interval: int = DEFAULT_INTERVAL
    inactivity_interval: int = DEFAULT_INTERVAL

    def __post_init__(self) -> None:
        for name in ("part_size", "rollover_interval", "inactivity_interval"):
            expect(getattr(self, name), int, name)
        if min(self.part_size, self.rollover_interval, self.inactivity_interval) <= 0:
            raise InvalidProgramError("the part size and the intervals of a rolling policy are above 0")

    def is_complete(self, size: int, first_written: int, last_written: int, now: int) -> bool:
        return (
            size >= self.part_size
            or now - first_written >= self.rollover_interval
            or now - last_written >= self.inactivity_interval
        )

    def complete_at(self, first_written: int, last_written: int) -> int | None:
        return min(first_written + self.rollover_interval, last_written + self.inactivity_interval)


@dataclass(frozen=True)
class OnCheckpointRollingPolicy(RollingPolicy):
    """Rolls at every epoch.

    Examples:
        >>> from headrace.datastream.connectors.file_system import OnCheckpointRollingPolicy
        >>> OnCheckpointRollingPolicy().is_complete(1, first_written=0, last_written=0, now=0)
        True
    """

    @property
    def merges(self) -> bool:
        return False

    def is_complete(self, size: int, first_written: int, last_written: int, now: int) -> bool:
        return True

    def complete_at(self, first_written: int, last_written: int) -> int | None:
        return last_written
