"""Watermark generators: how the timestamps of a split become watermarks, a batch at a time, or by the user's code.

A watermark is in force *before* a record when it follows from the records before it, so the stamps of a split depend on
its records alone and never on how they were cut into batches or epochs (Flink emits every 200 ms of wall clock, which
is coarser and differs from run to run).
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Generic

import numpy as np
import numpy.typing as npt

from headrace.common.batch import Stamps
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.common.type_variables import T_contra
from headrace.expressions import Bound

_FEW: Final = 1024
"""The stamps of fewer records are laid out at once, which takes no longer than to find the last of them."""


class ColumnarWatermarkGenerator(ABC):
    """Turns timestamps into watermarks; immutable, its only memory is the watermark itself.

    So the pieces of a split can be read at the same time, each by a task of its own. One that looks at records, or
    remembers more, is a :class:`headrace.time.watermarks.WatermarkGenerator`.

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
        """The same, where watermarks may be laid out only when somebody looks at them."""
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
        """What has to be known to go on after this record, as JSON: the fields, where this is not overridden."""
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
