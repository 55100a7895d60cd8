"""How fast a generator may go."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.common.errors import InvalidProgramError


@dataclass(frozen=True, slots=True)
class RateLimiterStrategy:
    """A limit on generated records, over all tasks together.

    Attributes:
        records_per_second: how many records become available in a second of the job's clock; None for no limit.
        records_per_checkpoint: how many records an epoch may take; None for no limit.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
        >>> slowly = RateLimiterStrategy.per_second(100)
        >>> source = DataGeneratorSource(lambda index: index, 1_000_000, slowly, Types.LONG())
    """

    records_per_second: float | None = None
    records_per_checkpoint: int | None = None

    @staticmethod
    def per_second(records_per_second: float) -> RateLimiterStrategy:
        """So many records in a second; a job that falls behind catches up.

        Raises:
            InvalidProgramError: when the rate is not above 0.
        """
        _check_positive(records_per_second)
        return RateLimiterStrategy(records_per_second=records_per_second)

    @staticmethod
    def per_checkpoint(records_per_checkpoint: int) -> RateLimiterStrategy:
        """So many records in an epoch.

        Raises:
            InvalidProgramError: when the number is not above 0.
        """
        _check_positive(records_per_checkpoint)
        return RateLimiterStrategy(records_per_checkpoint=records_per_checkpoint)

    @staticmethod
    def no_op() -> RateLimiterStrategy:
        """As fast as the job takes them."""
        return RateLimiterStrategy()

    def available(self, position: int, elapsed: int) -> int | None:
        """How many records, counted from the start of the job, may be read now; None when there is no limit.

        Args:
            position: how many have been read.
            elapsed: milliseconds since the start.
        """
        if self.records_per_checkpoint is not None:
            return position + self.records_per_checkpoint
        if self.records_per_second is None:
            return None
        return max(position, int(elapsed * self.records_per_second / 1000))


def _check_positive(rate: float) -> None:
    if not rate > 0:
        raise InvalidProgramError(f"a rate is above 0, not {rate!r}")
