"""``WatermarkStrategy``: which time a record has, how far behind others may be, and what makes watermarks of that.

A generator makes watermarks of the timestamps of a split, a batch at a time, or by the user's code. A watermark is in
force *before* a record when it follows from the records before it, so the stamps of a split depend on its records alone
and never on how they were cut into batches or epochs (Flink emits every 200 ms of wall clock, which is coarser and
differs from run to run).
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from typing import Any, Final, Generic, overload

import numpy as np
import numpy.typing as npt

from headrace.common.arguments import check_parameters
from headrace.common.batch import Stamps
from headrace.common.call_site import warn_caller
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.common.time import Duration, Time, to_millis
from headrace.common.type_variables import T, T_contra
from headrace.expressions import Bound, Column, Expression

_FEW: Final = 1024
"""The stamps of fewer records are laid out at once, which takes no longer than to find the last of them."""


class ColumnarWatermarkGenerator(ABC):
    """Turns timestamps into watermarks; immutable, its only memory is the watermark itself.

    So the pieces of a split can be read at the same time, each by a task of its own. One that looks at records, or
    remembers more, is a :class:`WatermarkGenerator`.

    Examples:
        >>> import numpy as np
        >>> from headrace.common import ColumnarWatermarkGenerator, WatermarkStrategy
        >>> class Exact(ColumnarWatermarkGenerator):
        ...     def stamp(self, timestamps, watermark):
        ...         stamps = np.maximum.accumulate(np.concatenate([[watermark], timestamps]))
        ...         return stamps[:-1], int(stamps[-1])
        >>> strategy = WatermarkStrategy.for_generator(Exact())
    """

    @abstractmethod
    def stamp(self, timestamps: npt.NDArray[np.int64], watermark: int) -> tuple[npt.NDArray[np.int64], int]:
        """The watermark in force before each record, and the one after the last.

        Args:
            timestamps: event times in milliseconds.
            watermark: the watermark before the first record.
        """

    def stamp_later(
        self, timestamps: npt.NDArray[np.int64], watermark: int
    ) -> tuple[npt.NDArray[np.int64] | Stamps, int]:
        """The same, where watermarks may be laid out only when they are read."""
        return self.stamp(timestamps, watermark)


@dataclass(frozen=True, slots=True)
class BoundedOutOfOrderness(ColumnarWatermarkGenerator):
    """``largest timestamp so far - bound - 1 ms`` (Flink's ``BoundedOutOfOrdernessWatermarks``).

    Attributes:
        bound: how far a record may be behind the newest one, in milliseconds; 0 for ascending timestamps.
    """

    bound: int

    def stamp(self, timestamps: npt.NDArray[np.int64], watermark: int) -> tuple[npt.NDArray[np.int64], int]:
        stamps = np.empty(len(timestamps) + 1, dtype=np.int64)
        stamps[0] = watermark
        # Raised to the lowest value that does not wrap: a record without a timestamp must not push the watermark.
        np.maximum(timestamps, MIN_WATERMARK + self.bound + 1, out=stamps[1:])
        stamps[1:] -= self.bound + 1
        np.maximum.accumulate(stamps, out=stamps)
        return stamps[:-1], int(stamps[-1])

    def stamp_later(
        self, timestamps: npt.NDArray[np.int64], watermark: int
    ) -> tuple[npt.NDArray[np.int64] | Stamps, int]:
        if len(timestamps) < _FEW:
            return self.stamp(timestamps, watermark)
        last = max(watermark, self._behind(int(timestamps[:-1].max())))
        return _StampsOfLargest(self, timestamps, watermark, last), max(last, self._behind(int(timestamps[-1])))

    def _behind(self, largest: int) -> int:
        """The watermark behind the largest timestamp so far."""
        return max(largest - self.bound - 1, MIN_WATERMARK)


@dataclass(frozen=True)
class _StampsOfLargest:
    """The stamps of a batch; see :class:`headrace.common.batch.Stamps`.

    Attributes:
        generator: makes them.
        timestamps: the event times of the records.
        watermark: the watermark before the first record.
        last: the watermark that the last record meets.
    """

    generator: BoundedOutOfOrderness
    timestamps: npt.NDArray[np.int64]
    watermark: int
    last: int

    @cached_property
    def each(self) -> npt.NDArray[np.int64]:
        """The watermark that each record meets."""
        return self.generator.stamp(self.timestamps, self.watermark)[0]


@dataclass(frozen=True, slots=True)
class ExpressionWatermarks(ColumnarWatermarkGenerator):
    """The largest value so far of an expression over the records; one that is null counts for nothing.

    Attributes:
        expression: gives milliseconds (an integer) or a timestamp.
    """

    expression: Bound

    def stamp(self, timestamps: npt.NDArray[np.int64], watermark: int) -> tuple[npt.NDArray[np.int64], int]:
        """The same, of the values of the expression in the place of timestamps; ``MIN_WATERMARK`` for null."""
        stamps = np.empty(len(timestamps) + 1, dtype=np.int64)
        stamps[0], stamps[1:] = watermark, timestamps
        np.maximum.accumulate(stamps, out=stamps)
        return stamps[:-1], int(stamps[-1])


@dataclass(frozen=True, slots=True)
class NoWatermarks(ColumnarWatermarkGenerator):
    """Never a watermark, until the input ends."""

    def stamp(self, timestamps: npt.NDArray[np.int64], watermark: int) -> tuple[npt.NDArray[np.int64], int]:
        return np.full(len(timestamps), watermark, dtype=np.int64), watermark


Json = Any
"""Anything that :mod:`json` can write."""

_INTEGERS: Final = (int, np.integer)


class WatermarkOutput:
    """Takes the watermarks of one generator; one that is not above those before it changes nothing.

    Args:
        watermark: the watermark that was reached before.

    Attributes:
        watermark: the highest one so far.

    Examples:
        >>> from headrace.common import WatermarkOutput
        >>> output = WatermarkOutput()
        >>> output.emit_watermark(2_000)
        >>> output.emit_watermark(1_000)
        >>> output.watermark
        2000
    """

    __slots__ = ("watermark",)

    def __init__(self, watermark: int = MIN_WATERMARK) -> None:
        self.watermark = watermark

    def emit_watermark(self, watermark: int | np.integer[Any]) -> None:
        """No record with a timestamp up to ``watermark``, in milliseconds, is expected any more.

        Raises:
            InvalidTypeError: when it is no 64-bit integer.
        """
        if not _is_long(watermark):
            raise InvalidTypeError(f"a watermark is an int, the milliseconds since 1970, not {watermark!r:.200}")
        if watermark > self.watermark:
            self.watermark = int(watermark)


class WatermarkGenerator(ABC, Generic[T_contra]):
    """Makes the watermarks of one split, from records and their timestamps.

    A watermark that is emitted for a record holds from the next record on. Each split has a generator of its own, and
    its fields are part of the checkpoint: see :meth:`snapshot_state`.

    Examples:
        >>> from headrace.common import WatermarkGenerator, WatermarkStrategy
        >>> class AtMarkers(WatermarkGenerator):
        ...     def on_event(self, event, event_timestamp, output):
        ...         if event["is_marker"]:
        ...             output.emit_watermark(event_timestamp)
        >>> strategy = WatermarkStrategy.for_generator(AtMarkers).with_timestamp_assigner(lambda event, _: event["at"])
    """

    @abstractmethod
    def on_event(self, event: T_contra, event_timestamp: int, output: WatermarkOutput) -> None:
        """Called for every record; a punctuated generator emits here.

        Args:
            event: the record.
            event_timestamp: its timestamp in milliseconds.
            output: takes watermarks.
        """

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Called after every record, since results must not depend on an interval of the wall clock, as in Flink."""

    def snapshot_state(self) -> Json:
        """The state needed to go on after this record, as JSON: the fields, where this is not overridden."""
        return dict(vars(self))

    def restore_state(self, state: Json) -> None:
        """Go on from what :meth:`snapshot_state` gave; sets the fields, where this is not overridden."""
        vars(self).update(state)


@dataclass(frozen=True, slots=True)
class GeneratorPerSplit:
    """Watermarks by a generator of the user, of which each split has one.

    Attributes:
        supplier: makes a generator.
    """

    supplier: Callable[[], WatermarkGenerator]

    def restored(self, state: Json) -> WatermarkGenerator:
        """A generator that goes on from a state; a new one where that is None.

        Raises:
            InvalidTypeError: when the supplier makes something else.
        """
        generator = self.supplier()
        if not is_generator(generator):
            raise InvalidTypeError(
                f"for_generator({self.supplier!r}) has to be given what makes a WatermarkGenerator, which "
                f"{generator!r:.200} is not"
            )
        if state is not None:
            generator.restore_state(state)
        return generator


def _is_long(value: object) -> bool:
    return isinstance(value, _INTEGERS) and bool(MIN_WATERMARK <= value <= MAX_WATERMARK)


def is_generator(value: object) -> bool:
    """Return whether something is a generator, whatever it was declared to be."""
    return isinstance(value, WatermarkGenerator)


def stored_state(generator: WatermarkGenerator) -> Json:
    """The state of a generator as it comes back from a checkpoint.

    Raises:
        InvalidProgramError: when it is no JSON.
    """
    state = generator.snapshot_state()
    try:
        found: Json = json.loads(json.dumps(state))
    except (TypeError, ValueError) as error:
        raise InvalidProgramError(
            f"the state of {type(generator).__name__} cannot be stored in a checkpoint ({error}): keep text, numbers, "
            f"lists and dicts in its fields, or override snapshot_state() and restore_state(); it is {state!r:.200}"
        ) from error
    return found


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
    """The limit on the drift between the splits of a group.

    Attributes:
        group: the name of the group.
        max_drift: how far a split may be ahead of the slowest one, in milliseconds.
    """

    group: str
    max_drift: int


Assigner = (
    TimestampAssigner | Callable[[Any, int], int] | FieldTimestamps | ExpressionTimestamps | IngestionTimeAssigner
)
"""The origin of the event time of records."""


@dataclass(frozen=True, slots=True)
class WatermarkStrategy(Generic[T_contra]):
    """The extraction of event time from records. Immutable: every ``with_…`` returns a new strategy with all else kept.

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
