"""``GlobalWindows``: one window for all elements of a key."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.windowing.assigner import WindowAssigner
from headrace.windowing.intervals import OneWindow
from headrace.windowing.serializers import GlobalWindowSerializer
from headrace.windowing.triggers.never import EndOfStreamTrigger, NeverTrigger
from headrace.windowing.windows import GlobalWindow

if TYPE_CHECKING:
    from typing import Self

    from headrace.windowing.trigger import Trigger


@dataclass(frozen=True)
class GlobalWindows(WindowAssigner[Any, GlobalWindow]):
    """Puts all elements of a key into one window, which never fires unless the program sets a trigger.

    Examples:
        >>> from headrace.datastream.window import GlobalWindows
        >>> GlobalWindows.create().assign_windows("a", 0, None)
        [GlobalWindow()]

    Attributes:
        default_trigger: the trigger unless the program sets another.
    """

    default_trigger: Trigger[Any, GlobalWindow] = field(default_factory=NeverTrigger)

    @classmethod
    def create(cls) -> Self:
        """Windows that do not fire by themselves."""
        return cls()

    @classmethod
    def create_with_end_of_stream_trigger(cls) -> Self:
        """Windows that fire when the input ends."""
        return cls(EndOfStreamTrigger())

    @property
    def regular(self) -> OneWindow:
        """The window as arithmetic."""
        return OneWindow()

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[GlobalWindow]:
        return [GlobalWindow.get()]

    def get_default_trigger(self, env: Any) -> Trigger[Any, GlobalWindow]:
        return self.default_trigger

    def get_window_serializer(self) -> GlobalWindowSerializer:
        return GlobalWindowSerializer()

    def is_event_time(self) -> bool:
        return False

    def __str__(self) -> str:
        return type(self).__name__
