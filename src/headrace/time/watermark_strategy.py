"""``WatermarkStrategy``: which time a record has, and how far behind the newest one the others may be."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Generic, overload

from headrace.common.arguments import check_parameters
from headrace.common.call_site import warn_caller
from headrace.common.errors import InvalidProgramError
from headrace.common.time import Duration, Time, to_millis
from headrace.common.type_variables import T, T_contra
from headrace.expressions import Column, Expression
from headrace.time.watermarks import (
    BoundedOutOfOrderness,
    ColumnarWatermarkGenerator,
    GeneratorPerSplit,
    NoWatermarks,
    WatermarkGenerator,
    is_generator,
)


class TimestampAssigner(ABC, Generic[T_contra]):
    """Tells the event time of a record.

    Examples:
        >>> from headrace.common import TimestampAssigner, WatermarkStrategy
        >>> class PaidAt(TimestampAssigner):
        ...     def extract_timestamp(self, value, record_timestamp):
        ...         return value["seconds"] * 1000
        >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(PaidAt())
    """

    @abstractmethod
    def extract_timestamp(self, value: T_contra, record_timestamp: int) -> int:
        """The event time of ``value`` in milliseconds since the epoch.

        Args:
            value: the record.
            record_timestamp: the timestamp that the record has already, or ``NO_TIMESTAMP`` (Long.MIN).
        """


@dataclass(frozen=True, slots=True)
class FieldTimestamps:
    """Takes event time from a column, without a Python call for each record.

    Attributes:
        field: name or index of a field that holds milliseconds (an integer) or a timestamp.
    """

    field: str | int


@dataclass(frozen=True, slots=True)
class ExpressionTimestamps:
    """Takes event time from an expression, which is computed for whole batches.

    Attributes:
        expression: gives milliseconds (an integer) or a timestamp.
    """

    expression: Expression


@dataclass(frozen=True, slots=True)
class IngestionTimeAssigner:
    """Event time is when a record is read: the clock of the epoch that reads it, the same for all of its records.

    A task that runs again stamps them with the same time. A job that reads them again, since nothing of the epoch was
    kept, stamps them anew.

    Examples:
        >>> from headrace.common import IngestionTimeAssigner, WatermarkStrategy
        >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(IngestionTimeAssigner())
    """


@dataclass(frozen=True, slots=True)
class WatermarkAlignment:
    """How far the splits of a group may drift apart.

    Attributes:
        group: the name of the group.
        max_drift: how far a split may be ahead of the slowest one, in milliseconds.
    """

    group: str
    max_drift: int


Assigner = (
    TimestampAssigner | Callable[[Any, int], int] | FieldTimestamps | ExpressionTimestamps | IngestionTimeAssigner
)
"""Whatever tells the event time of records."""


@dataclass(frozen=True, slots=True)
class WatermarkStrategy(Generic[T_contra]):
    """How event time is taken from records. Immutable: every ``with_…`` returns a new strategy with all else kept.

    Attributes:
        generator: makes watermarks.
        timestamp_assigner: takes the timestamp from a record; None leaves the source's own.
        idle_timeout: after how many milliseconds without a record a split no longer holds others back; None for never.
        alignment: how far splits may be ahead of others; None for any distance.

    Examples:
        >>> from headrace.common import Duration, WatermarkStrategy
        >>> strategy = (
        ...     WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
        ...     .with_timestamp_assigner("time")  # a field of the record, in milliseconds
        ...     .with_idleness(Duration.of_minutes(1))
        ... )
    """

    generator: ColumnarWatermarkGenerator | GeneratorPerSplit
    timestamp_assigner: Assigner | None = None
    idle_timeout: int | None = None
    alignment: WatermarkAlignment | None = None

    @property
    def has_memory(self) -> bool:
        """Return whether its watermarks follow from more than timestamps and the watermark before."""
        return isinstance(self.generator, GeneratorPerSplit)

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: Duration | Time | timedelta | int) -> WatermarkStrategy:
        """Records are at most this much behind the newest one; ``watermark = newest - bound - 1 ms``.

        Raises:
            InvalidProgramError: when the bound is negative.
        """
        bound = to_millis(max_out_of_orderness)
        if bound < 0:
            raise InvalidProgramError(f"the bound of out-of-orderness cannot be negative, it is {bound} ms")
        return WatermarkStrategy(BoundedOutOfOrderness(bound))

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """Timestamps of a split never fall; equal ones are not late."""
        return WatermarkStrategy(BoundedOutOfOrderness(0))

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """Event time stands still until a bounded input ends."""
        return WatermarkStrategy(NoWatermarks())

    @staticmethod
    def for_generator(
        generator: Callable[[], WatermarkGenerator[T]] | ColumnarWatermarkGenerator,
    ) -> WatermarkStrategy[T]:
        """Watermarks by a generator of your own.

        Args:
            generator: makes a :class:`WatermarkGenerator`, one for each split: its class, or a function without
                arguments. Or a ``ColumnarWatermarkGenerator``, which sees the timestamps of whole batches.

        Raises:
            InvalidProgramError: when it is neither.
        """
        if isinstance(generator, ColumnarWatermarkGenerator):
            return WatermarkStrategy(generator)
        if is_generator(generator) or not callable(generator):
            raise InvalidProgramError(
                "for_generator() takes what makes a WatermarkGenerator, since each split has one of its own: its class "
                f"or a function without arguments, not {generator!r:.200}"
            )
        return WatermarkStrategy(GeneratorPerSplit(generator))

    @overload
    def with_timestamp_assigner(self, timestamp_assigner: TimestampAssigner[T]) -> WatermarkStrategy[T]: ...
    @overload
    def with_timestamp_assigner(
        self, timestamp_assigner: Callable[[Any, int], int] | str | Expression | IngestionTimeAssigner
    ) -> WatermarkStrategy: ...
    def with_timestamp_assigner(self, timestamp_assigner: Any) -> WatermarkStrategy:
        """Take event time from the record.

        Args:
            timestamp_assigner: a :class:`TimestampAssigner`, a function of ``(value, record_timestamp)``, the name of
                a field that holds milliseconds or a timestamp, or an expression that gives such (these are the fast
                way: no Python call for each record); or an :class:`IngestionTimeAssigner`.

        Raises:
            InvalidProgramError: when it is none of these, or takes other parameters.
        """
        if isinstance(timestamp_assigner, str):
            return replace(self, timestamp_assigner=FieldTimestamps(timestamp_assigner))
        if isinstance(timestamp_assigner, Column):
            return replace(self, timestamp_assigner=FieldTimestamps(timestamp_assigner.key))
        if isinstance(timestamp_assigner, Expression):
            return replace(self, timestamp_assigner=ExpressionTimestamps(timestamp_assigner))
        is_known = isinstance(timestamp_assigner, TimestampAssigner | IngestionTimeAssigner)
        if not is_known and not callable(timestamp_assigner):
            raise InvalidProgramError(
                "a timestamp assigner is a TimestampAssigner, a function of (value, record_timestamp), a field's name "
                f"or an expression, not {timestamp_assigner!r}"
            )
        check_parameters(timestamp_assigner, TimestampAssigner, "extract_timestamp")
        return replace(self, timestamp_assigner=timestamp_assigner)

    def with_idleness(self, idle_timeout: Duration | Time | timedelta | int) -> WatermarkStrategy[T_contra]:
        """Leave a split out of the minimum after it has been silent for this long (processing time).

        Unlike in PyFlink, a timestamp assigner that was set before is kept.

        Raises:
            InvalidProgramError: when the timeout is not positive.
        """
        timeout = to_millis(idle_timeout)
        if timeout <= 0:
            raise InvalidProgramError(f"the idle timeout must be positive, it is {timeout} ms")
        return replace(self, idle_timeout=timeout)

    def with_watermark_alignment(
        self,
        watermark_group: str,
        max_allowed_watermark_drift: Duration | Time | timedelta | int,
        update_interval: Duration | Time | timedelta | int | None = None,
    ) -> WatermarkStrategy[T_contra]:
        """Do not read splits whose watermark is further ahead of the slowest one of their group, until that follows.

        A group is made of all splits of all sources whose strategy names it. A split that waits is not idle. One that
        is silent holds the others of its group, so give it an idle timeout. Unlike in PyFlink, a timestamp assigner
        that was set before is kept.

        Args:
            watermark_group: the name of the group.
            max_allowed_watermark_drift: how far a split may be ahead.
            update_interval: without effect, for watermarks are compared before every epoch.

        Raises:
            InvalidProgramError: when the drift is negative.
        """
        drift = to_millis(max_allowed_watermark_drift)
        if drift < 0:
            raise InvalidProgramError(f"the allowed drift cannot be negative, it is {drift} ms")
        if isinstance(self.generator, NoWatermarks):
            warn_caller("alignment has no effect: the strategy makes no watermarks that could be compared")
            return self
        if update_interval is not None:
            warn_caller("update_interval has no effect: watermarks are compared before every epoch")
        return replace(self, alignment=WatermarkAlignment(watermark_group, drift))
