"""What assigners of windows of time have in common, by the time that they mean."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from headrace.common.constants import NO_TIMESTAMP
from headrace.common.errors import InvalidProgramError
from headrace.common.type_variables import T_contra
from headrace.windowing.assigner import WindowAssigner
from headrace.windowing.serializers import TimeWindowSerializer
from headrace.windowing.triggers.end_of_window import EventTimeTrigger, ProcessingTimeTrigger
from headrace.windowing.windows import TimeWindow

if TYPE_CHECKING:
    from headrace.windowing.trigger import Trigger


class TimeWindowAssigner(WindowAssigner[T_contra, TimeWindow]):
    """An assigner of windows that follow from an element's time, and perhaps from the element."""

    __slots__ = ()

    @abstractmethod
    def windows_at(
        self, time: int, element: T_contra, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        """The windows of an element whose time, of the domain that the assigner means, is this."""

    def get_window_serializer(self) -> TimeWindowSerializer:
        return TimeWindowSerializer()


class EventTimeAssigner(TimeWindowAssigner[T_contra]):
    """By the timestamps of the elements."""

    __slots__ = ()

    @property
    def reach(self) -> int:
        """How far from a timestamp its windows lie at most, in milliseconds; 0 where only the elements say it."""
        return 0 if self.regular is None else self.regular.reach

    def assign_windows(
        self, element: T_contra, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        if timestamp == NO_TIMESTAMP:
            raise InvalidProgramError(
                f"{self}: an element has no timestamp. The WatermarkStrategy before the window needs a timestamp "
                'assigner, such as .with_timestamp_assigner("time"); or use windows of processing time'
            )
        return self.windows_at(timestamp, element, context)

    def get_default_trigger(self, env: Any) -> Trigger[Any, TimeWindow]:
        return EventTimeTrigger.create()

    def is_event_time(self) -> bool:
        return True


class ProcessingTimeAssigner(TimeWindowAssigner[T_contra]):
    """By the job's clock when the element comes."""

    __slots__ = ()

    def assign_windows(
        self, element: T_contra, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        return self.windows_at(context.get_current_processing_time(), element, context)

    def get_default_trigger(self, env: Any) -> Trigger[Any, TimeWindow]:
        return ProcessingTimeTrigger.create()

    def is_event_time(self) -> bool:
        return False
