"""Watermark generators of users: Flink's ``WatermarkGenerator``, which is asked record by record."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic

import numpy as np

from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.common.type_variables import T_contra

if TYPE_CHECKING:
    from collections.abc import Callable

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


def _is_long(value: Any) -> bool:
    return isinstance(value, _INTEGERS) and bool(MIN_WATERMARK <= value <= MAX_WATERMARK)


def is_generator(value: object) -> bool:
    """Whether something is a generator, whatever it was declared to be."""
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
